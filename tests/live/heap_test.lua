-- SPDX-License-Identifier: MIT
-- inspect_heap(source="dump") and (source="live"): counts, bytes, segments, references, handles and finalizers as ClrMD has them on the
-- same dump (heap_peer/), on every runtime and kind of GC; a leak explained; what is odd in a heap found by
-- the view for it; who sees values.
local clrmd = require("clrmd")
local h = require("harness")

local RUNTIMES <const> = { "net10.0", "net9.0", "net8.0" }
local N <const> = 1000
local PLAIN <const> = "no-values-token"
local KEPT <const> = {
  "System.Collections.Generic.Dictionary<System.String, Lunette.Target.CustomerSession>",
  "System.Collections.Generic.Dictionary<System.String, Lunette.Target.CustomerSession>+Entry[]", "Lunette.Target.CustomerSession",
  "System.Collections.Generic.List<Lunette.Target.Customer>", "Lunette.Target.Customer[]", "Lunette.Target.Customer",
}

local function exec(argv, timeout_ms, more)
  return assert(h.loop.exec { argv = argv, timeout_ms = timeout_ms, max_output = more or 32 * 1024 * 1024 })
end

local function build(runtime)
  local done = exec({ "sh", h.source .. "/tests/targets/memory/build.sh", h.targets .. "/memory", runtime }, 600000)
  if done.code == 0 then return true end
  if done.code == h.SKIP then return nil, (done.stdout:gsub("%s+$", "")) end
  error("tests/targets/memory/build.sh failed: " .. done.stdout .. done.stderr)
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

local function start(runtime, mode, n, environment)
  return h.start({ ("%s/memory/%s/lunette-memory"):format(h.targets, runtime), mode, n and tostring(n) }, "memory " .. mode, environment)
end

local function server_with(more)
  return h.server { environment = {
    Diagnostics__AllowProcessFork = more and more.fork or nil,
    MCP_ARTIFACT_ROOT = h.scratch() .. "/artifacts", MCP_BEARER_TOKEN = "",
    Auth__BearerTokens__0__Name = "all", Auth__BearerTokens__0__Token = "live-test-token", Auth__BearerTokens__0__Scopes__0 = "root",
    Auth__BearerTokens__0__Scopes__1 = "sensitive-heap-read",
    Auth__BearerTokens__1__Name = "plain", Auth__BearerTokens__1__Token = PLAIN, Auth__BearerTokens__1__Scopes__0 = "root",
  } }
end

--- inspect_heap, with its acknowledgement when it wants one: the envelope.
local function inspect(server, arguments)
  arguments.topTypes = arguments.topTypes or 5
  local envelope = h.ok(server:call("inspect_heap", arguments))
  if envelope.safetyApproval and not envelope.data then
    arguments._dotnetDiagnostics = { acknowledgement = envelope.safetyApproval.requiredAcknowledgement }
    envelope = h.ok(server:call("inspect_heap", arguments))
  end
  h.eq(nil, envelope.error, "inspect_heap")
  return envelope
end

local function dump_of(server, target)
  local envelope = h.ok(server:call("collect_process_dump", { processId = target.pid, dumpType = "WithHeap", confirm = true }))
  h.eq(nil, envelope.error, "collect_process_dump")
  return envelope.data.dump.filePath
end

local function ask(server, handle, view, more)
  local arguments = { handle = handle, view = view, topN = 100000 }
  for k, v in pairs(more or {}) do arguments[k] = v end
  local envelope = h.ok(server:call("query_snapshot", arguments))
  if envelope.safetyApproval and not envelope.data then
    arguments._dotnetDiagnostics = { acknowledgement = envelope.safetyApproval.requiredAcknowledgement }
    envelope = h.ok(server:call("query_snapshot", arguments))
  end
  return envelope.data, envelope.error
end

local function by_name(rows, field)
  local set = {}
  for _, row in ipairs(rows) do set[row[field or "typeFullName"]] = row end
  return set
end

-- ---- ClrMD on the same dump -------------------------------------------------------------------------------------------------------

