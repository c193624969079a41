-- SPDX-License-Identifier: MIT
-- heap-snapshot/gchandles: of a heap that was walked; a gcdump cannot tell it.
local sections = require("heap.sections")
local view = require("lunette.view")

local function sentence(t)
  local parts = {}
  for i, kind in ipairs(t.byKind) do parts[i] = ("%d %s"):format(kind.count, kind.kind) end
  return ("%d handles: %s."):format(t.totalHandles, table.concat(parts, ", "))
end

return view { kind = "heap-snapshot", name = "gchandles", project = sections.view("gchandles", nil, sentence) }
