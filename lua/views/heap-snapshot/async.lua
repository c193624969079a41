-- SPDX-License-Identifier: MIT
-- heap-snapshot/async: of a heap that was walked; a gcdump cannot tell it.
local sections = require("heap.sections")
local view = require("lunette.view")

local function sentence(rows)
  local first = rows[1]
  return first and ("%d async methods wait; the first: %s."):format(#rows, first.stateMachineTypeFullName) or "No async method waits."
end

return view { kind = "heap-snapshot", name = "async", project = sections.view("async", nil, sentence) }
