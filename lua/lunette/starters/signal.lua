-- SPDX-License-Identifier: MIT
-- The starter of a signal.
return { name = "^[%l][%l%d-]*$", name_note = "small letters, digits and -", files = {
  { "signals/%NAME%.lua", [==[
-- What stands out in a capture of exceptions: one type that is most of them. A signal groups and ranks; it never diagnoses.
return signal {
  id = "site.%NAME%",
  handle = "exception-snapshot", -- the kind of handle; lunette docs views lists them
  emit_at = 0.8,                 -- from this share on
  limits = { exceptions = 10 },  -- with fewer it says nothing
  buckets = 3,
  of = function(artifact, self)
    local first = artifact.by_type[1]
    if not first or artifact.total < self.limits.exceptions then return nil end
    local share = first.n / artifact.total
    if share < self.emit_at then return nil end
    local buckets = {}
    for i, row in ipairs(artifact.by_type) do buckets[i] = { key = row.type, magnitude = row.n, unit = "exceptions" } end
    local summary = ("%.0f %% of %d exceptions are %s."):format(100 * share, artifact.total, first.type)
    return { summary = summary, salience = share, buckets = buckets }
  end,
  next = { view = "byThrowSite", reason = "See where they are thrown." },
}
]==] },
  { "specs/%NAME%_spec.lua", [==[
-- lunette test %DIR%
local t = require("lunette.testing")

describe("signal %NAME%", function()
  local function said(of_first, of_others)
    return t.signal("site.%NAME%", {
      total = of_first + of_others, by_type = { { type = "A", n = of_first }, { type = "B", n = of_others } },
    })
  end

  it("names the type that is most of them", function()
    assert.are.equal("90 % of 100 exceptions are A.", said(90, 10).summary)
  end)

  it("is silent when they are mixed, or few", function()
    assert.is_nil(said(60, 40))
    assert.is_nil(said(5, 0))
  end)
end)
]==] },
} }
