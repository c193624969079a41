-- SPDX-License-Identifier: MIT
-- Programs that are one file: those that use the installed runtime, and those that have theirs inside and carry no library to read it by.
-- Heap and threads, live and of a dump, are what ClrMD has of the same dump; a leak and a deadlock are found as in other programs.
local clrmd = require("clrmd")
local h = require("harness")
local proc = require("lunette.proc")

local N <const> = 100
local BEHIND <const> = 2

local function build(skip, name)
  local done = assert(h.loop.exec { argv = { "sh", h.source .. "/tests/targets/memory/build.sh", h.targets .. "/memory", name },
    timeout_ms = 600000, max_output = 1024 * 1024 })
  if done.code == h.SKIP then skip((done.stdout:gsub("%s+$", ""))) end
  h.eq(0, done.code, "tests/targets/memory/build.sh: " .. done.stdout .. done.stderr)
end

local function start(name, mode, n, folder)
  return h.start({ (folder or h.targets .. "/memory/" .. name) .. "/lunette-memory", mode, tostring(n) }, name .. " " .. mode)
end

local function call(server, tool, arguments)
  local envelope = h.ok(server:call(tool, arguments))
  if envelope.safetyApproval and not envelope.data then
    arguments._dotnetDiagnostics = { acknowledgement = envelope.safetyApproval.requiredAcknowledgement }
    envelope = h.ok(server:call(tool, arguments))
  end
  return envelope
end

local function done(server, tool, arguments)
  local envelope = call(server, tool, arguments)
  h.eq(nil, envelope.error, tool)
  return envelope.data, envelope
end

--- What views of a handle answer.
local function views(server, handle)
  return function(name, more)
    local arguments = { handle = handle, view = name, topN = 100000 }
    for k, v in pairs(more or {}) do arguments[k] = v end
    return (done(server, "query_snapshot", arguments))
  end
end

local function told(target, name) return math.tointeger(tonumber(h.ok(target.ready:match(name .. "=(%d+)"), name))) end

local function a_leak(server, name)
  local target <close> = start(name, "leak", N)
  local data = done(server, "inspect_heap", { source = "live", processId = target.pid, topTypes = 5, includeRetentionPaths = true,
    includeStaticFields = true })
  local view = views(server, data.handle)
  h.eq(N, h.ok(h.find(view("top-types").topTypes, { typeFullName = "Lunette.Target.Customer" }), name).instanceCount, name)
  local field = h.ok(h.find(view("static-fields").staticFields,
    { fieldName = "Instance", containingTypeFullName = "Lunette.Target.LeakCache" }), name .. ": the static field")
  local path = h.ok(h.find(view("retention-paths", { typeFullName = "Lunette.Target.Customer" }).retentionPaths,
    { targetTypeFullName = "Lunette.Target.Customer" }), name .. ": the way to a customer")
  h.eq({ "StaticVar", "Lunette.Target.LeakCache.Instance", field.valueAddress },
    { path.chain[1].rootKind, path.chain[1].rootName, path.chain[1].objectAddress }, name)
  local gcdump = done(server, "inspect_heap", { source = "gcdump", processId = target.pid, topTypes = 5 })
  h.eq(N, h.find(views(server, gcdump.handle)("top-types").topTypes, { typeFullName = "Lunette.Target.Customer" }).instanceCount,
    name .. " gcdump")
  h.ok(target:command("ping", "^PONG"), "it goes on")
end

