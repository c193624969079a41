-- SPDX-License-Identifier: MIT
-- heap-snapshot/delegate-targets: of a heap that was walked; a gcdump cannot tell it.
local sections = require("heap.sections")
local view = require("lunette.view")

local function sentence(rows, section)
  local first, n, left_out = rows[1], sections.count(section)
  return first and ("%d methods are called by delegates%s; most by %s.%s: %d."):format(n, left_out, first.declaringTypeFullName,
    first.methodName, first.subscriberCount) or "There are no delegates."
end

return view {
  kind = "heap-snapshot", name = "delegate-targets", project = sections.view("delegate-targets", "includeDelegateTargets", sentence),
}
