-- SPDX-License-Identifier: MIT
-- lunette new: every starter is sound, its spec passes, and nothing is overwritten.
local fs = require("lunette.fs")
local kit = require("support.site_kit")
local loop = require("lunette.loop")

local function lunette(...)
  return assert(loop.exec { argv = { "/proc/self/exe", ... }, timeout_ms = 120000 })
end

describe("lunette new #unit", function()
  it("writes starters that are sound and whose specs pass", function()
    local dir = kit.folder()
    for _, kind in ipairs({ "collector", "rule", "view", "signal", "tool", "playbook" }) do
      local name = kind == "tool" and "my_tool" or "my-" .. kind
      local done = lunette("new", kind, name, "--dir", dir)
      assert.equal(0, done.code, done.stderr)
      assert.is_table(fs.stat(("%s/specs/%s_spec.lua"):format(dir, name)))
    end
    local checked = lunette("check", dir)
    assert.equal("7 files in 1 folder: all is sound\n", checked.stdout)
    assert.equal(0, checked.code)
    local tested = lunette("test", dir)
    assert.equal(0, tested.code, tested.stdout .. tested.stderr)
    assert.matches("12 successes / 0 failures / 0 errors", tested.stdout, 1, true)
  end)

  it("overwrites nothing", function()
    local dir = kit.folder()
    kit.write(dir, "specs/mine_spec.lua", "-- mine\n")
    local done = lunette("new", "rule", "mine", "--dir", dir)
    assert.equal(1, done.code)
    assert.matches("specs/mine_spec.lua is there already; nothing was written", done.stderr, 1, true)
    assert.is_nil((fs.stat(dir .. "/rules/mine.lua")))
  end)

  it("takes nothing of ours away", function()
    local dir = kit.folder()
    for _, given in ipairs {
      { "tool", "collect_events" }, { "collector", "counters" }, { "collector", "crash-guard" }, { "rule", "threadpool-queue" },
      { "playbook", "diagnose-high-latency" },
    } do
      local done = lunette("new", given[1], given[2], "--dir", dir)
      assert.equal(1, done.code, given[2])
      assert.matches("would replace; nothing was written", done.stderr, 1, true)
    end
    assert.same({}, fs.list(dir))
  end)

  it("says what a name may be, and which starters there are", function()
    assert.matches('Did you mean "collector"?', lunette("new", "colector", "x").stderr, 1, true)
    local done = lunette("new", "tool", "my-tool")
    assert.equal(2, done.code)
    assert.matches("small letters, digits and _", done.stderr, 1, true)
    assert.equal(2, lunette("new").code)
  end)
end)
