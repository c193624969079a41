-- SPDX-License-Identifier: MIT
--- Sections that no other task can interrupt. The host suspends a task wherever it stands when its slice of time is used up, so code that
--- changes state that tasks share (a count and the table it counts, an event and its number) must say that it is one step.

local gsub = string.gsub

--- Makes a function run in one step: until it returns no other task runs. It may not wait, must be short (the host allows half a second),
--- and has at most five arguments and two results.
---@generic F: function
---@param fn F
---@return F
local function atomic(fn)
  return function(a, b, c, d, e)
    local first, second
    -- The host cannot suspend a task beneath a C function that calls back into Lua.
    gsub("x", "x", function() first, second = fn(a, b, c, d, e) end)
    return first, second
  end
end

return atomic
