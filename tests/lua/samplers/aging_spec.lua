-- SPDX-License-Identifier: MIT
-- What exports and traces leave below the artifact root goes when it is old.
local aging = require("samplers.aging")
local config = require("lunette.config")
local export_profile = require("tools.export_profile")
local fs = require("lunette.fs")
local handles = require("lunette.handles")
local kit = require("support.framework_kit")
local loop = require("lunette.loop")
local recordings = require("lunette.recordings")
local sampled = require("support.sampled")

local function run(...) return assert(loop.exec { argv = { ... }, timeout_ms = 60000 }) end

describe("samplers.aging #unit", function()
  after_each(handles.clear)

  it("removes old files of ours when a new one is written, and nothing else", function()
    local root = os.tmpname() .. ".d"
    local exports, real = root .. "/exports", recordings.root
    assert(fs.mkdirs(exports))
    finally(function()
      recordings.root = real
      run("rm", "-rf", root)
    end)
    recordings.root = function() return root end
    local old, young, foreign = "20200101T000000Z-1-abcdefgh.html", "20990101T000000Z-1-abcdefgh.html", "mine.html"
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

  it("keeps all when the setting says so, and minds no folder that is not there", function()
    local real = config.get
    assert.equal(0, aging.prune("/nonexistent"))
    local folder = os.tmpname() .. ".d"
    local name = folder .. "/20200101T000000Z-1-abcdefgh.html"
    assert(fs.mkdirs(folder))
    finally(function()
      config.get = real
      run("rm", "-rf", folder)
    end)
    assert(fs.write_private(name, "x"))
    assert.equal(0, run("touch", "-d", "1000 hours ago", name).code)
    config.get = function() return 0 end
    assert.equal(0, aging.prune(folder))
    assert.truthy(fs.stat(name))
    config.get = function() return 999 end
    assert.equal(1, aging.prune(folder))
    assert.is_nil((fs.stat(name)))
  end)
end)