local function agree(program, server, runtime, mode, environment)
  local what = ("%s %s %s"):format(runtime, mode, next(environment or {}) or "")
  local file
  do
    local target <close> = start(runtime, mode, nil, environment)
    file = dump_of(server, target)
  end
  local peers = clrmd.heap(program, file)
  local envelope = inspect(server, { source = "dump", dumpFilePath = file })
  local function view(name) return (ask(server, envelope.handle, name)) end
  clrmd.types_agree(peers, view("top-types").topTypes, what)
  clrmd.segments_agree(peers, view("fragmentation").segments, what)
  if mode ~= "odds" then clrmd.references_agree(peers, envelope.data, what) end -- ClrMD leaves out what keeps a type that can be unloaded
  clrmd.roots_agree(peers, view, what)
  h.fs.remove(file)
end

--- A case for each runtime: they run side by side.
local function as_clrmd(runtime)
  return function(skip)
    local program, why = clrmd.build("heap")
    if not program then skip(why) end
    local built
    built, why = build(runtime)
    if not built then skip(why) end
    local server <close> = server_with()
    agree(program, server, runtime, "odds")
    agree(program, server, runtime, "known", { DOTNET_gcServer = "1", DOTNET_GCHeapCount = "2" })
    if runtime == "net10.0" then agree(program, server, runtime, "known", { DOTNET_GCName = "libclrgc.so" }) end -- segments
  end
end

-- ---- a leak -----------------------------------------------------------------------------------------------------------------------

local function names_of(chain)
  local list = {}
  for i, frame in ipairs(chain) do list[i] = frame.typeFullName end
  return list
end

local function explained(server, envelope, what)
  local types = by_name(ask(server, envelope.handle, "top-types").topTypes)
  h.eq({ N, 10, N // 10 }, { types["Lunette.Target.Customer"].instanceCount, types["Lunette.Target.CustomerSession"].instanceCount,
    types["Lunette.Target.Subscriber"].instanceCount }, "numbers, " .. what)
  local paths = ask(server, envelope.handle, "retention-paths", { typeFullName = "Lunette.Target.Customer" }).retentionPaths
  for _, path in ipairs(paths) do
    if path.targetTypeFullName == "Lunette.Target.Customer" then
      h.eq(KEPT, names_of(path.chain), "the chain, " .. what)
      h.eq({ "StaticVar", "Lunette.Target.LeakCache.Instance" }, { path.chain[1].rootKind, path.chain[1].rootName }, "its root, " .. what)
      return path
    end
  end
  error("no path to a customer, " .. what)
end

