-- SPDX-License-Identifier: MIT
-- The views of a counters handle: everything of the window, whatever depth trimmed.
local counters = require("collectors.counters")
local kit = require("support.framework_kit")
local sys = require("lunette.sys")

local artifact

local function demo()
  artifact = artifact or assert(counters.collect(kit.ctx(), { path = sys.home .. "/tests/data/demo.nettrace" },
    { meters = { "Microsoft.AspNetCore.Hosting" }, interval_s = 1, max_series = 100 }))
  return artifact
end

local function project(name) return require("views.counters." .. name).project(demo(), {}, { artifact = demo() }) end

describe("views.counters", function()
  it("summary has every counter and series, with their numbers, in order", function()
    local payload = project("summary")
    assert.same({ 41, 41, 2, 2 }, { payload.count, #payload.counters, payload.meterCount, #payload.meters })
    for i = 2, #payload.counters do
      local a, b = payload.counters[i - 1], payload.counters[i]
      assert.is_true(a.provider < b.provider or (a.provider == b.provider and a.name < b.name))
    end
    assert.equal(0, #payload.notes)
  end)

  it("byProvider groups in the order in which the providers first spoke", function()
    local payload = project("byProvider")
    assert.same({ "System.Runtime", "Microsoft.AspNetCore.Hosting", "Microsoft-AspNetCore-Server-Kestrel" },
      { payload.providers[1].provider, payload.providers[2].provider, payload.providers[3].provider })
    local n = 0
    for _, group in ipairs(payload.providers) do
      for _, row in ipairs(group.counters) do
        assert.equal(group.provider, row.provider)
        n = n + 1
      end
    end
    assert.equal(41, n)
    local _, extras = require("views.counters.byProvider").project(demo(), {}, { artifact = demo() })
    assert.equal("41 counters of 3 providers.", extras.summary)
  end)

  it("does not change the artifact", function()
    project("summary")
    project("byProvider")
    assert.equal(41, #demo().counters)
    assert.equal(0, #demo().notes)
  end)
end)
