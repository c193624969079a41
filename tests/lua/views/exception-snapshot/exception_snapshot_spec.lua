-- SPDX-License-Identifier: MIT
-- The views of an exceptions handle.
local asked = require("support.asked")

local function artifact()
  local by_type, recent, sites = {}, {}, {}
  for i = 1, 60 do
    by_type[i] = { type = ("T%02d"):format(i), n = 61 - i }
    recent[i] = { at_ms = 1764484800000 + i, type = "T", message = "m" .. i, hresult = 0x80131500, thread = i, frames = { "F" .. i } }
    sites[i] = { type = "T", frame = "F" .. i, n = 61 - i }
  end
  return { process_id = 42, started_unix_ms = 1764484800000, duration_ms = 5000, total = 1830, by_type = by_type, other_types = 0,
    recent = recent, recent_cap = 60, sites = sites, resolved = 1830, notes = {} }
end

local function ask(name, options) return asked.view("exception-snapshot", artifact(), name, options) end

describe("views.exception-snapshot", function()
  it("summary obeys topN, 50 when absent", function()
    assert.equal(50, #ask("summary").byType)
    local payload = ask("summary", { topN = 2 })
    assert.same({ 1830, { { exceptionType = "T01", count = 60 }, { exceptionType = "T02", count = 59 } } },
      { payload.totalExceptions, payload.byType })
  end)

  it("byType gives all types, whatever topN says", function()
    assert.equal(60, #ask("byType", { topN = 1 }).byType)
  end)

  it("recent gives the first rows in order of time", function()
    local payload = ask("recent", { topN = 3 })
    assert.same({ 1830, 60, 3, 3, "m1", "m3" }, { payload.totalExceptions, payload.recentCap, payload.returned, #payload.recent,
      payload.recent[1].exceptionMessage, payload.recent[3].exceptionMessage })
    assert.same({ "F1" }, payload.recent[1].stack)
  end)

  it("byThrowSite gives types by the method that threw", function()
    local payload = ask("byThrowSite", { topN = 1 })
    assert.same({ 1830, 1830, { { exceptionType = "T", frame = "F1", count = 60 } } },
      { payload.totalExceptions, payload.resolvedExceptions, payload.throwSites })
  end)
end)
