-- SPDX-License-Identifier: MIT
-- heap-snapshot/static-fields: of a heap that was walked; a gcdump cannot tell it.
local sections = require("heap.sections")
local view = require("lunette.view")

local function sentence(rows, section)
  local first, n, left_out = rows[1], sections.count(section)
  return first and ("%d static fields refer to objects%s; the largest: %s.%s."):format(n, left_out, first.containingTypeFullName,
    first.fieldName) or "No static field refers to an object."
end

return view { kind = "heap-snapshot", name = "static-fields", project = sections.view("static-fields", "includeStaticFields", sentence) }
