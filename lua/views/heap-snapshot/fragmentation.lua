-- SPDX-License-Identifier: MIT
-- heap-snapshot/fragmentation: of a heap that was walked; a gcdump cannot tell it.
local sections = require("heap.sections")
local view = require("lunette.view")

local function sentence(rows)
  local free, length = 0, 0
  for _, row in ipairs(rows) do free, length = free + row.freeBytes, length + row.length end
  return ("%d of %d bytes in %d regions are free room between objects."):format(free, length, #rows)
end

return view { kind = "heap-snapshot", name = "fragmentation", project = sections.view("fragmentation", nil, sentence) }
