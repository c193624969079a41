-- SPDX-License-Identifier: MIT
-- Again and again, and ended in the middle: whatever ends while a process stands or is written (a worker, createdump, the process itself),
-- the process is never left standing, no file stays, and a server that has served many calls holds no more than before.
local h = require("harness")
local memory = require("lunette.memory")
local symbols = require("lunette.symbols")

local RUNTIME <const> = "net10.0"
local MB <const> = 1 << 20
local WARM <const>, ROUNDS <const> = 20, tonumber(os.getenv("LUNETTE_LIVE_ROUNDS")) or 40
local MOST_KB <const> = 4096 -- that so many rounds may add: what is kept grows in steps

local function build(skip)
  local done = assert(h.loop.exec { argv = { "sh", h.source .. "/tests/targets/memory/build.sh", h.targets .. "/memory", RUNTIME },
    timeout_ms = 600000, max_output = MB })
  if done.code == h.SKIP then skip((done.stdout:gsub("%s+$", ""))) end
  h.eq(0, done.code, done.stdout .. done.stderr)
end

local PROGRAM <const> = "/memory/" .. RUNTIME .. "/lunette-memory"
local function start(mode, n) return h.start({ h.targets .. PROGRAM, mode, tostring(n) }, "memory " .. mode) end

local function server_with(root, more)
  local environment = {
    MCP_ARTIFACT_ROOT = root, MCP_BEARER_TOKEN = "", Auth__BearerTokens__0__Name = "all", Auth__BearerTokens__0__Token = "live-test-token",
    Auth__BearerTokens__0__Scopes__0 = "root", Auth__BearerTokens__0__Scopes__1 = "module-bytes-read",
    Auth__BearerTokens__0__Scopes__2 = "delete-artifact",
  }
  for k, v in pairs(more or {}) do environment[k] = v end
  return h.server { environment = environment }
end

local function call(server, tool, arguments)
  local envelope = h.ok(server:call(tool, arguments), tool)
  local wanted = envelope.safetyApproval and not envelope.data and envelope.safetyApproval.requiredAcknowledgement
  if not wanted then return envelope end
  local again = { _dotnetDiagnostics = { acknowledgement = wanted } }
  for k, v in pairs(arguments) do again[k] = v end
  return h.ok(server:call(tool, again), tool)
end

local function done(server, tool, arguments)
  local envelope = call(server, tool, arguments)
  h.eq(nil, envelope.error, tool)
  return envelope.data
end

-- Whether a thread of the process stands, or somebody traces it.
local function stands(pid)
  for _, tid in ipairs(h.fs.list(("/proc/%d/task"):format(pid)) or {}) do
    local status = h.fs.read(("/proc/%d/task/%s/status"):format(pid, tid), 65536) or ""
    local tracer = status:match("\nTracerPid:%s+(%d+)") -- a thread that ended meanwhile has no status
    if tracer and tracer ~= "0" or status:match("\nState:%s+[tT]") then return true end
  end
  return false
end

local function runs_on(target, what)
  h.wait_for("the target's release after " .. what, h.START_MS, function() return not stands(target.pid) end)
  h.ok(target:command("ping", "^PONG"), "the target goes on after " .. what)
end

