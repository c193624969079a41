-- SPDX-License-Identifier: MIT
-- names: the parts of a method's name as the runtime writes it.
local M = {}

--- "Ns.Type+Nested.Method(Args)" -> type and method; dots within brackets and parentheses belong to arguments.
function M.split(name)
  local head = name:match("^[^%(]*") or name
  local depth, cut = 0, nil
  for i = 1, #head do
    local c = head:byte(i)
    if c == 0x5b or c == 0x3c then depth = depth + 1 elseif c == 0x5d or c == 0x3e then depth = depth - 1 end -- [ < and ] >
    if c == 0x2e and depth == 0 then
      local before = head:byte(i - 1)
      if before ~= 0x2e then cut = i end -- "..ctor": the constructor's own dot
    end
  end
  if not cut then return nil, head end
  return head:sub(1, cut - 1), head:sub(cut + 1)
end

return M
