-- SPDX-License-Identifier: MIT
-- The observations of one metric over a window: first, last, extremes, sum. Memory does not grow with the length of the window.
local M = {}

---@class Series
---@field n integer        observations
---@field first number
---@field last number
---@field min number
---@field max number
---@field sum number
---@field falls integer    times the value went down from one observation to the next

---@return Series
function M.new() return { n = 0, sum = 0, falls = 0 } end

--- Adds an observation. False, and nothing added, for what is no finite number.
---@param s Series
---@param value number
---@return boolean
function M.add(s, value)
  if type(value) ~= "number" or value ~= value or value == math.huge or value == -math.huge then return false end
  if s.n == 0 then
    s.first, s.min, s.max = value, value, value
  else
    if value < s.last then s.falls = s.falls + 1 end
    if value < s.min then s.min = value end
    if value > s.max then s.max = value end
  end
  s.last = value
  s.n = s.n + 1
  s.sum = s.sum + value
  return true
end

--- The mean of all observations; nil without any.
function M.mean(s) return s.n > 0 and s.sum / s.n or nil end

return M
