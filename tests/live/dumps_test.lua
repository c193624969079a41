-- SPDX-License-Identifier: MIT
-- collect_process_dump and get_bytes over real processes: the four types on every runtime, read by gdb; who is asked, and what a no means;
-- a target of another user, and one with a file system of its own; pieces that make up the whole; what is removed, and when.
local crypto = require("lunette.crypto")
local h = require("harness")

local RUNTIMES <const> = { "net10.0", "net9.0", "net8.0" }
local TYPES <const> = { "Mini", "Triage", "WithHeap", "Full" }
local MB <const> = 1000000
local ALL <const> = "all-scopes-token"
local ASK <const> = { elicitation = { form = {} } }

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

local function target_of(skip, runtime, options)
  local built, why = h.build_target(runtime)
  if not built then skip(why) end
  return h.target(runtime, "idle", nil, options)
end

--- A server with a root of its own and two tokens: root, and one that has every literal scope beside.
local function server_with(root, more)
  local environment = {
    MCP_ARTIFACT_ROOT = root, MCP_BEARER_TOKEN = "",
    Auth__BearerTokens__0__Name = "plain", Auth__BearerTokens__0__Token = "live-test-token", Auth__BearerTokens__0__Scopes__0 = "root",
    Auth__BearerTokens__1__Name = "all", Auth__BearerTokens__1__Token = ALL, Auth__BearerTokens__1__Scopes__0 = "root",
    Auth__BearerTokens__1__Scopes__1 = "module-bytes-read", Auth__BearerTokens__1__Scopes__2 = "delete-artifact",
  }
  for k, v in pairs(more or {}) do environment[k] = v end
  return h.server { environment = environment }
end

local function mode_of(path) return ("%04o"):format(h.ok(h.fs.stat(path), path).mode) end

