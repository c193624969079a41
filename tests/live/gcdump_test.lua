-- SPDX-License-Identifier: MIT
-- inspect_heap(source="gcdump") of real processes: known numbers of known types on every runtime, a leak explained by its chain, growth,
-- the stream as a file, what two sessions do to one another, a target that dies, NativeAOT.
local crypto = require("lunette.crypto")
local h = require("harness")

local RUNTIMES <const> = { "net10.0", "net9.0", "net8.0" }
local N <const> = 1000
local CHAIN <const> = {
  "System.Collections.Generic.Dictionary<System.String,Lunette.Target.CustomerSession>",
  "Entry<System.String,Lunette.Target.CustomerSession>[]", "Lunette.Target.CustomerSession",
  "System.Collections.Generic.List<Lunette.Target.Customer>", "Lunette.Target.Customer[]", "Lunette.Target.Customer",
}

--- Builds the memory target of a runtime; nil, why it cannot be.
local function build(runtime)
  local done = assert(h.loop.exec {
    argv = { "sh", h.source .. "/tests/targets/memory/build.sh", h.targets .. "/memory", runtime }, timeout_ms = 600000,
    max_output = 1024 * 1024,
  })
  if done.code == 0 then return true end
  if done.code == h.SKIP then return nil, (done.stdout:gsub("%s+$", "")) end
  error("tests/targets/memory/build.sh failed: " .. done.stdout .. done.stderr)
end

local function start(runtime, mode, n, environment)
  return h.start({ ("%s/memory/%s/lunette-memory"):format(h.targets, runtime), mode, n and tostring(n) }, "memory " .. mode, environment)
end

local function each_runtime(skip, fn)
  local ran, reason = 0, nil
  for _, runtime in ipairs(RUNTIMES) do
    local built, why = build(runtime)
    if built then fn(runtime) else reason = why end
    ran = ran + (built and 1 or 0)
  end
  if ran == 0 then skip(reason) end
end

local function server_with(more)
  local environment = {
    MCP_ARTIFACT_ROOT = h.scratch() .. "/artifacts", MCP_BEARER_TOKEN = "",
    Auth__BearerTokens__0__Name = "all", Auth__BearerTokens__0__Token = "live-test-token", Auth__BearerTokens__0__Scopes__0 = "root",
    Auth__BearerTokens__0__Scopes__1 = "sensitive-heap-read",
  }
  for k, v in pairs(more or {}) do environment[k] = v end
  return h.server { environment = environment }
end

--- A snapshot, with its acknowledgement: the envelope.
local function snapshot(server, target, more)
  local arguments = { source = "gcdump", processId = target.pid, topTypes = 200 }
  for k, v in pairs(more or {}) do arguments[k] = v end
  local preview = h.ok(server:call("inspect_heap", arguments))
  arguments._dotnetDiagnostics = { acknowledgement = h.ok(preview.safetyApproval, "a preview").requiredAcknowledgement }
  return h.ok(server:call("inspect_heap", arguments))
end

local function ask(server, handle, view, more)
  local arguments = { handle = handle, view = view }
  for k, v in pairs(more or {}) do arguments[k] = v end
  local envelope = h.ok(server:call("query_snapshot", arguments))
  h.eq(nil, envelope.error, view)
  return envelope.data
end

local function row_of(rows, name)
  for _, row in ipairs(rows) do
    if row.typeFullName == name then return row end
  end
  error("no row of " .. name)
end

local function names_of(chain)
  local list = {}
  for i, frame in ipairs(chain) do list[i] = frame.typeFullName end
  return list
end

local function count_of(server, envelope, name)
  return row_of(ask(server, envelope.handle, "top-types", { topN = 1000 }).topTypes, name).instanceCount
end

