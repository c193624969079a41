-- SPDX-License-Identifier: MIT
-- The two views of inspect_process that attach: with which settings a process runs, as it itself has them; and which requests hang, with
-- the stacks of their threads. Each over processes whose settings and handlers are known.
local h = require("harness")

local RUNTIMES <const> = { "net10.0", "net9.0", "net8.0" }
local SECRET <const> = "hunter2Lunette"

-- All runtimes that are here, side by side.
local function each_runtime(skip, fn)
  local todo, reason = {}, nil
  for _, runtime in ipairs(RUNTIMES) do
    local built, why = h.build_target(runtime)
    if built then todo[#todo + 1] = function() fn(runtime) end else reason = why end
  end
  if #todo == 0 then skip(reason) end
  h.together(todo)
end

-- A view, acknowledged as it is on the command line. wrapper: words before the program.
local function inspect(view, target, wrapper)
  local argv = { table.unpack(wrapper or {}) }
  local words = { h.lunette, "call", "inspect_process", "view=" .. view, "processId=" .. target.pid, "--approve", "--json" }
  table.move(words, 1, #words, #argv + 1, argv)
  local done = assert(h.loop.exec { argv = argv, timeout_ms = 120000, max_output = 4 * 1024 * 1024 })
  local envelope = h.ok(h.json.decode(done.stdout), done.stdout .. done.stderr)
  require("conform").check("inspect_process", envelope)
  h.ok(not done.stdout:find(SECRET, 1, true), "no secret is told")
  return envelope
end

local function config_of(envelope) return h.ok(envelope.data, h.json.encode(envelope.error or {})).runtimeConfig end

local function value_of(rows, name)
  local row = h.find(rows, { name = name })
  return row and row.value
end

local function settings(skip)
  each_runtime(skip, function(runtime)
    local target <close> = h.target(runtime, "cpu", nil, { environment = {
      DOTNET_gcServer = "1", DOTNET_GCHeapCount = "2", DOTNET_gcConcurrent = "0", DOTNET_TieredPGO = "0",
      DOTNET_ThreadPool_ForceMinWorkerThreads = "b", ASPNETCORE_ENVIRONMENT = "Production", SHOP_PASSWORD = SECRET,
      ASPNETCORE_Kestrel__Certificates__Default__Password = SECRET,
    } })
    local c = config_of(inspect("runtime-config", target))
    h.eq({ true, 2, false, false }, { c.gc.isServerGc, c.gc.heapCount, c.gc.isConcurrent, c.gc.isBackground }, runtime .. ": the collector")
    h.eq({ 11, 32767, true }, { c.threadPool.minWorkerThreads, c.threadPool.maxWorkerThreads, c.threadPool.hillClimbingEnabled }, runtime)
    h.eq({ nil, nil, false }, { c.tieredCompilation.enabled, c.tieredCompilation.quickJitEnabled, c.tieredCompilation.dynamicPgoEnabled })
    h.eq({ "1", "Production", nil }, { value_of(c.envVars, "DOTNET_gcServer"), value_of(c.envVars, "ASPNETCORE_ENVIRONMENT"),
      value_of(c.envVars, "SHOP_PASSWORD") }, runtime .. ": variables")
    for _, row in ipairs(c.envVars) do
      h.ok(row.name:find("^DOTNET_") or row.name:find("^COMPlus_") or row.name:find("^ASPNETCORE_"), "of the runtime: " .. row.name)
    end
    h.eq("true", value_of(c.appContextSwitches, "System.Globalization.Invariant"), runtime .. ": switches of the program")
    for _, row in ipairs(c.appContextSwitches) do h.ok(row.name:find("^%u%w+%."), row.name) end
    h.ok(table.concat(c.notes, " "):find("lunette-target.runtimeconfig.json", 1, true), "where they are from")
    h.ok(target:command("quit", "^BYE"), "it runs on")
  end)
end

local function workstation(skip)
  local built, why = h.build_target("net10.0")
  if not built then skip(why) end
  local target <close> = h.target("net10.0", "idle")
  local envelope = inspect("runtime-config", target)
  local c = config_of(envelope)
  h.eq({ false, 1, nil }, { c.gc.isServerGc, c.gc.heapCount, c.tieredCompilation }, "as it is by itself")
  h.eq("counters", envelope.hints[1].suggestedArguments.kind, "the hint")
end

--- Root without the right to attach to other users' processes: it answers, and says what it could not see.
local function attach_refused(skip)
  local id = h.loop.exec { argv = { "id", "-u" }, timeout_ms = 5000 }
  if id.stdout ~= "0\n" then skip("only root can give up the right to attach") end
  local built, why = h.build_target("net10.0")
  if not built then skip(why) end
  local target <close> = h.target("net10.0", "idle", nil, {
    wrapper = { "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups" }, environment = { HOME = "/tmp" },
  })
  local envelope = inspect("runtime-config", target, { "setpriv", "--bounding-set", "-sys_ptrace" })
  local c = config_of(envelope)
  h.eq({ nil, nil, target.pid }, { c.gc, c.threadPool, c.processId }, "nothing is made up")
  local notes = table.concat(c.notes, "\n")
  h.ok(notes:find("gc, threadPool: ", 1, true), "the reason: " .. notes)
end

local function requests(skip)
  each_runtime(skip, function(runtime)
    local target <close> = h.target(runtime, "web", 4)
    local envelope
    for _ = 1, 3 do -- between two requests there is a moment without one
      envelope = inspect("requests-now", target)
      h.ok(envelope.data, runtime .. ": " .. h.json.encode(envelope.error or {}))
      if #envelope.data.requestsNow > 0 then break end
    end
    local rows = envelope.data.requestsNow
    h.ok(#rows >= 1 and #rows <= 4, runtime .. ": requests in flight: " .. #rows .. " " .. envelope.summary)
    local sleeping = 0
    for _, row in ipairs(rows) do
      h.eq({ "GET", "/slow", 32 }, { row.method, row.endpoint, #row.traceId }, runtime)
      h.ok(row.threadId > 0 and #row.topFrames <= 8 and row.startedAtMs >= 0 and row.startedAtMs < 60000, runtime .. h.json.encode(row))
      local stack = table.concat(row.topFrames, "\n")
      if stack:find("Thread.Sleep", 1, true) then
        sleeping = sleeping + 1
        h.ok(stack:find("Lunette.Target.Web.Answer(", 1, true), runtime .. ": the handler: " .. stack)
      end
    end
    h.ok(sleeping >= 1, runtime .. ": what they do: " .. h.json.encode(rows))
    h.ok(h.find(envelope.hints, { nextTool = "collect_thread_snapshot" }), "the next step")
    h.no_session(target)
  end)
end

local function no_requests(skip)
  local built, why = h.build_target("net10.0")
  if not built then skip(why) end
  local target <close> = h.target("net10.0", "idle")
  local envelope = inspect("requests-now", target)
  h.eq(0, #h.ok(envelope.data, h.json.encode(envelope.error or {})).requestsNow, "none")
  h.eq({ "collect_events", "counters" }, { envelope.hints[1].nextTool, envelope.hints[1].suggestedArguments.kind }, "the hint")
  h.ok(envelope.summary:find("NoAspNetCore", 1, true), "why: " .. envelope.summary)
end

return {
  { "settings of the collector, the pool, the environment and switches", settings },
  { "a workstation process without settings", workstation },
  { "an attach that is refused still answers", attach_refused },
  { "requests that hang, with their stacks", requests },
  { "a process without requests", no_requests },
}
