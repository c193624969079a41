-- SPDX-License-Identifier: MIT
-- Walks of a heap that go wrong: files that are cut, damaged or of another kind; a target, a worker, a client or a server that ends in the
-- middle. The answer says what happened, the server goes on, and the target is never left standing.
local h = require("harness")
local memory = require("lunette.memory")

local PHASES <const> = { "opening", "making room", "looking", "copying", "walking", "writing" }

local function build(skip)
  local done = assert(h.loop.exec { argv = { "sh", h.source .. "/tests/targets/memory/build.sh", h.targets .. "/memory", "net10.0" },
    timeout_ms = 600000, max_output = 1024 * 1024 })
  if done.code == h.SKIP then skip((done.stdout:gsub("%s+$", ""))) end
  h.eq(0, done.code, done.stdout .. done.stderr)
end

local function start(mode, n)
  return h.start({ h.targets .. "/memory/net10.0/lunette-memory", mode, n and tostring(n) }, "memory " .. mode)
end

local function server_with(more)
  local environment = { MCP_ARTIFACT_ROOT = h.scratch() .. "/artifacts" }
  for k, v in pairs(more or {}) do environment[k] = v end
  return h.server { environment = environment }
end

--- The answer to a call, with its acknowledgement when it wants one, and all messages.
local function call(server, tool, arguments, options)
  local envelope, messages = server:call(tool, arguments, options)
  if not envelope then return nil, messages end
  if envelope.safetyApproval and not envelope.data then
    arguments._dotnetDiagnostics = { acknowledgement = envelope.safetyApproval.requiredAcknowledgement }
    envelope, messages = server:call(tool, arguments, options)
  end
  return envelope, messages
end

local function state_of(pid)
  local stat = h.fs.read(("/proc/%d/stat"):format(pid), 4096)
  return stat and stat:match("%) (%a)")
end

local function runs(target, what)
  h.wait_for("the target's release after " .. what, h.START_MS, function()
    local state = state_of(target.pid)
    return state and state ~= "t" and state ~= "T"
  end)
  h.ok(target:command("ping", "^PONG"), "the target goes on after " .. what)
end

-- ---- files --------------------------------------------------------------------------------------------------------------------------

local function write(path, ...)
  local file = assert(io.open(path, "wb"))
  assert(file:write(...))
  file:close()
end

