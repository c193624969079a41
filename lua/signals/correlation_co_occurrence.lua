-- SPDX-License-Identifier: MIT
-- correlation.co-occurrence: signals of several collectors stood out in the same window. A pointer to look at them together, never a cause.
local hints = require("lunette.hints")

local M = {}

M.ID = "correlation.co-occurrence"
M.EMIT_AT = 2 -- collectors with a signal

---@class Contributor
---@field collector string   kind of the collector
---@field handle string      its handle
---@field signals table[]    what stood out in it

local function strongest(list)
  local top
  for _, signal in ipairs(list) do
    if not top or signal.salience > top.salience then top = signal end
  end
  return top
end

--- The signal of one window as a list of none or one. Its salience is that of its weakest contributor.
---@param contributors Contributor[]
---@return table[]
function M.of(contributors)
  local buckets, names, salience, best = {}, {}, math.huge, nil
  for _, c in ipairs(contributors) do
    local top = strongest(c.signals)
    if top then
      buckets[#buckets + 1] = { key = top.signal, magnitude = top.salience, unit = "salience", handle = c.handle }
      names[#names + 1] = top.signal
      salience = math.min(salience, top.salience)
      if not best or top.salience > best.salience then best = { salience = top.salience, handle = c.handle } end
    end
  end
  if #buckets < M.EMIT_AT then return {} end
  return { {
    signal = M.ID, leads = true, salience = salience, buckets = buckets,
    summary = ("%s stood out in the same window. That they came together is no proof of a cause."):format(table.concat(names, " and ")),
    nextAction = hints.new("query_snapshot", "Look at the strongest of them.", { handle = best.handle, view = "summary" }),
  } }
end

return M
