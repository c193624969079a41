-- SPDX-License-Identifier: MIT
-- heap-snapshot/delegate-targets: of a heap that was walked; a gcdump cannot tell it.
local sections = require("heap.sections")
local view = require("lunette.view")

local function sentence(rows)
  local first = rows[1]
  return first and ("%d methods are called by delegates; most by %s.%s: %d."):format(#rows, first.declaringTypeFullName, first.methodName,
    first.subscriberCount) or "There are no delegates."
end

return view {
  kind = "heap-snapshot", name = "delegate-targets", project = sections.view("delegate-targets", "includeDelegateTargets", sentence),
}