local function bad_files(skip)
  build(skip)
  local server <close> = server_with()
  local good
  do
    local target <close> = start("leak", 100)
    good = h.ok(call(server, "collect_process_dump", { processId = target.pid, dumpType = "WithHeap", confirm = true })).data.dump.filePath
  end
  local whole = assert(h.fs.read(good, (1 << 28) - 1))
  local root = good:match("^(.*)/")
  local function answer(name, ...)
    write(root .. "/" .. name, ...)
    local envelope = h.ok(call(server, "inspect_heap", { source = "dump", dumpFilePath = root .. "/" .. name, topTypes = 2,
      includeStaticFields = true, includeRetentionPaths = true, includeDelegateTargets = true, includeDuplicateStrings = true }), name)
    h.fs.remove(root .. "/" .. name)
    return envelope
  end
  for name, text in pairs {
    ["empty.dmp"] = "", ["text.dmp"] = "no dump at all", ["zeros.dmp"] = ("\0"):rep(1 << 20), ["header.dmp"] = whole:sub(1, 64),
    ["segments.dmp"] = whole:sub(1, 5000), ["program.dmp"] = assert(h.fs.read("/bin/sh", 1 << 22)),
    ["first.gcdump"] = "\20\0\0\0!FastSerialization.1", ["first.nettrace"] = "Nettrace\20\0\0\0!FastSerialization.1",
  } do
    local envelope = answer(name, text)
    h.eq({ "InvalidArgument", "dumpFilePath" }, { envelope.error and envelope.error.kind, envelope.error and envelope.error.detail }, name)
  end
  -- an error or an answer with warnings, whatever the runtime's library makes of it
  for _, share in ipairs { 0.1, 0.5, 0.9 } do
    local envelope = answer("cut.dmp", whole:sub(1, math.floor(#whole * share)))
    h.ok(envelope.error or #(envelope.data.warnings or {}) > 0, ("cut at %g"):format(share))
    local at = math.floor(#whole * share)
    envelope = answer("hole.dmp", whole:sub(1, at), ("\0"):rep(4 << 20), whole:sub(at + (4 << 20) + 1))
    h.ok(envelope.error or envelope.data, ("a hole at %g"):format(share))
  end
  local cut = answer("end.dmp", whole:sub(1, -4097))
  h.ok(cut.data and h.json.encode(cut.data.warnings):find("cut short", 1, true), "the last page alone is missing: it is said")
  h.eq(nil, call(server, "inspect_heap", { source = "dump", dumpFilePath = good }).error, "and the whole one is read")
end

-- ---- ends in the middle ---------------------------------------------------------------------------------------------------------------

-- Starts a walk and calls fn as soon as it says that it is in a phase. The error it ended with, or nil.
local function interrupted(target, phase, fn)
  local job <close> = assert(memory.start { job = "heap", args = h.json.encode { pid = target.pid, memoryMax = 2 << 30, copyMax = 1 << 30,
    statics = true, delegates = true, strings = true }, timeout_ms = 60000 })
  local reached = false
  while true do
    local now = job:progress(60000)
    if not now then break end
    if now.text:find(phase, 1, true) then
      reached = true
      fn(job)
      break
    end
  end
  local result, err = job:wait(60000)
  if result then result:close() end
  return err, reached
end

local TRIES <const> = 5 -- a phase may be over before anybody has read that it began

local function killed_workers(skip)
  build(skip)
  local target <close> = start("big", 2)
  local reached = 0
  for _, phase in ipairs(PHASES) do
    local at
    for _ = 1, TRIES do
      local _
      _, at = interrupted(target, phase, function(job)
        if job.pid then h.loop.exec { argv = { "kill", "-9", tostring(job.pid) }, timeout_ms = 5000 } end
      end)
      runs(target, "a worker killed while it was " .. phase)
      if at then break end
    end
    reached = reached + (at and 1 or 0)
  end
  h.ok(reached >= 4, "phases that a walk tells of: " .. reached)
end

local ENDED <const> = { ProcessExited = true, ProcessNotFound = true, UnsupportedRuntime = true, NotADotnetProcess = true }

local function dying_targets(skip)
  build(skip)
  for _, phase in ipairs(PHASES) do
    local target <close> = start("big", 1)
    local err = interrupted(target, phase, function() target:kill() end)
    h.ok(err == nil or ENDED[err.kind], ("dead while %s: %s"):format(phase, err and tostring(err.kind) .. ": " .. tostring(err) or ""))
  end
end

-- The pid of the server's worker that walks a heap.
local function worker_of(server)
  return h.wait_for("the worker", h.START_MS, function()
    local children = h.fs.read(("/proc/%d/task/%d/children"):format(server.pid, server.pid), 4096) or ""
    for pid in children:gmatch("%d+") do
      local line = h.fs.read("/proc/" .. pid .. "/cmdline", 4096) or ""
      if line:find("worker\0heap\0", 1, true) then return math.tointeger(tonumber(pid)) end
    end
  end)
end

local function killed_server(skip)
  build(skip)
  local target <close> = start("big", 3)
  local server <close> = server_with()
  local asked = h.loop.spawn(function() return call(server, "inspect_heap", { source = "live", processId = target.pid }) end)
  local worker = worker_of(server)
  server:stop("KILL")
  asked:await(h.START_MS)
  h.wait_for("the worker's end", h.START_MS, function() return not h.alive(worker) or state_of(worker) == "Z" end)
  runs(target, "a server that was killed")
end

local function client_leaves(skip)
  build(skip)
  local target <close> = start("big", 3)
  local server <close> = server_with()
  h.eq(nil, call(server, "inspect_heap", { source = "live", processId = target.pid }).error, "a first walk")
  local before = h.usage(server.pid)
  local arguments = { source = "live", processId = target.pid, includeDuplicateStrings = true }
  local preview = server:call("inspect_heap", arguments)
  arguments._dotnetDiagnostics = { acknowledgement = preview.safetyApproval.requiredAcknowledgement }
  local gone = h.loop.spawn(function() return server:call("inspect_heap", arguments) end)
  local worker = worker_of(server)
  gone:cancel("the client goes away")
  h.wait_for("the worker's end", h.START_MS, function() return not h.alive(worker) end)
  runs(target, "a client that left")
  h.settled(server, before)
end

local function second_walk(skip)
  build(skip)
  local target <close> = start("big", 3)
  local server <close> = server_with { MCP_ATTACH_WAIT_MS = "0" }
  local first = h.loop.spawn(function()
    return call(server, "inspect_heap", { source = "live", processId = target.pid, includeDuplicateStrings = true })
  end)
  worker_of(server)
  local second = h.ok(call(server, "inspect_heap", { source = "live", processId = target.pid }))
  h.eq("Busy", second.error and second.error.kind, "the second of two")
  h.ok(h.find(second.hints, { nextTool = "inspect_heap" }), "it may be called again")
  h.eq(nil, first:await(h.START_MS).error, "the first")
  h.eq(nil, call(server, "inspect_heap", { source = "live", processId = target.pid }).error, "a third, after them")
end

local function too_large(skip)
  build(skip)
  local target <close> = start("big", 1)
  local job <close> = assert(memory.start { job = "heap", args = h.json.encode { pid = target.pid, memoryMax = 2 << 30, copyMax = 1 << 20 },
    timeout_ms = 60000 })
  local _, err = job:wait(60000)
  h.eq("LimitExceeded", err and err.kind, "a heap that does not fit")
  local needs, has = err.message:match("heap of (%d+) MB .* and (%d+) MB may")
  h.ok(tonumber(needs) >= 50 and tonumber(has) == 1, "the figures: " .. err.message)
  runs(target, "a walk that was refused")
end

local function heartbeat(skip)
  build(skip)
  local target <close> = start("big", 3)
  local server <close> = server_with()
  local envelope, messages = call(server, "inspect_heap", { source = "live", processId = target.pid, includeDuplicateStrings = true },
    { progress = true })
  h.eq(nil, envelope.error, "a walk")
  local told = {}
  for _, message in ipairs(messages) do
    if message.method == "notifications/progress" then told[#told + 1] = message.params end
  end
  h.ok(#told >= 2, "it tells that it goes on")
  for i = 1, #told - 1 do h.eq(nil, told[i].total, "nobody knows how long a walk takes") end
  h.eq({ 100, 100 }, { told[#told].progress, told[#told].total }, "the end")
end

return {
  { "files that are cut, damaged or something else", bad_files },
  { "a worker killed in every phase", killed_workers },
  { "a target that dies in every phase", dying_targets },
  { "a server killed in the middle", killed_server },
  { "a client that leaves", client_leaves },
  { "two walks at once", second_walk },
  { "a heap that does not fit", too_large },
  { "a heartbeat without an end", heartbeat },
}
