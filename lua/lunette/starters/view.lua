-- SPDX-License-Identifier: MIT
-- The starter of a view: of counter captures, which every installation has.
return { name = "^[%a][%w-]*$", name_note = "letters, digits and -", files = {
  { "views/counters/%NAME%.lua", [==[
-- query_snapshot(handle, view="%NAME%") of a handle of kind counters: the counters that moved most. A view is a function from what was
-- captured to rows: it reads, it does not wait, and it bounds what it gives.
return view {
  kind = "counters", name = "%NAME%", -- the folder and the file say the same
  options = { "topN:10" },
  project = function(artifact, opts)
    local rows = {}
    for _, counter in ipairs(artifact.counters) do
      local s = counter.series
      if s.n > 1 and s.max ~= s.min then
        rows[#rows + 1] = { provider = counter.provider, name = counter.name, min = s.min, max = s.max, last = s.last }
      end
    end
    table.sort(rows, function(a, b)
      if a.max - a.min ~= b.max - b.min then return a.max - a.min > b.max - b.min end
      return a.name < b.name
    end)
    for i = #rows, opts.topN + 1, -1 do rows[i] = nil end
    return { counters = rows }, { summary = ("%d counters moved."):format(#rows) }
  end,
}
]==] },
  { "specs/%NAME%_spec.lua", [==[
-- lunette test %DIR%
local t = require("lunette.testing")

describe("view %NAME% of counters", function()
  it("ranks by how far a counter moved, and leaves out what stood still", function()
    local function counter(name, min, max) return { provider = "P", name = name, series = { n = 3, min = min, max = max, last = max } } end
    local payload = t.view("counters", "%NAME%", { counters = { counter("a", 1, 2), counter("still", 5, 5), counter("b", 0, 9) } },
      { topN = 10 })
    assert.are.same({ "b", "a" }, { payload.counters[1].name, payload.counters[2].name })
    assert.are.equal(2, #payload.counters)
  end)
end)
]==] },
} }
