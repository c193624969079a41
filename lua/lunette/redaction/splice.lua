-- SPDX-License-Identifier: MIT
-- One pass over a text that puts a mark where something was.
local M = {}

--- The text with the mark instead of each part that `find` tells.
---@param text string
---@param mark string
---@param find fun(from: integer): integer?, integer?, integer?   where to go on (nil: there is nothing more), and the part from here that
--- goes, first and last byte; the part may be absent
---@return string
function M.replace(text, mark, find)
  local out, kept, from = {}, 1, 1
  while from do
    local on, first, last = find(from)
    if first then
      out[#out + 1] = text:sub(kept, first - 1) .. mark
      kept = last + 1
    end
    from = on
  end
  out[#out + 1] = text:sub(kept)
  return table.concat(out)
end

return M
