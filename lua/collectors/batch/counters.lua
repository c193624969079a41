-- SPDX-License-Identifier: MIT
-- The inline counters of a batch: the headline ones, and what explains a Gen2 collection when the gc entry saw one.
local snapshot = require("collectors.counters.snapshot")

local M = {}

M.MAX = 18
M.WITH_GEN2 = { "gen-2-size", "loh-size", "gc-fragmentation" }
local RUNTIME <const> = "System.Runtime"

--- Adds the counters of Gen2 to the payload of a counters entry when gen2_count is above 0; cuts the list at MAX.
---@param result FanoutResult   of the counters entry; its data is changed
---@param gen2_count integer
function M.extend(result, gen2_count)
  local rows, more = result.data.counters, {}
  for _, name in ipairs(gen2_count > 0 and M.WITH_GEN2 or {}) do
    local counter = snapshot.find(result.extras.handle.artifact, RUNTIME, name)
    if counter then more[#more + 1] = snapshot.counter_row(counter) end
  end
  for i = #rows, M.MAX - #more + 1, -1 do rows[i] = nil end -- they are why the list is read, so others make room
  table.move(more, 1, #more, #rows + 1, rows)
end

return M
