-- SPDX-License-Identifier: MIT
-- heap-snapshot/delegate-targets: of a heap that was walked; a gcdump cannot tell it.
local sections = require("heap.sections")
local view = require("lunette.view")

return view { kind = "heap-snapshot", name = "delegate-targets", project = sections.view("delegate-targets", "includeDelegateTargets") }
