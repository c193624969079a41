-- SPDX-License-Identifier: MIT
-- heap-snapshot/gchandles: of a heap that was walked; a gcdump cannot tell it.
local sections = require("heap.sections")
local view = require("lunette.view")

return view { kind = "heap-snapshot", name = "gchandles", project = sections.view("gchandles") }