local function leak(skip)
  local server <close> = server_with()
  each_runtime(skip, function(runtime)
    local target <close> = start(runtime, "leak", N)
    local more = { includeRetentionPaths = true, includeStaticFields = true, includeDelegateTargets = true }
    local live = { source = "live", processId = target.pid }
    for k, v in pairs(more) do live[k] = v end
    local envelope = inspect(server, live)
    local path = explained(server, envelope, runtime .. " live")
    h.ok(envelope.data.suspendDuration ~= "00:00:00", "it stood still: " .. envelope.data.suspendDuration)
    h.ok(envelope.data.forkDuration == nil, "and was copied")
    h.ok(target:command("ping", "^PONG"), "the target goes on")

    local statics = ask(server, envelope.handle, "static-fields").staticFields
    local found = {}
    for _, row in ipairs(statics) do
      if row.containingTypeFullName == "Lunette.Target.LeakCache" then found[row.fieldName] = row.valueTypeFullName end
    end
    h.eq({ Instance = KEPT[1], Source = "Lunette.Target.Publisher", OfThread = "System.Collections.Generic.List<System.String>" }, found,
      runtime .. " static fields")
    local delegates = ask(server, envelope.handle, "delegate-targets").delegateTargets
    h.eq({ "Lunette.Target.Subscriber", "OnChanged", N // 10, false },
      { delegates[1].targetTypeFullName, delegates[1].methodName, delegates[1].subscriberCount, delegates[1].isStaticTarget }, runtime)

    local file = dump_of(server, target)
    target:kill()
    local dead = inspect(server, { source = "dump", dumpFilePath = file, includeRetentionPaths = true })
    explained(server, dead, runtime .. " dump")
    local address = path.targetObjectAddress
    local root = ask(server, dead.handle, "gcroot", { address = address }).gcRoot
    h.eq(KEPT, names_of(root.chain), runtime .. " gcroot of a process that is gone")
    local reach = ask(server, dead.handle, "objsize", { address = address }).objectSize
    h.eq({ 3, false }, { reach.objectCount, reach.truncated }, runtime .. " objsize")
    local object = ask(server, dead.handle, "object", { address = address }).objectDetails
    h.eq({ "Lunette.Target.Customer", "Name", "Photo" }, { object.typeFullName, object.fields[1].name, object.fields[2].name }, runtime)
    local _, err = ask(server, envelope.handle, "object", { address = address })
    h.ok(err and (err.kind == "HandleNotFound" or err.kind == "ProcessExited"), "a live handle goes with its process")
    h.eq("ViewNotCaptured", select(2, ask(server, dead.handle, "static-fields")).kind, "not asked for")
    h.fs.remove(file)
  end)
end

-- ---- what is odd ------------------------------------------------------------------------------------------------------------------

local function odds(skip)
  local server <close> = server_with()
  each_runtime(skip, function(runtime)
    local target <close> = start(runtime, "odds", 10)
    local envelope = inspect(server, { source = "live", processId = target.pid, includeDuplicateStrings = true })
    local handle = envelope.handle

    local timers = ask(server, handle, "timers").timers
    h.eq({ 10, 1, "Lunette.Target.OddHeap", "OnTick", 10 }, { timers.totalTimers, timers.totalTaskCompletionSources,
      timers.timersByCallback[1].targetTypeFullName, timers.timersByCallback[1].methodName, timers.timersByCallback[1].count }, runtime)
    h.ok(timers.totalTasks >= 21, "tasks: " .. timers.totalTasks)
    local task = timers.topTaskTypes[1] -- percentages are of what objects take, as in top-types
    local percent = 100 * task.totalBytes / envelope.data.heap.totalBytes
    h.ok(math.abs(task.totalBytesPercent - percent) < 0.006, ("%s %%, not %s"):format(task.totalBytesPercent, percent))

    local async = ask(server, handle, "async").asyncOperations
    local inner, outer = 0, 0
    for _, row in ipairs(async) do
      h.eq(0, row.state, row.stateMachineTypeFullName)
      if row.stateMachineTypeFullName:find("<Inner>", 1, true) then
        inner = inner + 1
        h.ok(row.stack[1].stateMachineTypeFullName:find("OddHeap%+<Outer>"), "what waits for it")
        h.eq("System.Runtime.CompilerServices.TaskAwaiter<System.Int32>", row.awaiterTypeFullName, "what it waits for")
      elseif row.stateMachineTypeFullName:find("<Outer>", 1, true) then
        outer = outer + 1
      end
    end
    h.eq({ 10, 10 }, { inner, outer }, runtime .. " async methods that never end")

    local contexts = by_name(ask(server, handle, "alc").assemblyLoadContexts.contexts, "name")
    local never = h.ok(contexts["never-unloads"], "the context")
    h.eq({ true, true, false }, { never.isCollectible, never.isUnloading, never.isDefault }, runtime)
    h.eq("System.Reflection.LoaderAllocator", never.retention[#never.retention].typeFullName, "what keeps its types")
    h.eq({ "StaticVar", "Lunette.Target.Program.Kept" }, { never.retention[1].rootKind, never.retention[1].rootName }, "from where")
    h.ok(contexts.Default, "the default one")

    local queue = by_name(ask(server, handle, "finalizer-queue").finalizableObjects)
    local finalized = queue["Lunette.Target.Finalized"]
    h.ok(finalized.readyCount >= 9 and finalized.readyCount <= 10, "one is being finalized: " .. finalized.readyCount)
    h.eq({ 10, 10 }, { finalized.instanceCount - finalized.readyCount, queue["Lunette.Target.Suppressed"].instanceCount }, runtime)

    local handles = by_name(ask(server, handle, "gchandles").gcHandles.byKind, "kind")
    local nodes = by_name(handles.Strong.topTypes)["Lunette.Target.Node"]
    h.eq(10, nodes and nodes.count, runtime .. " strong handles")
    h.eq(10, by_name(handles.Pinned.topTypes)["System.Byte[]"].count, runtime .. " pinned handles")
    h.eq(11, by_name(handles.Dependent.topTypes)["Lunette.Target.DependentKey"].count, runtime .. " dependent handles")
  end)
end

--- Static fields of types that can be unloaded: told (but on .NET 8), and no roots: what they refer to goes with their context.
local function of_a_context(skip)
  local server <close> = server_with()
  each_runtime(skip, function(runtime)
    local target <close> = start(runtime, "odds", 10)
    local envelope = inspect(server, { source = "live", processId = target.pid, includeStaticFields = true, includeRetentionPaths = true })
    local fields = {}
    for _, row in ipairs(ask(server, envelope.handle, "static-fields").staticFields) do
      if row.containingTypeFullName:find("Plugin", 1, true) then
        fields[row.containingTypeFullName .. "." .. row.fieldName] = row.valueTypeFullName
      end
    end
    local warnings = h.json.encode(envelope.data.warnings or {})
    h.ok(not warnings:find("fell over", 1, true), runtime .. ": " .. warnings)
    if runtime == "net8.0" then
      h.eq({}, fields, runtime)
      h.ok(warnings:find("Static fields of types that can be unloaded are not read", 1, true), warnings)
    else
      h.eq({ ["Lunette.Target.PluginState.Held"] = "Lunette.Target.PluginHeld",
        ["Lunette.Target.PluginState.Pair"] = "Lunette.Target.PluginPair", ["Plugin.Entry.Shared"] = "Lunette.Target.PluginHeld" }, fields,
        runtime)
      h.ok(warnings:find("Thread-static fields of types that can be unloaded are not read", 1, true), warnings)
    end
    -- of a field, of a value, of a thread and of a generic type
    local held = ask(server, envelope.handle, "retained", { typeFullName = "Lunette.Target.PluginHeld" }).retained.objects
    h.eq(4, #held, runtime .. ": what fields refer to")
    for _, object in ipairs(held) do
      local root = ask(server, envelope.handle, "gcroot", { address = object.objectAddress }).gcRoot
      h.ok(root.chain[1].rootName ~= nil or root.chain[1].rootKind ~= "StaticVar", h.json.encode(root))
      h.ok(not h.json.encode(root):find('"rootName":"[^"]*Plugin'), runtime .. ": no root: " .. h.json.encode(root))
      h.ok(table.concat(names_of(root.chain), " "):find("System.Reflection.LoaderAllocator", 1, true),
        runtime .. ": kept by what keeps the context: " .. h.json.encode(root))
    end
  end)
end

-- ---- values -----------------------------------------------------------------------------------------------------------------------

local function values(skip)
  local built, why = build("net10.0")
  if not built then skip(why) end
  local server <close> = server_with()
  local target <close> = start("net10.0", "odds", 10)
  local envelope = inspect(server, { source = "live", processId = target.pid, includeDuplicateStrings = true })
  local root = server.token
  local function strings(token, flag)
    server.token = token or root
    local rows = ask(server, envelope.handle, "duplicate-strings", { includeSensitiveValues = flag }).duplicateStrings
    server.token = root
    return rows
  end
  local hidden = "<redacted:metadata-only>"
  for _, row in ipairs(strings(nil, nil)) do h.eq(hidden, row.preview, "without the flag") end
  for _, row in ipairs(strings(PLAIN, true)) do h.eq(hidden, row.preview, "root without the literal scope") end
  local open = by_name(strings(nil, true), "preview")
  h.eq(11, h.ok(open["the same text again"], "with flag and scope").instanceCount)
  h.eq(26, h.ok(open["Server=db;Password=<redacted:sensitive>"], "a secret stays one").stringLength)
  local address = open["Server=db;Password=<redacted:sensitive>"].exampleAddress
  h.eq(hidden, ask(server, envelope.handle, "object", { address = address }).objectDetails.stringValue, "an object without the flag")
  h.eq("Server=db;Password=<redacted:sensitive>",
    ask(server, envelope.handle, "object", { address = address, includeSensitiveValues = true }).objectDetails.stringValue)
end

--- A walk takes ptrace, and no socket: of a process that has none, and of one that was stopped and stays so.
local function without_a_socket(skip)
  local built, why = build("net10.0")
  if not built then skip(why) end
  local server <close> = server_with()
  local silent <close> = start("net10.0", "known", N, { DOTNET_EnableDiagnostics = "0" })
  local stopped <close> = start("net10.0", "known", N)
  exec({ "kill", "-STOP", tostring(stopped.pid) }, 10000)
  for _, target in ipairs { silent, stopped } do
    local envelope = inspect(server, { source = "live", processId = target.pid, topTypes = 200 })
    h.eq(1000, by_name(envelope.data.topTypesByInstances)["Lunette.Target.Node"].instanceCount, "nodes")
    local refused = h.ok(server:call("inspect_heap", { source = "gcdump", processId = target.pid }))
    if refused.safetyApproval then
      refused = h.ok(server:call("inspect_heap", { source = "gcdump", processId = target.pid,
        _dotnetDiagnostics = { acknowledgement = refused.safetyApproval.requiredAcknowledgement } }))
    end
    h.eq({ "EndpointUnavailable", "live" }, { refused.error.kind, refused.hints[1].suggestedArguments.source }, refused.summary)
  end
  h.eq("T", require("lunette.proc").stat(stopped.pid).state, "it is stopped as before")
  exec({ "kill", "-CONT", tostring(stopped.pid) }, 10000)
end

-- ---- a heap in motion -------------------------------------------------------------------------------------------------------------

local function in_motion(runtime)
  return function(skip)
    local built, why = build(runtime)
    if not built then skip(why) end
    local server <close> = server_with()
    for _, environment in ipairs { {}, { DOTNET_gcServer = "1" } } do
      local target <close> = start(runtime, "churn", 2, environment)
      for _ = 1, 2 do
        local data = inspect(server, { source = "live", processId = target.pid, topTypes = 10 }).data
        local nodes = by_name(data.topTypesByBytes)["Lunette.Target.Node"]
        h.eq(50000, nodes and nodes.instanceCount, runtime .. " nodes while others are made and collected")
        for _, warning in ipairs(data.warnings or {}) do h.ok(not warning:find("no objects that can be made out", 1, true), warning) end
        h.ok(target:command("ping", "^PONG"), "the target goes on")
      end
    end
  end
end

-- ---- detail=totals ----------------------------------------------------------------------------------------------------------------

local function counted(skip)
  local server <close> = server_with()
  each_runtime(skip, function(runtime)
    local target <close> = start(runtime, "known", N)
    local function look(what)
      local envelope = inspect(server, what)
      local rows = {}
      for _, row in ipairs(ask(server, envelope.handle, "top-types").topTypes) do
        rows[row.typeFullName] = { row.instanceCount, row.totalBytes, row.identity and row.identity.metadataToken }
      end
      return rows, envelope
    end
    local kept, whole = look { source = "live", processId = target.pid }
    local rows, totals = look { source = "live", processId = target.pid, detail = "totals" }
    h.eq(kept, rows, runtime .. ": what is counted is what is kept")
    h.eq(N, rows["Lunette.Target.Node"][1], runtime .. " nodes")
    local heap, other = totals.data.heap, whole.data.heap
    h.eq({ other.objectCount, other.totalBytes, other.gen0Bytes, other.largeObjectHeapBytes },
      { heap.objectCount, heap.totalBytes, heap.gen0Bytes, heap.largeObjectHeapBytes }, runtime)
    h.eq(nil, heap.referenceCount, "nobody counted them")
    h.ok(totals.data.suspendDuration, "how long it stood")
    for _, view in ipairs { "retained", "gcroot", "objsize", "dominators", "roots-by-kind", "timers", "gchandles", "alc" } do
      local _, err = ask(server, totals.handle, view, { address = "0x1000" })
      h.eq("ViewNotCaptured", err and err.kind, view)
    end
    h.ok(ask(server, totals.handle, "fragmentation"), "regions are known")
    local growth = h.ok(ask(server, totals.handle, "growth", { baselineHandle = whole.handle }))
    h.eq(0, #growth.growth.growers, runtime .. ": one heap, looked at twice")
    h.ok(target:command("ping", "^PONG"), "the target goes on")

    local file = dump_of(server, target)
    kept = look { source = "dump", dumpFilePath = file }
    h.eq(kept, (look { source = "dump", dumpFilePath = file, detail = "totals" }), runtime .. " dump")
    h.fs.remove(file)
  end)
end

local function counted_in_motion(skip)
  local server <close> = server_with()
  each_runtime(skip, function(runtime)
    local target <close> = start(runtime, "churn", 2)
    for _ = 1, 2 do
      local data = inspect(server, { source = "live", processId = target.pid, topTypes = 10, detail = "totals" }).data
      local nodes = by_name(data.topTypesByBytes)["Lunette.Target.Node"]
      h.eq(50000, nodes and nodes.instanceCount, runtime .. " nodes while others are made and collected")
      h.ok(target:command("ping", "^PONG"), "the target goes on")
    end
  end)
end

local function counted_only(skip)
  local built, why = build("net10.0")
  if not built then skip(why) end
  local server <close> = server_with()
  local target <close> = start("net10.0", "idle")
  for name, more in pairs { includeRetentionPaths = true, includeDuplicateStrings = true, freeze = "fork" } do
    local envelope = h.ok(server:call("inspect_heap", { source = "live", processId = target.pid, detail = "totals", [name] = more }))
    h.eq("InvalidArgument", envelope.error and envelope.error.kind, name)
    h.ok(envelope.error.message:find(name, 1, true), envelope.error.message)
  end
  local envelope = h.ok(server:call("inspect_heap", { source = "gcdump", processId = target.pid, detail = "totals" }))
  h.eq("InvalidArgument", envelope.error and envelope.error.kind, "a gcdump tells of every object")
end

-- ---- freeze=fork ------------------------------------------------------------------------------------------------------------------

local ROUNDS <const> = 4 -- on each runtime; a thousand: tests/bench/heap/fork_rounds.c

--- The types of a heap whose program does nothing, by name.
local function types_of(server, target, freeze)
  local envelope = inspect(server, { source = "live", processId = target.pid, freeze = freeze, includeRetentionPaths = true })
  local set = {}
  for _, row in ipairs(ask(server, envelope.handle, "top-types").topTypes) do
    set[row.typeFullName] = { row.instanceCount, row.totalBytes }
  end
  return set, envelope
end

local function forked(skip)
  local server <close> = server_with { fork = "true" }
  each_runtime(skip, function(runtime)
    do
      local quiet <close> = start(runtime, "leak", N)
      local copied = types_of(server, quiet, "copy")
      local of_fork, envelope = types_of(server, quiet, "fork")
      h.eq(copied, of_fork, runtime .. ": a fork has what a copy has")
      explained(server, envelope, runtime .. " fork")
      h.eq(copied, (types_of(server, quiet, "copy")), runtime .. ": and leaves it as it was")
    end
    local busy <close> = start(runtime, "toil", 1)
    for round = 1, ROUNDS do
      local data = inspect(server, { source = "live", processId = busy.pid, freeze = "fork", topTypes = 200 }).data
      h.ok(data.forkDuration and data.forkDuration > "00:00:00" and data.forkDuration <= data.suspendDuration,
        "the clone is part of the stop: " .. tostring(data.forkDuration))
      local nodes = by_name(data.topTypesByInstances)["Lunette.Target.Node"]
      h.eq(N, nodes and nodes.instanceCount, ("%s round %d"):format(runtime, round))
      local facts = h.ok(server:call("inspect_process", { processId = busy.pid, view = "info" }))
      h.eq(nil, facts.error, runtime .. ": its diagnostics socket answers")
    end
    local line = busy:command("check", "^WORK")
    h.ok(line:find("wrong=0 ", 1, true), runtime .. ": " .. line)
  end)
end

local function fork_is_off(skip)
  local built, why = build("net10.0")
  if not built then skip(why) end
  local server <close> = server_with()
  local target <close> = start("net10.0", "idle")
  local envelope = h.ok(server:call("inspect_heap", { source = "live", processId = target.pid, freeze = "fork" }))
  h.eq("NotSupported", envelope.error and envelope.error.kind)
  h.ok(envelope.error.message:find("Diagnostics__AllowProcessFork", 1, true), envelope.error.message)
end

return {
  { "as ClrMD counts, .NET 10", as_clrmd("net10.0") },
  { "as ClrMD counts, .NET 9", as_clrmd("net9.0") },
  { "as ClrMD counts, .NET 8", as_clrmd("net8.0") },
  { "a leak is explained on every runtime, live and from a dump", leak },
  { "timers, async methods, contexts, finalizers and handles", odds },
  { "static fields of a context that can be unloaded", of_a_context },
  { "values are for those who may see them", values },
  { "a process whose socket does not answer", without_a_socket },
  { "a heap in motion, .NET 10", in_motion("net10.0") },
  { "a heap in motion, .NET 9", in_motion("net9.0") },
  { "a heap in motion, .NET 8", in_motion("net8.0") },
  { "objects are counted without being kept, live and from a dump", counted },
  { "a heap in motion is counted", counted_in_motion },
  { "what looks at objects does not go with a count", counted_only },
  { "a fork is read like a copy, and harms nothing", forked },
  { "a fork is off unless it is configured", fork_is_off },
}
