-- SPDX-License-Identifier: MIT
-- What to call after a window of runtime metrics: rules over the newest values.
local hints = require("lunette.hints")

local M = {}

local MB <const> = 1000000
local WINDOW_S <const> = 10

local RULES <const> = {
  {
    when = function(v) return v.allocation_rate and v.allocation_rate > 50 * MB end,
    tool = "collect_events", arguments = { kind = "allocations-sampled", durationSeconds = WINDOW_S },
    reason = "Over 50 MB/s are allocated: see which types and call sites allocate (.NET 10; before it collect_sample kind=allocation).",
  },
  {
    when = function(v) return v.fragmentation and v.heap and v.fragmentation > 50 * MB and v.fragmentation > 0.3 * v.heap end,
    tool = "inspect_heap", arguments = { source = "live" },
    reason = "Over 30 % of the heap is free space between objects: see what pins it.",
  },
  {
    when = function(v) return v.loh and v.heap and v.loh > 100 * MB and v.loh > 0.5 * v.heap end,
    tool = "collect_events", arguments = { kind = "gc", durationSeconds = WINDOW_S },
    reason = "More than half of the heap are large objects: see how often generation 2 is collected for them.",
  },
}

--- Hints, best first.
---@param current RuntimeInterval?
---@param handle_id string
---@param pid integer?
---@return table[]
function M.of(current, handle_id, pid)
  local list = {}
  for _, rule in ipairs(current and RULES or {}) do
    if rule.when(current) then
      local arguments = { processId = pid }
      for name, value in pairs(rule.arguments) do arguments[name] = value end
      list[#list + 1] = hints.new(rule.tool, rule.reason, arguments, #list == 0 and "high" or "normal")
    end
  end
  list[#list + 1] = hints.new("query_snapshot", "See the values of each interval.", { handle = handle_id, view = "timeline" })
  list[#list + 1] = hints.new("collect_events", "See the collections behind these sizes.",
    { kind = "gc", processId = pid, durationSeconds = WINDOW_S }, "low")
  return list
end

return M
