-- SPDX-License-Identifier: MIT
-- collect_process_dump and get_bytes without a runtime: what is asked, what is refused, what is left on the disk. The runtime's part is
-- played by a function that writes a file where it is told to.
local artifacts = require("lunette.artifacts")
local able = require("dumps.able")
local attach = require("lunette.attach")
local capture_method_bytes = require("tools.capture_method_bytes")
local collect_process_dump = require("tools.collect_process_dump")
local config = require("lunette.config")
local crypto = require("lunette.crypto")
local errors = require("lunette.errors")
local fs = require("lunette.fs")
local get_bytes = require("tools.get_bytes")
local ipc = require("lunette.ipc")
local json = require("lunette.json")
local kit = require("support.framework_kit")
local loop = require("lunette.loop")
local proc = require("lunette.proc")
local process = require("lunette.process")
local reaper = require("artifacts.reaper")
local recordings = require("lunette.recordings")
local standing = require("dumps.standing")
local store = require("artifacts.store")
local sys = require("lunette.sys")
local write = require("dumps.write")

-- A core file of one segment that holds a text, of which so many bytes are missing.
local function core(text, missing)
  local header = "\x7fELF" .. ("\0"):rep(12) .. ("<I2I2I4I8I8I8I4I2I2I2I2I2I2"):pack(4, 62, 1, 0, 64, 0, 0, 64, 56, 1, 0, 0, 0)
  return header .. ("<I4I4I8I8I8I8I8I8"):pack(1, 4, 120, 0, 0, #text + (missing or 0), #text, 1) .. text
end

local BYTES <const> = { scopes = { "root", "module-bytes-read", "delete-artifact" } }

local function run(...) return assert(loop.exec { argv = { ... }, timeout_ms = 60000 }) end

local function files_below(root)
  local list = {}
  for line in run("find", root, "-type", "f").stdout:gmatch("[^\n]+") do list[#list + 1] = line end
  table.sort(list)
  return list
end

describe("dumps #unit", function()
  local root, real, target, asked

  before_each(function()
    root = os.tmpname() .. ".d"
    assert(fs.mkdirs(root))
    real = { root = recordings.root, store = store.root, dump = ipc.dump, resolve = process.resolve, free = artifacts.free,
      is_single_file = able.is_single_file, tick_ms = standing.TICK_MS }
    standing.TICK_MS = 2
    able.is_single_file = function() return false end -- the made-up runtime is not mapped here
    recordings.root = function() return root end
    store.root = recordings.root
    target = {
      pid = sys.pid, start_time = 7, autoResolved = false, endpoint = { runtime = "CoreClr" }, record = { runtimeVersion = "10.0.0" },
      digest = { processId = sys.pid, runtime = "CoreClr", canSampleCpu = true, canCollectGcDump = true, autoResolved = false },
    }
    asked = {}
    process.resolve = function(_, pid)
      if pid and pid ~= 0 and pid ~= target.pid then return nil, errors.new("ProcessNotFound", "gone") end
      return target
    end
    ipc.dump = function(pid, what)
      asked[#asked + 1] = { pid = pid, type = what.type, path = what.path, crash_report = what.crash_report }
      assert(fs.write_private(what.path, core("of " .. pid)))
      if what.crash_report then assert(fs.write_private(what.path .. ".crashreport.json", "{}")) end
      return 3
    end
  end)

  after_each(function()
    recordings.root, store.root, ipc.dump, process.resolve, artifacts.free = real.root, real.store, real.dump, real.resolve, real.free
    able.is_single_file, standing.TICK_MS = real.is_single_file, real.tick_ms
    run("rm", "-rf", root)
  end)

  local function call(arguments, options) return kit.call(collect_process_dump, arguments, kit.ctx(options)) end

  it("shows what it would do, and does it with confirm", function()
    local shown = call { dumpType = "withheap", outputDirectory = "a//./b", crashReport = true }
    assert.same({ "confirmation_required", sys.pid, "WithHeap", "a//./b" },
      { shown.data.kind, shown.data.targetPid, shown.data.dumpType, shown.data.outputDirectory })
    assert.same({}, files_below(root))
    assert.same({}, asked)
    local again = shown.hints[1].suggestedArguments
    assert.same({ processId = sys.pid, dumpType = "WithHeap", outputDirectory = "a//./b", confirm = true, crashReport = true }, again)
    local envelope = call(again)
    local dump = envelope.data.dump
    assert.equal("dump_written", envelope.data.kind)
    assert.matches("^dump_pid%d+_WithHeap_%d%d%d%d%d%d%d%dT%d%d%d%d%d%dZ%.dmp$", dump.filePath:sub(#root + #"/a/b/" + 1))
    assert.same({ dump.filePath, dump.filePath .. ".crashreport.json" }, files_below(root))
    assert.equal(dump.filePath .. ".crashreport.json", dump.crashReportPath)
    assert.same({ 2, true }, { asked[1].type, asked[1].crash_report })
    assert.equal(tonumber("600", 8), fs.stat(dump.filePath).mode)
    assert.is_true(kit.conforms(envelope, collect_process_dump))
  end)

  it("asks a person whenever it can, whatever confirm says, and a no is final", function()
    local answers = { { action = "decline" }, { action = "accept", content = { approve = false } }, { action = "cancel" } }
    for _, answer in ipairs(answers) do
      local ctx = kit.ctx { elicit = function() return answer end }
      local envelope = kit.call(collect_process_dump, { confirm = true }, ctx)
      assert.same({ "approval_declined", {} }, { envelope.data.kind, envelope.hints })
      assert.equal("approve", ctx.asked[1].key)
      local question = ctx.asked[1].params.message
      for _, word in ipairs { "Mini dump of process " .. sys.pid, root, "MiB" } do assert.truthy(question:find(word, 1, true), question) end
      assert.same({}, files_below(root))
    end
    local yes = kit.ctx { elicit = function() return { action = "accept", content = { approve = true } } end }
    assert.equal("dump_written", kit.call(collect_process_dump, {}, yes).data.kind)
  end)

  it("keeps to the process that was asked about when the answer comes in a later request", function()
    local ctx = kit.ctx { elicit = function() return { action = "accept", content = { approve = true } } end }
    ctx.state.dump = { pid = target.pid, start_time = "6" } -- sealed before another process got the number
    local envelope = kit.call(collect_process_dump, {}, ctx)
    assert.equal("ProcessExited", envelope.error.kind)
    assert.same({}, asked)
  end)

  it("says of a process that ended meanwhile that it did, whatever failed", function()
    local stat = proc.stat
    finally(function() proc.stat = stat end)
    for _, given in ipairs { { kind = "IoError", message = "the connection broke" }, errors.new("NotSupported", "no"), false } do
      local ended
      proc.stat = function(pid)
        local found = stat(pid)
        if ended and pid == sys.pid and found then found.state = "Z" end
        return found
      end
      ipc.dump = function()
        ended = true
        if given then return nil, given end
        return 3 -- that it is written, and nothing is
      end
      local err = call({ confirm = true }).error
      assert.same({ "ProcessExited", ("Process %d ended while its dump was written; nothing of it is kept."):format(sys.pid) },
        { err.kind, err.message })
      assert.same({}, files_below(root))
    end
  end)

  it("refuses folders that leave the artifact root before anybody is asked", function()
    run("ln", "-s", "/tmp", root .. "/out")
    for _, path in ipairs { "/tmp", "..", "a/../../b", "out", "out/x", ("x"):rep(600) } do
      local ctx = kit.ctx { elicit = function() error("nobody is to be asked") end }
      local envelope = kit.call(collect_process_dump, { outputDirectory = path, confirm = true }, ctx)
      assert.same({ "InvalidArtifactPath", "outputDirectory" }, { envelope.error and envelope.error.kind, envelope.error.detail }, path)
    end
    assert.same({}, asked)
  end)

  it("refuses a dump for which there is no room, with the figures", function()
    artifacts.free = function() return 1024 * 1024 end
    local envelope = call { dumpType = "Full", confirm = true }
    assert.same({ "Conflict", "InsufficientDiskSpace" }, { envelope.error.kind, envelope.error.detail })
    assert.matches("1%.0 MiB free", envelope.error.message)
    assert.same({}, asked)
  end)

  it("gives dumps of one second names of their own", function()
    local at = 1764534000000
    local first = write.name_of("", 5, "Mini", at)
    assert.equal("dump_pid5_Mini_20251130T202000Z.dmp", first)
    assert(fs.write_private(root .. "/" .. first, "x"))
    assert.equal("dump_pid5_Mini_20251130T202000Z-2.dmp", write.name_of("", 5, "Mini", at))
  end)

  it("keeps no dump of which a part is missing, though the runtime says yes", function()
    for _, cut in ipairs { core("of 1", 1), core("of 1"):sub(1, 100), core("of 1"):sub(1, 10), "", ("x"):rep(200) } do
      ipc.dump = function(_, what)
        assert(fs.write_private(what.path, cut))
        return 3
      end
      local envelope = call { dumpType = "Full", confirm = true }
      assert.same({ "EndpointUnavailable", "DumpFailed" }, { envelope.error and envelope.error.kind, envelope.error.detail })
      assert.same({}, files_below(root))
    end
  end)

  it("asks a single-file program that has its runtime inside for nothing but a full dump", function()
    able.is_single_file = real.is_single_file
    for _, type in ipairs { "Mini", "Triage", "WithHeap" } do
      local envelope = call { dumpType = type, confirm = true }
      assert.equal("NotSupported", envelope.error and envelope.error.kind)
      assert.matches("self%-contained single%-file", envelope.error.message)
      assert.equal("Full", envelope.hints[1].suggestedArguments.dumpType)
    end
    assert.same({}, asked)
    assert.is_nil(call({ dumpType = "Full", confirm = true }).error)
  end)

  it("notices a runtime that says yes and writes nothing", function()
    ipc.dump = function() return 2 end
    local envelope = call { confirm = true }
    assert.same({ "EndpointUnavailable", "NoFile" }, { envelope.error.kind, envelope.error.detail })
    assert.same({}, files_below(root))
  end)

  it("tells what createdump says", function()
    for _, case in ipairs {
      { "CoreClr", "IoError", "the runtime wrote no dump: Permission denied (13)", "PermissionDenied" },
      { "CoreClr", "IoError", "the runtime wrote no dump: no reason", "EndpointUnavailable" },
      { "CoreClr", "IoError", "the runtime wrote no dump: ptrace(ATTACH, 7) FAILED Operation not permitted (1)", "PermissionDenied" },
      { "CoreClr", "NotSupported", "Only full dumps are supported by single file apps", "NotSupported" },
      { "NativeAot", "IoError", "it is not asked", "NotSupported" },
    } do
      target.endpoint.runtime = case[1]
      ipc.dump = function() return nil, { kind = case[2], message = case[3] } end
      local envelope = call { confirm = true }
      assert.equal(case[4], envelope.error.kind)
      assert.matches(case[1] == "NativeAot" and "gcore" or case[3]:sub(-9):gsub("%p", "%%%0"), envelope.error.message)
      assert.same({}, files_below(root))
    end
    target.endpoint.runtime = "Mono"
    assert.equal("NotSupported", call({ confirm = true }).error.kind)
  end)

  it("says when the file system became full meanwhile", function()
    for _, said in ipairs { "No space left on device (28)", "Disk quota exceeded (122)" } do
      ipc.dump = function(_, what)
        assert(fs.write_private(what.path, "half"))
        return nil, { kind = "IoError", message = "the runtime wrote no dump: [createdump] Error writing data to dump file: " .. said }
      end
      local envelope = call { confirm = true }
      assert.same({ "Conflict", "InsufficientDiskSpace", "get_bytes" },
        { envelope.error.kind, envelope.error.detail, envelope.hints[1].nextTool })
      assert.same({}, files_below(root))
    end
  end)

  it("refuses a process that somebody traces, and says who", function()
    local status = proc.status
    proc.status = function(pid)
      local real_one = status(pid)
      real_one.tracer_pid = 4711
      return real_one
    end
    local envelope = call { confirm = true }
    proc.status = status
    assert.same({ "PermissionDenied", "Traced" }, { envelope.error.kind, envelope.error.detail })
    assert.truthy(envelope.error.message:find("traced by process 4711", 1, true))
    assert.same({}, asked)
  end)

  it("is one attach of the process: another is Busy, and the next goes on", function()
    local permit = assert(attach.enter(target.pid))
    assert.equal("Busy", call({ confirm = true }).error.kind)
    permit:release()
    assert.equal("dump_written", call({ confirm = true }).data.kind)
    assert.equal("dump_written", call({ confirm = true }).data.kind)
  end)

  it("removes the file of who goes away, and holds the process until it is written", function()
    local begun, finish, late = loop.channel(1), loop.channel(1), nil
    ipc.dump = function(_, what)
      begun:send(true)
      finish:recv()
      local file = io.open(what.path, "w") -- as createdump does: no folder is made
      late = file and "written" or "no place"
      if file then file:close() end
      return 3
    end
    local task = loop.spawn(function() return call { confirm = true } end)
    assert(begun:recv(5000))
    task:cancel("gone")
    task:await(5000)
    assert.same({}, fs.list(root))
    assert.equal("Busy", call({ confirm = true }).error.kind)
    finish:send(true)
    local permit
    for _ = 1, 500 do
      permit = attach.enter(target.pid)
      if permit then break end
      loop.sleep_ms(10)
    end
    assert.is_table(permit)
    permit:release()
    assert.same({ "no place" }, { late })
    assert.same({}, fs.list(root))
  end)

  it("needs dump-write and ptrace", function()
    for missing, has in pairs { ptrace = "dump-write", ["dump-write"] = "ptrace" } do
      local envelope, result = kit.call(collect_process_dump, { confirm = true }, kit.ctx { scopes = { has } })
      assert.same({ "PermissionDenied", missing, true }, { envelope.error.kind, envelope.error.detail, result.isError })
    end
  end)

  it("gives a path that may be read: below the root for a client, anywhere for a person", function()
    local inside, outside = root .. "/a.dmp", os.tmpname()
    assert(fs.write_private(inside, "x"))
    run("ln", "-s", outside, root .. "/link.dmp")
    local function kind_of(path)
      local found, err = store.readable({ transport = "stdio" }, path, "dumpFilePath")
      return found or err.kind, err and err.detail
    end
    inside = fs.realpath(inside)
    assert.same({ inside, inside }, { (kind_of("a.dmp")), (kind_of(root .. "/a.dmp")) })
    for _, path in ipairs { outside, "../" .. outside:match("[^/]+$"), "link.dmp" } do
      assert.same({ "InvalidArtifactPath", "dumpFilePath" }, { kind_of(path) })
    end
    assert.equal(fs.realpath(outside), store.readable({ transport = "cli" }, outside, "dumpFilePath"))
    local _, err = store.readable({ transport = "cli" }, outside .. ".none", "dumpFilePath")
    assert.same({ "InvalidArgument", "dumpFilePath" }, { err.kind, err.detail })
    os.remove(outside)
  end)

  describe("get_bytes", function()
    local function bytes(arguments, options) return kit.call(get_bytes, arguments, kit.ctx(options or BYTES)) end

    it("is annotated destructive, and root alone is refused inside", function()
      assert.same({ false, true }, { get_bytes.annotations.readOnlyHint, get_bytes.annotations.destructiveHint })
      local envelope, result = bytes({ kind = "list" }, { scopes = { "root", "*" } })
      assert.same({ "PermissionDenied", "module-bytes-read", true }, { envelope.error.kind, envelope.error.detail, result.isError })
      envelope = bytes({ kind = "delete", artifactPath = "x" }, { scopes = { "root", "module-bytes-read" } })
      assert.same({ "PermissionDenied", "delete-artifact" }, { envelope.error.kind, envelope.error.detail })
    end)

    it("gives pieces with the digest of the whole", function()
      local content = crypto.random(10000)
      assert(fs.write_private(root .. "/t/a.nettrace", content))
      local parts, offset = {}, 0
      while offset do
        local envelope = bytes { kind = "trace", traceFilePath = "t/a.nettrace", offset = offset, maxBytes = 4096 }
        local data = envelope.data
        assert.same({ "trace", "trace", 10000, offset, crypto.hex(crypto.sha256(content)), root .. "/t/a.nettrace" },
          { data.kind, data.asset, data.totalSize, data.offset, data.sha256, data.identifier })
        parts[#parts + 1] = crypto.unbase64(data.base64Chunk)
        assert.equal(data.nextOffset and 1 or 0, #envelope.hints)
        if data.nextOffset then
          assert.same({ kind = "trace", traceFilePath = "t/a.nettrace", offset = data.nextOffset, maxBytes = 4096 },
            envelope.hints[1].suggestedArguments)
        end
        offset = data.nextOffset
      end
      assert.same({ 3, true }, { #parts, table.concat(parts) == content })
    end)

    it("a large piece is in the answer once, and those of several callers come one after another", function()
      local content = crypto.random(65536):rep(48)
      assert(fs.write_private(root .. "/large.nettrace", content))
      local at_once, most, tasks = 0, 0, {}
      local read = artifacts.read
      finally(function() artifacts.read = read end)
      artifacts.read = function(...)
        at_once = at_once + 1
        most = math.max(most, at_once)
        loop.sleep_ms(5)
        local piece, err = read(...)
        at_once = at_once - 1
        return piece, err
      end
      for i = 1, 3 do
        tasks[i] = loop.spawn(function()
          local ctx = kit.ctx(BYTES)
          ctx.protocol = "2025-11-25"
          local result = assert(get_bytes:handle(ctx, { kind = "trace", traceFilePath = "large.nettrace", maxBytes = 3 * 1024 * 1024 }))
          return #result.content[1].text, #json.encode(result.structuredContent)
        end)
      end
      for i = 1, 3 do
        local said, whole = tasks[i]:await(30000)
        assert.is_true(said < 200 and whole > 4 * 1024 * 1024, tostring(said) .. " " .. tostring(whole))
      end
      assert.equal(1, most)
    end)

    it("lists and deletes", function()
      assert(fs.write_private(root .. "/d/old.dmp", "12345"))
      run("touch", "-d", "1 hour ago", root .. "/d/old.dmp")
      assert(fs.write_private(root .. "/new.dmp", "1"))
      local envelope = bytes { kind = "list" }
      assert.is_true(kit.conforms(envelope, get_bytes))
      local list = envelope.data
      assert.same({ root, 2, 6, "new.dmp", "d/old.dmp" },
        { list.root, list.count, list.totalSizeBytes, list.artifacts[1].relativePath, list.artifacts[2].relativePath })
      assert.is_true(list.artifacts[2].ageSeconds >= 3600)
      local preview = bytes { kind = "delete", artifactPath = "d/old.dmp" }
      assert.truthy(preview.safetyApproval)
      assert.truthy(fs.stat(root .. "/d/old.dmp"))
      local gone = bytes {
        kind = "delete", artifactPath = "d/old.dmp",
        _dotnetDiagnostics = { acknowledgement = preview.safetyApproval.requiredAcknowledgement },
      }
      assert.same({ "d/old.dmp", 5 }, { gone.data.relativePath, gone.data.sizeBytes })
      assert.same({ root .. "/new.dmp" }, files_below(root))
    end)

    it("bounds an inventory, and says how many there are", function()
      for i = 1, 230 do assert(fs.write_private(("%s/many/%03d-%s.dmp"):format(root, i, ("n"):rep(100)), "x")) end
      local envelope, result = bytes { kind = "list" }
      assert.is_true(#json.encode(result.structuredContent) < 80 * 1024)
      assert.equal(230, envelope.data.count)
      assert.matches("230 artifacts", envelope.summary)
    end)

    it("refuses module ids that are none", function()
      local envelope = bytes { kind = "module", moduleVersionId = "nonsense" }
      assert.same({ "InvalidArgument", "moduleVersionId" }, { envelope.error.kind, envelope.error.detail })
      assert.equal("InvalidArgument", bytes({ kind = "module" }).error.kind)
    end)
  end)

  it("capture_method_bytes checks its arguments before it attaches", function()
    local good = { moduleVersionId = "bd1c0351-17b1-4f90-888d-062ce97b2866", metadataToken = "0x06000001" }
    for _, case in ipairs {
      { "moduleVersionId", { moduleVersionId = "x" } }, { "metadataToken", { metadataToken = "0x02000001" } },
      { "metadataToken", { metadataToken = "-1" } }, { "metadataToken", { metadataToken = "0x06000000" } },
      { "codeAddress", { codeAddress = "here" } }, { "dumpFilePath", { dumpFilePath = "a.dmp", processId = 5 }, "processId" },
    } do
      local arguments = { moduleVersionId = good.moduleVersionId, metadataToken = good.metadataToken }
      for k, v in pairs(case[2]) do arguments[k] = v end
      local envelope = kit.call(capture_method_bytes, arguments)
      assert.equal("InvalidArgument", envelope.error and envelope.error.kind, case[1])
      assert.truthy(envelope.error.detail == case[1] or envelope.error.detail == case[3], tostring(envelope.error.detail))
    end
    assert.equal("ArtifactNotFound", kit.call(capture_method_bytes,
      { moduleVersionId = good.moduleVersionId, metadataToken = "100663297", dumpFilePath = "none.dmp" }).error.kind)
    target.endpoint.runtime = "NativeAot"
    local envelope = kit.call(capture_method_bytes, good)
    good._dotnetDiagnostics = { acknowledgement = envelope.safetyApproval.requiredAcknowledgement }
    assert.equal("NotSupported", kit.call(capture_method_bytes, good).error.kind)
  end)

  it("old artifacts go, and nothing that is not ours", function()
    local get = config.get
    finally(function() config.get = get end)
    local ours = {
      "20200101T000000Z-1-abcdefgh.nettrace", "dump_pid1_Mini_20200101T000000Z.dmp",
      ".lunette-0123456789abcdef01234567/dump_pid1_Mini_20200101T000000Z-2.dmp.part",
      "dump_pid1_Full_20200101T000000Z.dmp.crashreport.json", "N.T.M-Hot--0x06000001.bin", "N.T.M-Cold-Tier1-0x06000001.bin",
    }
    local others = { "mine.dmp", "core.bin", "notes.txt", "x-0x06000001.bin" }
    for _, list in ipairs { ours, others } do
      for _, name in ipairs(list) do
        assert(fs.write_private(root .. "/f/" .. name, "x"))
        run("touch", "-d", "2 hours ago", root .. "/f/" .. name)
      end
    end
    local hours
    config.get = function(key) return key == "MCP_ARTIFACT_TTL_HOURS" and hours or get(key) end
    for _, keeps in ipairs { 0, -1, 3 } do
      hours = keeps
      assert.equal(0, reaper.sweep())
    end
    hours = 1
    assert.equal(#ours, reaper.sweep())
    assert.equal(#others, #files_below(root))
    assert.is_nil((fs.stat(root .. "/f/.lunette-0123456789abcdef01234567")))
  end)
end)
