-- SPDX-License-Identifier: MIT
-- correlation.co-occurrence: signals of several collectors stood out in the same window. A pointer to look at them together, never a cause.
-- What it looks at is no capture but the parts of a sweep: { collector, handle, signals } each.
local signal = require("lunette.signal")

local function strongest(list)
  local top
  for _, s in ipairs(list) do
    if not top or s.salience > top.salience then top = s end
  end
  return top
end

return signal {
  id = "correlation.co-occurrence", handle = "sweep", order = 10, emit_at = 2, -- collectors with a signal
  of = function(contributors, self)
    local buckets, names, salience, best = {}, {}, math.huge, nil
    for _, c in ipairs(contributors) do
      local top = strongest(c.signals)
      if top then
        buckets[#buckets + 1] = { key = top.signal, magnitude = top.salience, unit = "salience", handle = c.handle }
        names[#names + 1] = top.signal
        salience = math.min(salience, top.salience) -- that of the weakest
        if not best or top.salience > best.salience then best = { salience = top.salience, handle = c.handle } end
      end
    end
    if #buckets < self.emit_at then return nil end
    return {
      leads = true, salience = salience, buckets = buckets,
      summary = ("%s stood out in the same window. That they came together is no proof of a cause."):format(table.concat(names, " and ")),
      next = { view = "summary", reason = "Look at the strongest of them.", arguments = { handle = best.handle } },
    }
  end,
}
