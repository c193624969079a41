-- SPDX-License-Identifier: MIT
-- Collections as a client sees them: progress, tasks and their end, standard input that closes, and a recording that tells what the live
-- process told.
local events = require("lunette.events")
local h = require("harness")
local known = require("known_values")

local TASKS <const> = { extensions = { ["io.modelcontextprotocol/tasks"] = {} } }

local function need(skip)
  local ok, why = h.build_target("net10.0")
  if not ok then skip(why) end
end

local function progress(skip)
  need(skip)
  local target <close> = h.target("net10.0", "idle")
  local server <close> = h.server()
  local envelope, messages = server:call("collect_events", { processId = target.pid, durationSeconds = 4 }, { progress = true })
  h.eq(nil, h.ok(envelope).error, "no error")
  local values = {}
  for _, message in ipairs(messages) do
    if message.method == "notifications/progress" then
      h.eq("p", message.params.progressToken, "progressToken")
      h.eq(100, message.params.total, "total")
      if #values > 0 then h.ok(message.params.progress > values[#values], "progress rises") end
      values[#values + 1] = message.params.progress
    end
  end
  h.ok(#values >= 4 and #values <= 7, ("about one a second, got %d"):format(#values))
  h.eq(100, values[#values], "the last one")
end

local function make_task(server, target, seconds)
  local made = h.ok(server:request("tools/call",
    { name = "collect_events", arguments = { processId = target.pid, durationSeconds = seconds } }, { capabilities = TASKS }))
  h.eq("task", made.resultType, "a task is made")
  return made.taskId
end

local function task_of(server, id) return h.ok(server:request("tasks/get", { taskId = id }, { capabilities = TASKS })) end

local function task_completes(skip)
  need(skip)
  local target <close> = h.target("net10.0", "counters")
  local server <close> = h.server()
  local id = make_task(server, target, 2)
  local done = h.wait_for("the task", h.START_MS, function()
    local task = task_of(server, id)
    return task.status ~= "working" and task
  end)
  h.eq("completed", done.status, "status")
  local envelope = done.result.structuredContent
  h.eq(target.pid, envelope.data.counters.processId, "the result of the call")
  h.eq(nil, h.ok(server:call("query_snapshot", { handle = envelope.handle, view = "byProvider" })).error, "its handle works")
end

local function task_cancelled(skip)
  need(skip)
  local target <close> = h.target("net10.0", "counters")
  local server <close> = h.server()
  h.loop.sleep_ms(1600)
  local before = h.usage(server.pid)
  local id = make_task(server, target, 60)
  h.wait_for("the session to open", h.START_MS, function() return h.connections(target.pid) > 0 end)
  h.ok(server:request("tasks/cancel", { taskId = id }, { capabilities = TASKS }))
  h.no_session(target)
  h.eq("cancelled", task_of(server, id).status, "status")
  h.settled(server, before)
end

local function standard_input_closes(skip)
  need(skip)
  local target <close> = h.target("net10.0", "counters")
  h.loop.sleep_ms(1600)
  local meta = { ["io.modelcontextprotocol/protocolVersion"] = "2026-07-28", ["io.modelcontextprotocol/clientCapabilities"] = {} }
  local line = h.json.encode { jsonrpc = "2.0", id = 1, method = "tools/call", params = {
    name = "collect_events", arguments = { processId = target.pid, durationSeconds = 60 }, _meta = meta } }
  local started = h.loop.now_ms()
  local done = assert(h.loop.exec { argv = { h.lunette, "serve", "--stdio" }, stdin = line .. "\n", timeout_ms = 50000 })
  h.eq(0, done.code, "exit code: " .. tostring(done.stderr))
  h.ok(h.loop.now_ms() - started < 30000, "ends with its input, not with the window")
  for text in done.stdout:gmatch("[^\n]+") do h.ok(h.json.decode(text), "nothing but JSON on standard output: " .. text) end
  h.no_session(target)
end

--- A session of our own, saved as it comes, then read from the file.
local function recording(runtime)
  return function(skip)
    local ok, why = h.build_target(runtime)
    if not ok then skip(why) end
    local target <close> = h.target(runtime, "counters")
    local path = h.scratch() .. "/session.nettrace"
    local argument = "EventCounterIntervalSec=1"
    local source <close> = assert(events.open {
      pid = target.pid, save_to = path, buffer_mb = 16, want = { { provider = "System.Runtime", event = "ProcessorCount" } },
      providers = {
        { name = "System.Runtime", keywords = 2, level = 4, args = argument },
        { name = "Lunette-Test", keywords = 0, level = 4, args = argument },
        {
          name = "System.Diagnostics.Metrics", keywords = 2, level = 4,
          args = "SessionId=SHARED;ClientId=3d9a5a3c-92e0-4a54-9b6e-0d6b2f1c7a90;Metrics=Lunette.Test;RefreshInterval=1;MaxTimeSeries=100;"
            .. "MaxHistograms=20",
        },
      },
    })
    h.loop.sleep_ms(4300)
    local summary = assert(source:stop(5000))
    h.eq(true, summary.complete, "a complete stream")
    local arguments = {
      traceFilePath = path, depth = "Detail", providers = { "System.Runtime", "Lunette-Test" }, meters = { "Lunette.Test" },
    }
    local first, again = h.call("collect_events", arguments), h.call("collect_events", arguments)
    h.eq(nil, first.error, "no error")
    local data = first.data.counters
    h.eq(target.pid, data.processId, "processId")
    known.event_counters(data.counters)
    known.meters(data.meters, 2)
    h.ok(data.processorCount, "processorCount")
    h.eq("", table.concat(data.notes, " "), "notes")
    h.eq(data.cost.events, again.data.counters.cost.events, "the same file has the same events")
    data.cost, again.data.counters.cost = nil, nil -- our CPU time differs from run to run
    h.eq(data, again.data.counters, "the same file tells the same")
  end
end

return {
  { "progress about once a second, 100 at the end", progress },
  { "a task that completes", task_completes },
  { "a task that is cancelled ends its session", task_cancelled },
  { "standard input that closes ends the session", standard_input_closes },
  { "a recording of net10.0 tells what the process told", recording("net10.0") },
  { "a recording of net8.0 tells what the process told", recording("net8.0") },
  { "a recording of NativeAOT tells what the process told", recording("aot") },
}