-- The numbers that the target says are there, and those of its types' sizes that are the same on every 64-bit runtime.
local function known(skip)
  local server <close> = server_with()
  each_runtime(skip, function(runtime)
    local target <close> = start(runtime, "known", N)
    local envelope = snapshot(server, target)
    h.eq(nil, envelope.error, runtime)
    local rows = ask(server, envelope.handle, "top-types", { topN = 1000 }).topTypes
    for name, wanted in pairs {
      ["Lunette.Target.Node"] = { N, 40 * N }, ["Lunette.Target.Holder"] = { N },
      ["Lunette.Target.Generic<System.String,System.Int32>"] = { N },
      ["Lunette.Target.Pair[]"] = { 1 + N // 10 }, ["Lunette.Target.KnownHeap"] = { 1 }, ["System.Double"] = { N, 24 * N },
      ["System.Object[,]"] = { 1 }, ["System.Int32[,,]"] = { 1 },
    } do
      local row = row_of(rows, name)
      h.eq(wanted[1], row.instanceCount, runtime .. " " .. name)
      if wanted[2] then h.eq(wanted[2], row.totalBytes, runtime .. " bytes of " .. name) end
    end
    local q = envelope.data.quality
    h.eq({ false, false, true, true, 0 }, { q.timedOut, q.readerFailed, q.gcStopObserved, q.streamCompleted, q.missingTypeNames }, runtime)
    h.eq(nil, q.lostEventCount, "nobody can tell")
    local sum = 0
    for _, row in ipairs(rows) do sum = sum + row.totalBytes end
    h.eq(envelope.data.heap.totalBytes, sum, runtime .. ": all bytes")
    local id = h.ok(row_of(rows, "Lunette.Target.Node").identity, "an identity")
    h.ok(id.moduleName == "lunette-memory.dll" and id.metadataToken and id.moduleVersionId, "of its module: " .. h.json.encode(id))
    local retained = ask(server, envelope.handle, "retained", { typeFullName = "KnownHeap" }).retained
    h.ok(retained.byType[1].retainedBytes > 200000 + 160000, "the load keeps its arrays: " .. retained.byType[1].retainedBytes)
    h.no_session(target)
  end)
end

local function leak(skip)
  local server <close> = server_with()
  each_runtime(skip, function(runtime)
    local target <close> = start(runtime, "leak", N)
    local first = snapshot(server, target)
    h.eq(nil, first.error, runtime)
    local paths = ask(server, first.handle, "retention-paths", { typeFullName = "Lunette.Target." }).retentionPaths
    local by_target = {}
    for _, path in ipairs(paths) do by_target[path.targetTypeFullName] = path end
    local customer = h.ok(by_target["Lunette.Target.Customer"], runtime .. ": a way to a customer")
    h.eq(CHAIN, names_of(customer.chain), runtime)
    h.eq("StaticVar", customer.chain[1].rootKind, runtime)
    h.ok(customer.chain[1].rootName:find("%.Instance$"), "the field: " .. customer.chain[1].rootName)
    h.eq({ "Lunette.Target.Publisher", "System.EventHandler", "System.Object[]", "System.EventHandler", "Lunette.Target.Subscriber" },
      names_of(h.ok(by_target["Lunette.Target.Subscriber"], "a way to a subscriber").chain), runtime)
    local retained = ask(server, first.handle, "retained").retained
    h.eq(CHAIN[1], retained.objects[1].typeFullName, runtime .. ": what keeps most")
    h.ok(retained.objects[1].retainedBytes > N * (32 + 280), "its customers with their photos")
    local root = ask(server, first.handle, "gcroot", { address = customer.targetObjectAddress }).gcRoot
    h.eq(CHAIN, names_of(root.chain), "gcroot")
    local second = snapshot(server, target) -- types are told again, though the process has told them once
    h.eq({ N, 10 }, { count_of(server, second, "Lunette.Target.Customer"), count_of(server, second, "Lunette.Target.CustomerSession") })
    local diff = ask(server, second.handle, "diff", { baselineHandle = first.handle })
    for _, list in ipairs { diff.added, diff.removed, diff.changed } do
      for _, row in ipairs(list) do h.ok(not row.key.typeFullName:find("Lunette"), "what stands still: " .. row.key.typeFullName) end
    end
  end)
end

local function server_gc(skip)
  local built, why = build("net10.0")
  if not built then skip(why) end
  local server <close> = server_with()
  local target <close> = start("net10.0", "known", N, { DOTNET_gcServer = "1", DOTNET_GCHeapCount = "2" })
  local envelope = snapshot(server, target)
  h.eq(nil, envelope.error, "server GC")
  h.eq({ N, N }, { count_of(server, envelope, "Lunette.Target.Node"), count_of(server, envelope, "Lunette.Target.Holder") })
end

local function growth(skip)
  local built, why = build("net10.0")
  if not built then skip(why) end
  local server <close> = server_with()
  local small <close> = start("net10.0", "leak", 100)
  local large <close> = start("net10.0", "leak", 2000)
  local first, second = snapshot(server, small), snapshot(server, large)
  local grown = ask(server, second.handle, "growth", { baselineHandle = first.handle, rankBy = "instances" }).growth
  h.eq("leak_suspected", grown.verdict)
  local row = row_of(grown.growers, "Lunette.Target.Customer")
  h.eq({ 100, 2000, 1900, 1900.0 }, { row.baselineInstances, row.currentInstances, row.deltaInstances, row.deltaPct })
  h.eq(CHAIN, names_of(row.retentionPaths[1].chain), "what keeps them")
  local shrunk = ask(server, first.handle, "growth", { baselineHandle = second.handle, rankBy = "instances", minDeltaPct = 50 }).growth
  h.eq("stable", shrunk.verdict)
end

-- The stream as a file is the same snapshot, for us, for get_bytes, and for dotnet-gcdump where it is installed.
local function exported(skip)
  local built, why = build("net10.0")
  if not built then skip(why) end
  local root = h.scratch() .. "/artifacts"
  local server <close> = server_with { MCP_ARTIFACT_ROOT = root, Auth__BearerTokens__0__Scopes__2 = "module-bytes-read" }
  local target <close> = start("net10.0", "leak", N)
  local live = snapshot(server, target, { exportTrace = true })
  local path = h.ok(live.data.exportedTracePath, "a path")
  local piece = h.ok(server:call("get_bytes", { kind = "trace", traceFilePath = path }))
  h.eq(nil, piece.error, "get_bytes")
  h.ok(#crypto.hex(crypto.sha256(h.ok(h.fs.read(root .. "/" .. path, (1 << 28) - 1)))) == 64)
  local again = h.ok(server:call("inspect_heap", { source = "dump", dumpFilePath = path, topTypes = 200 }))
  h.eq(nil, again.error, "read again")
  h.eq(live.data.heap.totalBytes, again.data.heap.totalBytes)
  h.eq(live.data.heap.objectCount, again.data.heap.objectCount)
  local tool = h.loop.exec { argv = { "sh", "-c", "command -v dotnet-gcdump" }, timeout_ms = 5000 }
  if not tool or tool.code ~= 0 then return end
  local made = h.scratch() .. "/leak.gcdump"
  assert(h.loop.exec { argv = { "dotnet-gcdump", "convert", root .. "/" .. path, "--output", made }, timeout_ms = 120000 })
  local report = h.loop.exec { argv = { "dotnet-gcdump", "report", made }, timeout_ms = 120000 }
  local bytes = report.stdout:match("([%d,]+)%s+GC Heap bytes"):gsub(",", "")
  h.eq(live.data.heap.totalBytes, math.tointeger(tonumber(bytes)), "dotnet-gcdump's bytes")
end

-- While somebody else's session with the types' keyword is open, the runtime does not tell their names again.
local function beside_another(skip)
  local built, why = build("net10.0")
  if not built then skip(why) end
  local events = require("lunette.events")
  local server <close> = server_with()
  local target <close> = start("net10.0", "leak", N)
  local other <close> = h.ok(events.open {
    pid = target.pid, providers = { { name = "Microsoft-Windows-DotNETRuntime", keywords = "0x1980001", level = 5 } },
  })
  local envelope = snapshot(server, target)
  other:stop()
  if envelope.error then -- no name at all is no snapshot
    h.eq("EndpointUnavailable", envelope.error.kind)
  else
    local objects, told = envelope.data.heap.objectCount, table.concat(envelope.data.warnings or {}, " ")
    h.ok(objects > N, "the objects are there: " .. objects)
    h.ok(envelope.data.quality.missingTypeNames == 0 or told:find("NamesMissing", 1, true), "what is missing is said: " .. told)
  end
  h.eq(N, count_of(server, snapshot(server, target), "Lunette.Target.Customer"), "afterwards all is well")
end

local function three_at_a_time(skip)
  local built, why = build("net10.0")
  if not built then skip(why) end
  local server <close> = server_with()
  local target <close> = start("net10.0", "leak", N)
  local function one() return snapshot(server, target) end
  for _, envelope in ipairs(h.together { one, one, one }) do
    h.eq(nil, envelope.error)
    h.eq({ N, 0 }, { count_of(server, envelope, "Lunette.Target.Customer"), envelope.data.quality.missingTypeNames })
  end
end

local function dying(skip)
  local built, why = build("net10.0")
  if not built then skip(why) end
  local server <close> = server_with()
  local target <close> = start("net10.0", "big", 1)
  local results = h.together {
    function() return snapshot(server, target) end,
    function()
      h.loop.sleep_ms(200)
      target:kill()
      return true
    end,
  }
  local envelope = results[1]
  h.ok(envelope.error or envelope.data, "an answer")
  if envelope.error then
    h.ok(({ EndpointUnavailable = true, ProcessExited = true, ProcessNotFound = true })[envelope.error.kind], envelope.error.kind)
  end
  local rest <close> = start("net10.0", "leak", 10)
  h.eq(10, count_of(server, snapshot(server, rest), "Lunette.Target.Customer"), "the server goes on")
end

local function native_aot(skip)
  local built, why = h.build_target("aot")
  if not built then skip(why) end
  local server <close> = server_with()
  local target <close> = h.target("aot", "idle")
  local envelope = snapshot(server, target)
  h.eq("NotSupported", envelope.error and envelope.error.kind)
  h.ok(envelope.error.message:find("NativeAOT", 1, true), envelope.error.message)
  h.eq(nil, h.ok(server:call("inspect_process", { view = "list" })).error, "the server is alive")
end

local function by_a_watch(skip)
  local built, why = build("net10.0")
  if not built then skip(why) end
  local server <close> = server_with()
  local target <close> = start("net10.0", "leak", N)
  local arguments = {
    kind = "counters", processId = target.pid, triggerWhen = "rssMb>1", captureKind = "heap", windowSeconds = 20, sampleIntervalSeconds = 1,
  }
  local envelope = h.ok(server:call("collect_events", arguments))
  if envelope.safetyApproval then
    arguments._dotnetDiagnostics = { acknowledgement = envelope.safetyApproval.requiredAcknowledgement }
    envelope = h.ok(server:call("collect_events", arguments))
  end
  local record = h.ok(envelope.data and envelope.data.gatedCapture, h.json.encode(envelope.error or {})).captures[1]
  local handle = h.ok(record and record.handle, "a handle: " .. h.json.encode(envelope.data))
  h.eq(N, row_of(ask(server, handle, "top-types", { topN = 1000 }).topTypes, "Lunette.Target.Customer").instanceCount, "of the watch")
end

return {
  { "known numbers of known types on every runtime", known },
  { "a leak is explained on every runtime", leak },
  { "server GC", server_gc },
  { "growth between two heaps", growth },
  { "the stream as a file", exported },
  { "beside another session", beside_another },
  { "three at a time", three_at_a_time },
  { "a target that dies", dying },
  { "NativeAOT", native_aot },
  { "a watch takes a heap", by_a_watch },
}