local function deadlocked(server, name, target, arguments)
  local data = done(server, "collect_thread_snapshot", arguments)
  local view = views(server, data.handle)
  local cycles = view("deadlocks").deadlocks
  h.eq(1, #cycles, name .. ": circles")
  h.eq({ told(target, "first"), told(target, "second") }, { cycles[1].cycleMembers[1].threadId, cycles[1].cycleMembers[2].threadId }, name)
  h.ok(h.json.encode(view("stack", { threadId = told(target, "first") }).thread.frames):find("Deadlock.TakeFirst()", 1, true), name)
  return view
end

-- The fork of a process that serves in its place: whether there is one, and whether it does nothing any more.
local function fork_of(pid)
  for _, one in ipairs(proc.pids()) do
    local stat = proc.stat(one)
    if stat and stat.ppid == pid and stat.comm == ".NET EventPipe" and stat.state ~= "Z" then
      return stat, stat.state == "S" and proc.status(pid).tracer_pid == 0
    end
  end
end

--- What a dump leaves whose server is killed meanwhile is ended by the next server, when it has written.
local function a_killed_server(name, target)
  local environment = { MCP_ARTIFACT_ROOT = h.scratch() .. "/artifacts" }
  local server = h.server { environment = environment }
  local dump = h.loop.spawn(function()
    return pcall(call, server, "collect_process_dump", { processId = target.pid, dumpType = "Full", confirm = true })
  end)
  h.wait_for(name .. ": the fork", h.START_MS, function() return fork_of(target.pid) or dump:done() end)
  h.ok(not dump:done(), name .. ": the dump is being written")
  server:stop("KILL")
  dump:cancel("the server is dead")
  h.wait_for(name .. ": the end of its work", h.START_MS, function() return select(2, fork_of(target.pid)) end)
  local other <close> = h.server { environment = environment }
  h.wait_for(name .. ": the end of the fork", h.START_MS, function() return not fork_of(target.pid) end)
  h.eq(nil, h.ok(other:call("inspect_process", { processId = target.pid, view = "info" })).error, name .. ": its own runtime answers")
end

--- A process that ends while it is written: the fork would keep it from being taken away, and the caller waiting for an hour.
local function a_dying_target(name, server)
  local target <close> = start(name, "deadlock", BEHIND)
  local dump = h.loop.spawn(call, server, "collect_process_dump", { processId = target.pid, dumpType = "Full", confirm = true })
  local fork
  h.wait_for(name .. ": the fork", h.START_MS, function()
    fork = fork_of(target.pid)
    return fork or dump:done()
  end)
  target:kill()
  h.eq("ProcessExited", h.ok(dump:await(h.START_MS)).error.kind, name)
  h.wait_for(name .. ": the end of the fork", h.START_MS, function()
    local stat = proc.stat(fork.pid)
    return not stat or stat.start_time ~= fork.start_time
  end)
end

local function kind(name)
  return function(skip)
    build(skip, name)
    local own = name:find("own", 1, true)
    local server <close> = h.server { environment = { MCP_ARTIFACT_ROOT = h.scratch() .. "/artifacts" } }
    a_leak(server, name)
    local target <close> = start(name, "deadlock", BEHIND)
    deadlocked(server, name, target, { processId = target.pid })
    h.ok(target:command("ping", "^PONG"), "it goes on")
    if own then -- 9.0 would answer that a small one is written, and leave forks of itself behind
      local envelope = call(server, "collect_process_dump", { processId = target.pid, dumpType = "WithHeap", confirm = true })
      h.eq({ "NotSupported", "Full" }, { envelope.error and envelope.error.kind, envelope.hints[1].suggestedArguments.dumpType }, name)
    end
    if own and not name:find("net10", 1, true) then
      a_killed_server(name, target)
      a_dying_target(name, server)
    end
    local file = done(server, "collect_process_dump", { processId = target.pid, dumpType = own and "Full" or "WithHeap", confirm = true })
      .dump.filePath
    local data = done(server, "inspect_heap", { source = "dump", dumpFilePath = file, topTypes = 5, includeRetentionPaths = true })
    local threads = deadlocked(server, name, target, { dumpFilePath = file, maxFramesPerThread = 512 })
    for _, pid in ipairs(proc.pids()) do
      local stat = proc.stat(pid)
      h.ok(not stat or stat.ppid ~= target.pid, name .. ": no fork is left")
    end
    h.eq(nil, h.ok(server:call("inspect_process", { processId = target.pid, view = "info" })).error, name .. ": its own runtime answers")
    local counters = done(server, "collect_events", { kind = "counters", processId = target.pid, durationSeconds = 2 })
    h.ok(counters, name .. ": and collects")
    h.ok(target:command("ping", "^PONG"), "it goes on")
    target:kill()
    local heap_peer, why = clrmd.build("heap")
    local threads_peer = heap_peer and clrmd.build("threads")
    if not threads_peer then skip(why or "ClrMD cannot be had") end
    local library = own and h.ok(clrmd.library(data.runtime.version), "the library of " .. data.runtime.version) or nil
    local heap, peers = views(server, data.handle), clrmd.heap(heap_peer, file, library)
    clrmd.types_agree(peers, heap("top-types").topTypes, name)
    clrmd.segments_agree(peers, heap("fragmentation").segments, name)
    clrmd.references_agree(peers, data, name)
    clrmd.roots_agree(peers, heap, name)
    clrmd.threads_agree(threads_peer, file, threads, name, library)
    h.fs.remove(file)
  end
end

--- Without the runtime's package here the library may lie beside the program; what is there and is of another build is not taken.
local function library_beside(skip)
  local name = "single-own-net8.0"
  build(skip, name)
  local folder = h.scratch()
  local function copy(from, to) h.eq(0, assert(h.loop.exec { argv = { "cp", from, to }, timeout_ms = 60000 }).code, "a copy") end
  copy(h.targets .. "/memory/" .. name .. "/lunette-memory", folder)
  local server <close> = h.server { environment = { HOME = folder, NUGET_PACKAGES = folder, DOTNET_ROOT = folder } }
  local target <close> = start(name, "leak", N, folder)
  local live = { source = "live", processId = target.pid, topTypes = 5 }
  local err = h.ok(call(server, "inspect_heap", live).error, "no library")
  h.eq("NotFound", err.kind)
  local version = h.ok(err.message:match("of %.NET (8%.0%.%d+) %(build id %x+%)"), "which one: " .. err.message)
  h.eq("NotFound", call(server, "collect_thread_snapshot", { processId = target.pid }).error.kind, "for threads, too")
  local library = clrmd.library(version)
  if not library then skip("the runtime's package is not here: " .. version) end
  copy(h.lunette, folder .. "/libmscordaccore.so")
  err = call(server, "inspect_heap", live).error
  h.ok(err.kind == "NotFound" and err.message:find("belong to other builds", 1, true), "one of another build: " .. err.message)
  copy(library, folder)
  h.eq(nil, call(server, "inspect_heap", { source = "live", processId = target.pid, topTypes = 5 }).error, "beside the program")
  h.ok(target:command("ping", "^PONG"), "it goes on")
end

return {
  { "one file, the installed .NET 10", kind("single-net10.0") },
  { "one file with its own .NET 10", kind("single-own-net10.0") },
  { "one file with its own .NET 9", kind("single-own-net9.0") },
  { "one file with its own .NET 8", kind("single-own-net8.0") },
  { "a library beside the program", library_beside },
}