local function files_below(root)
  local found = assert(h.loop.exec { argv = { "find", root, "-mindepth", "1", "-not", "-name", ".lock" }, timeout_ms = 10000 })
  local list = {}
  for line in found.stdout:gmatch("[^\n]+") do list[#list + 1] = line end
  return list
end

-- ---- workers ------------------------------------------------------------------------------------------------------------------------

-- The jobs that attach, but for those of whole heaps and of all threads, which have tests of their own.
local function jobs_of()
  local module = h.targets .. "/memory/" .. RUNTIME .. "/lunette-memory.dll"
  local listing = assert(h.loop.exec { argv = { h.lunette, "symbols", module }, timeout_ms = 60000, max_output = MB }).stdout
  local token
  for line in listing:gmatch("[^\n]+") do
    if line:find("Lunette.Target.Program.Main(", 1, true) then token = tonumber(line:match("^%x+"), 16) end
  end
  return {
    ["method-code"] = {
      moduleVersionId = symbols.modules({ { path = module } })[1].mvid, metadataToken = h.ok(token, "the method's token"),
    },
    ["frame-vars"] = { threadId = 1, managedThreadId = 1 }, settings = {}, resolve = { addresses = { "0x1000" } },
    ["heap-object"] = { address = "0x1000" },
  }
end

-- Starts a job and calls fn when it says what it does for the n-th time. Whether it came so far, and the error it ended with.
local function interrupted(name, given, pid, n, fn)
  local args = { pid = pid }
  for k, v in pairs(given) do args[k] = v end
  local job <close> = assert(memory.start { job = name, args = h.json.encode(args), timeout_ms = 60000 })
  local told, phase = 0, nil
  while true do
    local now = job:progress(60000)
    if not now then break end
    told, phase = told + 1, now.text
    if told == n then
      fn(job)
      break
    end
  end
  local result, err = job:wait(60000)
  if result then result:close() end
  return told >= n, err, phase
end

local function killed_workers(skip)
  build(skip)
  local target <close> = start("deadlock", 0)
  for name, given in pairs(jobs_of()) do
    local n, more = 0, true
    while more do
      n = n + 1
      local _, phase
      more, _, phase = interrupted(name, given, target.pid, n, function(job)
        if job.pid then h.loop.exec { argv = { "kill", "-9", tostring(job.pid) }, timeout_ms = 5000 } end
      end)
      runs_on(target, ("the job %s, killed while it was %s"):format(name, tostring(phase)))
    end
    h.ok(n > 1, ("phases that the job %s tells of: %d"):format(name, n - 1))
  end
end

local ENDED <const> = { ProcessExited = true, ProcessNotFound = true, UnsupportedRuntime = true, NotADotnetProcess = true, NotFound = true }

local function dying_targets(skip)
  build(skip)
  for name, given in pairs(jobs_of()) do
    local n, more = 0, true
    while more do
      n = n + 1
      local target <close> = start("deadlock", 0)
      local err, phase
      more, err, phase = interrupted(name, given, target.pid, n, function() target:kill() end)
      h.ok(not more or err == nil or ENDED[err.kind] or err.kind == "InvalidArgument",
        ("%s, dead while %s: %s"):format(name, tostring(phase), err and tostring(err.kind) .. ": " .. tostring(err) or ""))
    end
  end
end

-- ---- dumps --------------------------------------------------------------------------------------------------------------------------

-- The program that writes the dump of a process; nil while there is none.
local function writer_of(pid)
  for _, tid in ipairs(h.fs.list(("/proc/%d/task"):format(pid)) or {}) do
    for child in (h.fs.read(("/proc/%d/task/%s/children"):format(pid, tid), 4096) or ""):gmatch("%d+") do
      if (h.fs.read("/proc/" .. child .. "/cmdline", 4096) or ""):find("createdump", 1, true) then return child end
    end
  end
  return nil
end

-- Begins a full dump, calls fn at a moment of it, and gives the answer.
local function dump_ended(server, target, moment, fn)
  local asked = h.loop.spawn(function() return call(server, "collect_process_dump", { processId = target.pid, dumpType = "Full",
    confirm = true }) end)
  h.wait_for("the dump to be " .. moment.name, h.START_MS, function() return moment.is(target) or asked:done() end)
  fn()
  local envelope, err = asked:await(4 * h.START_MS)
  return h.ok(envelope, "an answer: " .. tostring(err))
end

local function part_of(root)
  for _, path in ipairs(files_below(root)) do
    if path:find("%.part$") then return path end
  end
end

local function dying_dumps(skip)
  build(skip)
  local root = h.scratch() .. "/artifacts"
  local server <close> = server_with(root)
  local moments = {
    { name = "begun", is = function(target) return writer_of(target.pid) end },
    { name = "gathering", is = function(target) return stands(target.pid) end },
    { name = "written", is = function() return part_of(root) end },
  }
  local before
  for _, moment in ipairs(moments) do
    local target <close> = start("big", 1)
    local envelope = dump_ended(server, target, moment, function()
      local writer = writer_of(target.pid)
      if writer then h.loop.exec { argv = { "kill", "-9", writer }, timeout_ms = 5000 } end
    end)
    h.ok(envelope.error or envelope.data.kind == "dump_written", "an answer when createdump is killed, " .. moment.name)
    runs_on(target, "a createdump that was killed, " .. moment.name)
    if envelope.error then
      h.ok(({ EndpointUnavailable = true, PermissionDenied = true, NotSupported = true })[envelope.error.kind], envelope.error.kind
        .. ": " .. envelope.error.message)
    end
    envelope = dump_ended(server, target, moment, function() target:kill() end)
    h.ok(envelope.error == nil or ENDED[envelope.error.kind] or envelope.error.kind == "EndpointUnavailable",
      ("dead when %s: %s"):format(moment.name, h.json.encode(envelope.error or {})))
    for _, path in ipairs(files_below(root)) do
      h.ok(path:find("dump_pid%d+_Full_%w+%.dmp$") or path:find("/%.[%w-]+$"), "what is left: " .. path)
      h.fs.remove(path)
    end
    before = before or h.usage(server.pid)
  end
  h.settled(server, before)
end

--- The pieces of a module come from its file: a process that ends between two of them is told as ended.
local function dying_bytes(skip)
  build(skip)
  local server <close> = server_with(h.scratch() .. "/artifacts")
  local target <close> = start("idle", 0)
  local path = h.targets .. "/memory/" .. RUNTIME .. "/lunette-memory.dll"
  local arguments = { kind = "module", processId = target.pid, maxBytes = 4096,
    moduleVersionId = symbols.modules({ { path = path } })[1].mvid }
  local first = done(server, "get_bytes", arguments)
  h.eq({ 4096, 4096 }, { first.chunkSize, first.nextOffset }, "a piece")
  target:kill()
  arguments.offset = first.nextOffset
  local err = call(server, "get_bytes", arguments).error
  h.ok(err and ENDED[err.kind], "the next: " .. h.json.encode(err or {}))
end

--- Two processes are attached to at a time, and dumps are read meanwhile: none of that is Busy.
local function side_by_side(skip)
  build(skip)
  local root = h.scratch() .. "/artifacts"
  local server <close> = server_with(root, { MCP_ATTACH_WAIT_MS = "0" })
  local first <close> = start("big", 3)
  local second <close> = start("deadlock", 0)
  local file = done(server, "collect_process_dump", { processId = second.pid, dumpType = "WithHeap", confirm = true }).dump.filePath
  local walk = h.loop.spawn(function()
    return call(server, "inspect_heap", { source = "live", processId = first.pid, includeDuplicateStrings = true, topTypes = 3 })
  end)
  h.wait_for("the walk", h.START_MS, function() return stands(first.pid) or walk:done() end)
  local same = call(server, "collect_thread_snapshot", { processId = first.pid })
  h.ok(walk:done() or same.error and same.error.kind == "Busy", "the same process: " .. h.json.encode(same.error or {}))
  for _, envelope in ipairs(h.together {
    function() return call(server, "collect_thread_snapshot", { processId = second.pid }) end,
    function() return call(server, "collect_thread_snapshot", { dumpFilePath = file }) end,
    function() return call(server, "inspect_heap", { source = "dump", dumpFilePath = file, topTypes = 3 }) end,
    function() return call(server, "inspect_heap", { source = "dump", dumpFilePath = file, topTypes = 3 }) end,
  }) do h.eq(nil, envelope.error, "beside a walk") end
  h.eq(nil, h.ok(walk:await(h.START_MS), "the walk").error, "the walk")
  runs_on(first, "all of them")
  runs_on(second, "all of them")
end

-- ---- rounds -------------------------------------------------------------------------------------------------------------------------

local function resident_kb(pid) return tonumber((h.fs.read(("/proc/%d/status"):format(pid), 65536) or ""):match("VmRSS:%s+(%d+)")) end

local function many_rounds(skip)
  build(skip)
  local root = h.scratch() .. "/artifacts"
  local server <close> = server_with(root)
  local target <close> = start("leak", 10)
  local function round(i)
    local heap = done(server, "inspect_heap", { source = "live", processId = target.pid, topTypes = 3, includeDuplicateStrings = true })
    done(server, "query_snapshot", { handle = heap.handle, view = "duplicate-strings" })
    done(server, "collect_thread_snapshot", { processId = target.pid })
    if i % 5 ~= 0 then return end
    local dump = done(server, "collect_process_dump", { processId = target.pid, confirm = true }).dump
    done(server, "get_bytes", { kind = "dump", dumpFilePath = dump.filePath, maxBytes = MB })
    done(server, "inspect_heap", { source = "gcdump", processId = target.pid, topTypes = 3 })
    done(server, "get_bytes", { kind = "delete", artifactPath = dump.filePath:sub(#root + 2) })
  end
  for i = 1, WARM do round(i) end
  h.settled(server, h.usage(server.pid))
  local before, kb = h.usage(server.pid), resident_kb(server.pid)
  for i = 1, ROUNDS do round(i) end
  h.settled(server, before)
  local more = resident_kb(server.pid) - kb
  if os.getenv("LUNETTE_LIVE_ROUNDS") then print(("%d rounds: %d kB, before %d kB"):format(ROUNDS, more, kb)) end
  h.ok(more < MOST_KB, ("%d rounds added %d kB to %d kB"):format(ROUNDS, more, kb))
  for _, path in ipairs(files_below(root)) do h.ok(not path:find("%.dmp"), "a file is left: " .. path) end
  h.no_session(target)
  runs_on(target, "many rounds")
end

return {
  { "workers killed in every phase", killed_workers },
  { "targets that die in every phase", dying_targets },
  { "a createdump that is killed, and a process that dies while it is written", dying_dumps },
  { "a process that dies between two pieces", dying_bytes },
  { "two processes at a time, and dumps beside", side_by_side },
  { "many rounds", many_rounds },
}
