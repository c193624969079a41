-- SPDX-License-Identifier: MIT
-- heap-snapshot/async: of a heap that was walked; a gcdump cannot tell it.
local sections = require("heap.sections")
local view = require("lunette.view")

local function sentence(rows, section)
  local first, n, left_out = rows[1], sections.count(section)
  return first and ("%d async methods wait%s; the first: %s."):format(n, left_out, first.stateMachineTypeFullName)
    or "No async method waits."
end

return view { kind = "heap-snapshot", name = "async", project = sections.view("async", nil, sentence) }
