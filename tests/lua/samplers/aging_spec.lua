-- SPDX-License-Identifier: MIT
-- What exports and traces leave below the artifact root goes when it is old.
local export_profile = require("tools.export_profile")
local fs = require("lunette.fs")
local handles = require("lunette.handles")
local kit = require("support.framework_kit")
local loop = require("lunette.loop")
local recordings = require("lunette.recordings")
local sampled = require("support.sampled")
local store = require("artifacts.store")

local function run(...) return assert(loop.exec { argv = { ... }, timeout_ms = 60000 }) end

describe("exports and traces that are old #unit", function()
  after_each(handles.clear)

  it("removes old files of ours when a new one is written, and nothing else", function()
    local root = os.tmpname() .. ".d"
    local exports, real, real_store = root .. "/exports", recordings.root, store.root
    assert(fs.mkdirs(exports))
    finally(function()
      recordings.root, store.root = real, real_store
      run("rm", "-rf", root)
    end)
    recordings.root = function() return root end
    store.root = recordings.root
    local old, young, foreign = "20200101T000000Z-1-abcdefgh.speedscope.json", "20990101T000000Z-1-abcdefgh.html", "mine.html"
    for _, name in ipairs { old, young, foreign } do assert(fs.write_private(exports .. "/" .. name, "x")) end
    for _, name in ipairs { old, foreign } do assert.equal(0, run("touch", "-d", "25 hours ago", exports .. "/" .. name).code) end
    assert.equal(0, run("touch", "-d", "23 hours ago", exports .. "/" .. young).code)
    local _, envelope = sampled.capture("cpu", "stand")
    local made = kit.call(export_profile, { handle = envelope.handle, format = "folded" }, sampled.ctx()).data.path
    assert.truthy(fs.stat(made))
    assert.is_nil((fs.stat(exports .. "/" .. old)))
    assert.truthy(fs.stat(exports .. "/" .. young))
    assert.truthy(fs.stat(exports .. "/" .. foreign))
  end)

  it("says of a root that cannot be written to what the system said", function()
    local mkdirs, traces = fs.mkdirs, require("samplers.traces")
    finally(function() fs.mkdirs = mkdirs end)
    for kind, wanted in pairs { PermissionDenied = "PermissionDenied", IoError = "Internal" } do
      fs.mkdirs = function() return nil, { kind = kind, message = "cannot make folder /x: Read-only file system" } end
      local trace, err = traces.new(42)
      assert.is_nil(trace)
      assert.equal(wanted, err.kind)
      assert.matches("cannot be made: cannot make folder /x: Read-only file system. Set MCP_ARTIFACT_ROOT", err.message, 1, true)
    end
  end)
end)