local function files_below(root)
  local done = assert(h.loop.exec { argv = { "find", root, "-type", "f" }, timeout_ms = 10000 })
  local list = {}
  for line in done.stdout:gmatch("[^\n]+") do list[#list + 1] = line end
  return list
end

local function run(...) return assert(h.loop.exec { argv = { ... }, timeout_ms = 60000, max_output = 16 * 1024 * 1024 }) end

local function alive(target) return h.ok(require("lunette.proc").stat(target.pid), "the target lives").state ~= "T" end

--- An ELF core that a debugger opens: its threads are there.
local function is_core(path, target, headers_only)
  local header = run("readelf", "-h", path)
  h.ok(header.stdout:find("CORE", 1, true), path .. " is a core file: " .. header.stdout)
  if headers_only then return end
  local gdb = run("sh", "-c", "command -v gdb >/dev/null || { echo no gdb; exit 0; }; exec gdb -nx -batch -ex 'info threads' -c \"$1\"",
    "sh", path)
  if gdb.stdout:find("no gdb", 1, true) then return end
  local _, threads = gdb.stdout:gsub("\n[* ] +%d+ +LWP", "")
  h.ok(threads >= 5, ("gdb sees the threads of process %d: %s%s"):format(target.pid, gdb.stdout, gdb.stderr))
end

local function four_types(skip)
  each_runtime(skip, function(runtime)
    local target <close> = target_of(skip, runtime)
    local root = h.scratch() .. "/artifacts"
    local server <close> = server_with(root)
    local sizes = {}
    for _, type in ipairs(TYPES) do
      local envelope = h.ok(server:call("collect_process_dump",
        { processId = target.pid, dumpType = type, outputDirectory = "dumps/of " .. runtime, confirm = true }))
      h.eq(nil, envelope.error, runtime .. " " .. type)
      local data = envelope.data
      local dump = data.dump
      h.eq({ "dump_written", target.pid, type, "dumps/of " .. runtime }, { data.kind, data.targetPid, data.dumpType, data.outputDirectory })
      local before, name = dump.filePath:match("^(.*/)([^/]*)$")
      h.eq(("%s/dumps/of %s/"):format(root, runtime), before, "its folder")
      h.ok(name:find(("^dump_pid%d_%s_%s%%.dmp$"):format(target.pid, type, ("%d"):rep(8) .. "T" .. ("%d"):rep(6) .. "Z")), name)
      h.eq(h.fs.stat(dump.filePath).size, dump.fileSizeBytes, "bytes")
      h.eq({ "0600", "0700", "0700" }, { mode_of(dump.filePath), mode_of(root .. "/dumps"), mode_of(root) }, "modes")
      local hint = h.ok(h.find(envelope.hints, { nextTool = "inspect_heap" }), "hint at the heap").suggestedArguments
      h.eq({ "dump", dump.filePath, type ~= "Mini" and 20 or nil }, { hint.source, hint.dumpFilePath, hint.topTypes }, "the hint")
      if type == "Mini" or type == "Triage" then -- the heap is not there: that is no heap without objects
        local heap = server:call("inspect_heap", { source = "dump", dumpFilePath = dump.filePath })
        h.eq("NotSupported", heap.error and heap.error.kind, ("%s: the heap of a %s dump: %s"):format(runtime, type, heap.summary))
        h.eq("WithHeap", h.ok(h.find(heap.hints, { nextTool = "collect_process_dump" }), "what helps").suggestedArguments.dumpType)
      end
      is_core(dump.filePath, target, runtime ~= "net10.0" and type ~= "WithHeap") -- the debugger takes long
      sizes[type] = dump.fileSizeBytes
    end
    h.ok(sizes.Mini < 30 * MB and sizes.Triage < 30 * MB, runtime .. ": small ones are small: " .. h.json.encode(sizes))
    h.ok(sizes.WithHeap > 2 * sizes.Mini and sizes.Full > sizes.WithHeap, runtime .. ": large ones are large: " .. h.json.encode(sizes))
    h.eq(4, #files_below(root), "nothing else is left")
    h.ok(alive(target), "it runs on")
  end)
end

local function crash_report(skip)
  local target <close> = target_of(skip, "net10.0")
  local root = h.scratch() .. "/artifacts"
  local server <close> = server_with(root)
  local dump = h.ok(server:call("collect_process_dump", { processId = target.pid, confirm = true, crashReport = true })).data.dump
  h.eq(dump.filePath .. ".crashreport.json", dump.crashReportPath, "beside the dump")
  h.eq("0600", mode_of(dump.crashReportPath), "mode")
  local report = h.ok(h.json.decode(h.fs.read(dump.crashReportPath, 16 * MB)), "it is JSON")
  h.ok(#report.payload.threads >= 1, "with the stacks of threads")
end

--- The call as the client sends it, with an answer to the question, if there is one.
local function ask(server, arguments, answer)
  return h.ok(server:request("tools/call", {
    name = "collect_process_dump", arguments = arguments, inputResponses = answer and { approve = answer.response } or nil,
    requestState = answer and answer.state or nil,
  }, { capabilities = ASK }))
end

local function a_person_is_asked(skip)
  local target <close> = target_of(skip, "net10.0")
  local root = h.scratch() .. "/artifacts"
  local server <close> = server_with(root)
  local arguments = { processId = target.pid, dumpType = "Mini", confirm = true } -- confirm is no way round a person
  local first = ask(server, arguments)
  local question = h.ok(first.inputRequests and first.inputRequests.approve, "a question: " .. h.json.encode(first))
  h.eq("elicitation/create", question.method, "of this kind")
  h.eq({ "boolean", { "approve" } }, { question.params.requestedSchema.properties.approve.type, question.params.requestedSchema.required })
  for _, word in ipairs { tostring(target.pid), "Mini", root, "MiB", "stacks" } do
    h.ok(question.params.message:find(word, 1, true), "the question names " .. word .. ": " .. question.params.message)
  end
  for _, response in ipairs { { action = "decline" }, { action = "cancel" }, { action = "accept", content = { approve = false } } } do
    local said = ask(server, arguments, { response = response, state = first.requestState }).structuredContent
    h.eq({ "approval_declined", 0, nil }, { said.data.kind, #said.hints, said.error }, "a no: " .. h.json.encode(response))
  end
  h.eq({}, files_below(root), "nothing is written")
  local said = ask(server, arguments, { response = { action = "accept", content = { approve = true } }, state = first.requestState })
  h.eq("dump_written", said.structuredContent.data.kind, "a yes")
  h.eq(1, #files_below(root), "one file")
end

--- The answer of a person is about the process that was asked about, not about another of the same number.
local function the_answer_is_about_one_process(skip)
  local target <close> = target_of(skip, "net10.0")
  local server <close> = server_with(h.scratch() .. "/artifacts")
  local first = ask(server, { processId = target.pid })
  target:kill()
  local said = ask(server, { processId = target.pid },
    { response = { action = "accept", content = { approve = true } }, state = first.requestState }).structuredContent
  h.eq("ProcessNotFound", said.error and said.error.kind, "it has ended")
end

local function without_elicitation(skip)
  local target <close> = target_of(skip, "net10.0")
  local root = h.scratch() .. "/artifacts"
  local server <close> = server_with(root)
  local envelope = h.ok(server:call("collect_process_dump", { processId = target.pid, dumpType = "withheap", outputDirectory = "here" }))
  h.eq({ "confirmation_required", target.pid, "WithHeap", "here" },
    { envelope.data.kind, envelope.data.targetPid, envelope.data.dumpType, envelope.data.outputDirectory }, "a preview")
  h.eq({}, files_below(root), "nothing is written")
  local hint = h.ok(h.find(envelope.hints, { nextTool = "collect_process_dump" }), "a hint").suggestedArguments
  h.eq({ target.pid, "WithHeap", "here", true }, { hint.processId, hint.dumpType, hint.outputDirectory, hint.confirm }, "at the same call")
  h.eq("dump_written", h.ok(server:call("collect_process_dump", hint)).data.kind, "which writes it")
end

local function paths_that_leave(skip)
  local target <close> = target_of(skip, "net10.0")
  local root = h.scratch() .. "/artifacts"
  assert(h.fs.mkdirs(root))
  run("ln", "-s", "/tmp", root .. "/out")
  local server <close> = server_with(root)
  for _, path in ipairs { "/tmp/x", "../x", "a/../../x", "out", "out/x" } do
    local envelope = h.ok(server:call("collect_process_dump", { processId = target.pid, outputDirectory = path, confirm = true }))
    h.eq({ "InvalidArtifactPath", "outputDirectory" }, { envelope.error and envelope.error.kind, envelope.error.detail }, path)
  end
  local bytes = {
    { "dump", "dumpFilePath" }, { "trace", "traceFilePath" }, { "delete", "artifactPath" },
  }
  for _, of in ipairs(bytes) do
    for _, path in ipairs { "/etc/passwd", "../x", "out/passwd", "/no/such/file" } do
      local arguments = { kind = of[1], [of[2]] = path }
      local envelope = h.ok(server:call("get_bytes", arguments, { token = ALL }))
      if envelope.safetyApproval then -- a removal is approved first
        arguments._dotnetDiagnostics = { acknowledgement = envelope.safetyApproval.requiredAcknowledgement }
        envelope = h.ok(server:call("get_bytes", arguments, { token = ALL }))
      end
      h.ok(envelope.error and (envelope.error.kind == "InvalidArtifactPath" or envelope.error.kind == "ArtifactNotFound"
        and path == "out/passwd"), ("%s %s: %s"):format(of[1], path, h.json.encode(envelope.error or envelope.data)))
    end
  end
end

--- A target of another user, which may not write below our root; and one that has a /tmp of its own.
local function elsewhere(skip)
  if run("id", "-u").stdout ~= "0\n" then skip("only root starts a process of another user, or in another namespace") end
  local probe = h.loop.exec { argv = { "unshare", "-m", "mount", "-t", "tmpfs", "none", "/var/tmp" }, timeout_ms = 5000 }
  local wrappers = { { "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups" } }
  if probe and probe.code == 0 then
    wrappers[2] = { "unshare", "-m", "sh", "-c", "mount -t tmpfs none /dev/shm; export TMPDIR=/dev/shm; exec \"$@\"", "sh" }
  end
  for i, wrapper in ipairs(wrappers) do
    local target <close> = target_of(skip, "net10.0", { wrapper = wrapper, environment = { HOME = "/tmp" } })
    local root = h.scratch() .. "/artifacts"
    local server <close> = server_with(root)
    local envelope = h.ok(server:call("collect_process_dump", { processId = target.pid, confirm = true }))
    h.eq("dump_written", envelope.data and envelope.data.kind, ("%d: %s"):format(i, h.json.encode(envelope.error or {})))
    local path = envelope.data.dump.filePath
    h.eq({ "0600", 0 }, { mode_of(path), h.fs.stat(path).uid }, "ours alone")
    is_core(path, target)
    h.eq(1, #files_below(root), "nothing else")
    for _, folder in ipairs { "/tmp", ("/proc/%d/%s"):format(target.pid, "root/dev/shm") } do
      for _, name in ipairs(h.fs.list(folder) or {}) do
        h.ok(not name:find("^lunette%-%x+$"), "no folder is left: " .. folder .. "/" .. name)
      end
    end
  end
end

local function native_aot(skip)
  local target <close> = target_of(skip, "aot")
  local server <close> = server_with(h.scratch() .. "/artifacts")
  local envelope = h.ok(server:call("collect_process_dump", { processId = target.pid, confirm = true }))
  h.eq("NotSupported", envelope.error and envelope.error.kind, "without a createdump")
  h.ok(envelope.error.message:find("NativeAOT", 1, true) and envelope.error.message:find("gcore", 1, true), envelope.error.message)
  h.ok(alive(target), "it lives")
end

--- One that was started so that it can: with a createdump beside it, and told that it may have to.
local function native_aot_prepared(skip)
  local donor <close> = target_of(skip, "net10.0")
  local createdump
  for _, path in ipairs(h.ok(require("lunette.proc").maps(donor.pid)).files) do
    local folder = path:match("^(.*)/libcoreclr%.so$")
    createdump = folder and folder .. "/createdump" or createdump
  end
  local built, why = h.build_target("aot")
  if not built then skip(why) end
  if not createdump or not h.fs.stat(createdump) then skip("the runtime has no createdump beside it") end
  local folder = h.scratch()
  run("cp", h.targets .. "/aot/lunette-target", createdump, folder)
  local target <close> = h.start({ folder .. "/lunette-target", "idle" }, "prepared", { DOTNET_DbgEnableMiniDump = "1" })
  local server <close> = server_with(h.scratch() .. "/artifacts")
  local envelope = h.ok(server:call("collect_process_dump", { processId = target.pid, confirm = true }))
  h.eq({ "NotSupported", "Full" }, { envelope.error and envelope.error.kind, envelope.hints[1].suggestedArguments.dumpType }, "full only")
  local dump = h.ok(server:call("collect_process_dump", { processId = target.pid, dumpType = "Full", confirm = true })).data.dump
  h.ok(run("readelf", "-h", dump.filePath).stdout:find("CORE", 1, true), "a core file")
  h.ok(alive(target), "it runs on")
end

local function scopes(skip)
  local target <close> = target_of(skip, "net10.0")
  local root = h.scratch() .. "/artifacts"
  local server <close> = server_with(root, {
    Auth__BearerTokens__2__Name = "dump", Auth__BearerTokens__2__Token = "dump-token", Auth__BearerTokens__2__Scopes__0 = "dump-write",
  })
  local envelope, _, result = server:call("collect_process_dump", { processId = target.pid, confirm = true }, { token = "dump-token" })
  h.eq({ "PermissionDenied", "ptrace", true }, { envelope.error.kind, envelope.error.detail, result.isError }, "ptrace, too")
  envelope = server:call("get_bytes", { kind = "list" })
  h.eq({ "PermissionDenied", "module-bytes-read" }, { envelope.error.kind, envelope.error.detail }, "root does not bring it")
  envelope = server:call("get_bytes", { kind = "everything" }, { token = ALL })
  h.eq("InvalidArgument", envelope.error.kind, "an unknown kind")
  for _, word in ipairs { "module", "dump", "trace", "list", "delete" } do h.ok(envelope.error.message:find(word, 1, true), word) end
end

--- All pieces of a file, joined. The last has no next.
local function fetch(server, arguments, piece)
  local parts, offset, data = {}, 0
  repeat
    local given = { offset = offset, maxBytes = piece }
    for k, v in pairs(arguments) do given[k] = v end
    local envelope = h.ok(server:call("get_bytes", given, { token = ALL }))
    data = h.ok(envelope.data, h.json.encode(envelope.error or {}))
    local bytes = h.ok(crypto.unbase64(data.base64Chunk), "base64")
    h.eq({ #bytes, offset }, { data.chunkSize, data.offset }, "the piece")
    parts[#parts + 1] = bytes
    local hint = h.find(envelope.hints, { nextTool = "get_bytes" })
    h.eq(data.nextOffset, hint and hint.suggestedArguments.offset, "the hint at the next piece")
    offset = data.nextOffset
  until not offset
  return table.concat(parts), data, #parts
end

local function pieces(skip)
  local target <close> = target_of(skip, "net10.0")
  local root = h.scratch() .. "/artifacts"
  local server <close> = server_with(root)
  local dump = h.ok(server:call("collect_process_dump", { processId = target.pid, confirm = true })).data.dump
  local whole, data, n = fetch(server, { kind = "dump", dumpFilePath = dump.filePath }, 2 * 1024 * 1024)
  h.ok(n >= 3, "several pieces: " .. n)
  h.eq({ data.sha256, dump.fileSizeBytes, "dump", dump.filePath },
    { crypto.hex(crypto.sha256(whole)), #whole, data.asset, data.identifier })
  local relative = dump.filePath:sub(#root + 2)
  h.ok(fetch(server, { kind = "dump", dumpFilePath = relative }, 1000000) == whole, "the same by the relative path")
  run("truncate", "-s", "17M", root .. "/traces.nettrace")
  local most = assert(h.loop.exec { argv = { "env", "MCP_ARTIFACT_ROOT=" .. root, h.lunette, "call", "get_bytes", "kind=trace",
    "traceFilePath=traces.nettrace", "maxBytes=2000000000", "--scopes", "module-bytes-read", "--json" }, timeout_ms = 60000,
    max_output = 32 * 1024 * 1024 }).stdout
  h.eq({ "16777216", "16777216" }, { most:match('"chunkSize":(%d+)'), most:match('"nextOffset":(%d+)') }, "cut to the most")
  run("truncate", "-s", "257M", root .. "/big.dmp")
  local envelope = server:call("get_bytes", { kind = "dump", dumpFilePath = "big.dmp" }, { token = ALL })
  h.eq("InvalidArgument", envelope.error and envelope.error.kind, "more than 256 MiB")
  envelope = server:call("get_bytes", { kind = "dump", dumpFilePath = relative, offset = #whole + 1 }, { token = ALL })
  h.eq({ "InvalidArgument", "offset" }, { envelope.error.kind, envelope.error.detail }, "past the end")
end

local function modules(skip)
  each_runtime(skip, function(runtime)
    local target <close> = target_of(skip, runtime)
    local server <close> = server_with(h.scratch() .. "/artifacts")
    local path = h.fs.realpath(h.targets .. "/" .. runtime .. "/lunette-target.dll")
    local mvid = h.ok(require("lunette.symbols").modules({ { path = path } })[1].mvid, "the module's id")
    for asset, suffix in pairs { pe = "dll", pdb = "pdb" } do
      local whole, data = fetch(server, { kind = "module", moduleVersionId = mvid, processId = target.pid, asset = asset }, 4194304)
      local file = path:gsub("dll$", suffix)
      h.ok(whole == h.fs.read(file, 16 * MB), runtime .. ": the bytes of " .. file)
      h.eq({ asset, mvid, file, path:gsub("dll$", "pdb"), target.pid },
        { data.asset, data.identifier, data.sourcePath, data.companionPdbPath, data.processId }, runtime)
    end
    local envelope = server:call("get_bytes",
      { kind = "module", moduleVersionId = "00000000-0000-0000-0000-000000000001", processId = target.pid }, { token = ALL })
    h.eq("ArtifactNotFound", envelope.error and envelope.error.kind, "a module that it has not")
  end)
end

local function inventory_and_removal(skip)
  local target <close> = target_of(skip, "net10.0")
  local root = h.scratch() .. "/artifacts"
  local server <close> = server_with(root)
  local first = h.ok(server:call("collect_process_dump", { processId = target.pid, confirm = true })).data.dump
  local second = h.ok(server:call("collect_process_dump", { processId = target.pid, confirm = true, outputDirectory = "x" })).data.dump
  local list = h.ok(server:call("get_bytes", { kind = "list" }, { token = ALL })).data
  h.eq({ root, 2, first.fileSizeBytes + second.fileSizeBytes }, { list.root, list.count, list.totalSizeBytes }, "the inventory")
  h.eq({ second.filePath, first.filePath }, { list.artifacts[1].absolutePath, list.artifacts[2].absolutePath }, "newest first")
  h.eq({ second.filePath:sub(#root + 2), second.fileSizeBytes }, { list.artifacts[1].relativePath, list.artifacts[1].sizeBytes })
  h.ok(list.artifacts[2].ageSeconds >= list.artifacts[1].ageSeconds, "ages")
  local arguments = { kind = "delete", artifactPath = list.artifacts[1].relativePath }
  local envelope = h.ok(server:call("get_bytes", arguments, { token = ALL }))
  h.ok(envelope.safetyApproval and h.fs.stat(second.filePath), "a removal is approved first")
  arguments._dotnetDiagnostics = { acknowledgement = envelope.safetyApproval.requiredAcknowledgement }
  local gone = h.ok(server:call("get_bytes", arguments, { token = ALL })).data
  h.eq({ list.artifacts[1].relativePath, second.fileSizeBytes }, { gone.relativePath, gone.sizeBytes }, "what it was")
  h.eq({ first.filePath }, files_below(root), "the other stays")
end

--- What is old goes when a server starts; what is young, or not ours, stays; and all does when the setting says so.
local function old_ones_go(skip)
  local root = h.scratch() .. "/artifacts"
  assert(h.fs.mkdirs(root .. "/d"))
  local old, young = root .. "/d/dump_pid1_Mini_20200101T000000Z.dmp", root .. "/dump_pid1_Full_20200101T000000Z.dmp"
  for _, path in ipairs { old, young, root .. "/mine.dmp" } do assert(h.fs.write_private(path, "x")) end
  for _, path in ipairs { old, root .. "/mine.dmp" } do run("touch", "-d", "2 hours ago", path) end
  if not h.fs.stat(old) then skip("no file of that age can be made here") end
  do
    local server <close> = server_with(root, { MCP_ARTIFACT_TTL_HOURS = "0" })
    h.ok(server:call("inspect_process", {}), "it serves")
    h.ok(h.fs.stat(old), "0 keeps all")
  end
  local server <close> = server_with(root, { MCP_ARTIFACT_TTL_HOURS = "1" })
  h.wait_for("the old one's end", h.START_MS, function() return not h.fs.stat(old) end)
  h.ok(h.fs.stat(young) and h.fs.stat(root .. "/mine.dmp"), "the others stay")
  h.ok(server:call("inspect_process", {}), "it serves")
end

--- Who goes away leaves no file, although the runtime cannot be stopped; the server keeps nothing.
local function cancelled(skip)
  local target <close> = target_of(skip, "net10.0")
  target:signal("STOP") -- so that its runtime does not answer before it is told to
  local root = h.scratch() .. "/artifacts"
  local server <close> = server_with(root)
  local before = h.usage(server.pid)
  target:signal("CONT")
  h.ok(server:call("inspect_process", { view = "info", processId = target.pid }), "it is reached")
  local call = h.loop.spawn(function()
    return server:call("collect_process_dump", { processId = target.pid, dumpType = "Full", confirm = true }, { progress = true })
  end)
  h.wait_for("the file", h.START_MS, function() return #files_below(root) > 0 or call:done() end)
  call:cancel("half-way")
  h.no_session(target)
  h.wait_for("the end of the file", h.START_MS, function()
    for _, path in ipairs(files_below(root)) do
      if path:find("%.part") then return false end
    end
    return true
  end)
  h.settled(server, before)
  h.ok(alive(target), "it runs on")
end

--- A watch takes a dump when its threshold is crossed.
local function by_a_watch(skip)
  local target <close> = target_of(skip, "net10.0")
  local root = h.scratch() .. "/artifacts"
  local server <close> = server_with(root)
  local arguments = {
    kind = "counters", processId = target.pid, triggerWhen = "rssMb>1", captureKind = "dump", windowSeconds = 20, confirmDump = true,
    sampleIntervalSeconds = 1,
  }
  local envelope = h.ok(server:call("collect_events", arguments))
  h.ok(envelope.safetyApproval, "it is approved first: " .. h.json.encode(envelope.error or {}))
  arguments._dotnetDiagnostics = { acknowledgement = envelope.safetyApproval.requiredAcknowledgement }
  envelope = h.ok(server:call("collect_events", arguments))
  local record = h.ok(envelope.data and envelope.data.gatedCapture, h.json.encode(envelope.error or {})).captures[1]
  h.ok(record and record.dumpPath, "a dump: " .. h.json.encode(envelope.data))
  h.eq("0600", mode_of(record.dumpPath), "its mode")
  is_core(record.dumpPath, target)
  arguments.confirmDump, arguments._dotnetDiagnostics = false, nil
  h.eq("InvalidArgument", h.ok(server:call("collect_events", arguments)).error.kind, "not without confirmDump")
end

-- A call of a high risk, with its acknowledgement.
local function acknowledged(server, name, arguments)
  local envelope = h.ok(server:call(name, arguments))
  h.ok(envelope.safetyApproval, name .. " is acknowledged first: " .. h.json.encode(envelope.error or {}))
  local again = { _dotnetDiagnostics = { acknowledgement = envelope.safetyApproval.requiredAcknowledgement } }
  for k, v in pairs(arguments) do again[k] = v end
  return h.ok(server:call(name, again))
end

local function token_of(path, name)
  local listing = run(h.lunette, "symbols", path).stdout
  for line in listing:gmatch("[^\n]+") do
    if line:find(name, 1, true) then return "0x" .. line:match("^%x+") end
  end
  error("no method " .. name .. " in " .. path)
end

--- The code of a method, live and from a dump, is what lies in the memory of the process.
local function method_bytes(skip)
  each_runtime(skip, function(runtime)
    local target <close> = target_of(skip, runtime)
    local root = h.scratch() .. "/artifacts"
    local server <close> = server_with(root)
    local module = h.targets .. "/" .. runtime .. "/lunette-target.dll"
    local arguments = {
      moduleVersionId = require("lunette.symbols").modules({ { path = module } })[1].mvid,
      metadataToken = token_of(module, "Lunette.Target.Program.Main(string[])"), processId = target.pid,
    }
    local envelope = acknowledged(server, "capture_method_bytes", arguments)
    local live = h.ok(envelope.data, runtime .. ": " .. h.json.encode(envelope.error or {}))
    h.eq({ "live", target.pid, "X64", "Main", "Lunette.Target.Program", 1 }, { live.origin, live.processId, live.architecture,
      live.method.methodName, live.method.typeFullName, #live.regions }, runtime)
    local region = live.regions[1]
    h.eq({ "Hot", "Jit", "0600", region.size }, { region.region, region.compilationType, mode_of(region.filePath),
      h.fs.stat(region.filePath).size }, runtime)
    h.ok(region.filePath:find("/method-bytes/" .. target.pid .. "/", 1, true), region.filePath)
    local bytes = h.fs.read(region.filePath, MB)
    local memory = h.ok(io.open(("/proc/%d/mem"):format(target.pid), "rb"))
    memory:seek("set", math.tointeger(tonumber(region.baseAddress)))
    h.ok(memory:read(region.size) == bytes, runtime .. ": the bytes in the process")
    memory:close()
    local hint = h.ok(h.find(envelope.hints, { nextTool = "dotnet-native-mcp.disassemble" }), "a hint for each region").suggestedArguments
    h.eq({ region.filePath, true, 0, region.size, "X64", region.baseAddress },
      { hint.imagePath, hint.rawBlob, hint.rva, hint.size, hint.architecture, hint.baseAddress }, "what it says")
    arguments.codeAddress = ("0x%x"):format(math.tointeger(tonumber(region.baseAddress)) + region.size // 2)
    h.eq(region.baseAddress, acknowledged(server, "capture_method_bytes", arguments).data.regions[1].baseAddress, "by an address in it")
    arguments.codeAddress = "0x1000"
    envelope = acknowledged(server, "capture_method_bytes", arguments)
    h.eq({ "InvalidArgument", "codeAddress" }, { envelope.error.kind, envelope.error.detail }, "an address outside")
    local dump = h.ok(server:call("collect_process_dump", { processId = target.pid, dumpType = "WithHeap", confirm = true })).data.dump
    target:kill()
    local of_dump = h.ok(server:call("capture_method_bytes", {
      moduleVersionId = arguments.moduleVersionId, metadataToken = tostring(tonumber(arguments.metadataToken)),
      dumpFilePath = dump.filePath, outputDirectory = "code", tier = "Tier0",
    }))
    local same = h.ok(of_dump.data, h.json.encode(of_dump.error or {}))
    h.eq({ "dump", target.pid, region.baseAddress, "Tier0" },
      { same.origin, same.processId, same.regions[1].baseAddress, same.regions[1].tier }, runtime .. ": of the dump")
    h.ok(h.fs.read(same.regions[1].filePath, MB) == bytes, runtime .. ": the same bytes")
  end)
end

local function methods_without_bytes(skip)
  local target <close> = target_of(skip, "net10.0")
  local server <close> = server_with(h.scratch() .. "/artifacts")
  local core
  for _, path in ipairs(h.ok(require("lunette.proc").maps(target.pid)).files) do
    core = path:find("/System.Private.CoreLib.dll", 1, true) and path or core
  end
  local arguments = {
    moduleVersionId = require("lunette.symbols").modules({ { path = core } })[1].mvid, processId = target.pid,
    metadataToken = token_of(core, "System.AppContext.Setup("),
  }
  local envelope = acknowledged(server, "capture_method_bytes", arguments)
  h.eq("NotSupported", envelope.error and envelope.error.kind, "precompiled: " .. h.json.encode(envelope.data or envelope.error))
  h.ok(envelope.error.message:find(core, 1, true), "points at the file: " .. envelope.error.message)
  arguments.metadataToken = "0x02000001"
  h.eq({ "InvalidArgument", "metadataToken" }, { server:call("capture_method_bytes", arguments).error.kind,
    server:call("capture_method_bytes", arguments).error.detail }, "the token of a type")
  h.ok(alive(target), "it runs on")
  local aot <close> = target_of(skip, "aot")
  arguments.metadataToken, arguments.processId = "0x06000001", aot.pid
  envelope = acknowledged(server, "capture_method_bytes", arguments)
  h.eq("NotSupported", envelope.error and envelope.error.kind, "NativeAOT")
  h.ok(envelope.error.message:find("/aot/lunette-target", 1, true), "points at the file: " .. envelope.error.message)
end

return {
  { "four types on every runtime", four_types },
  { "a crash report beside the dump", crash_report },
  { "a person is asked, whatever confirm says", a_person_is_asked },
  { "the answer is about one process", the_answer_is_about_one_process },
  { "without elicitation: a preview, then confirm", without_elicitation },
  { "paths that leave the artifact root", paths_that_leave },
  { "another user, another file system", elsewhere },
  { "NativeAOT", native_aot },
  { "NativeAOT that was started so that it can", native_aot_prepared },
  { "scopes", scopes },
  { "pieces make up the whole", pieces },
  { "modules of a live process", modules },
  { "inventory and removal", inventory_and_removal },
  { "old artifacts go", old_ones_go },
  { "cancelled half-way", cancelled },
  { "a watch takes a dump", by_a_watch },
  { "the machine code of a method", method_bytes },
  { "methods without code of a JIT", methods_without_bytes },
}
