-- SPDX-License-Identifier: MIT
-- heap-snapshot/finalizer-queue: of a heap that was walked; a gcdump cannot tell it.
local sections = require("heap.sections")
local view = require("lunette.view")

local function sentence(rows, section)
  local all, ready, n, left_out = 0, 0, sections.count(section)
  for _, row in ipairs(rows) do all, ready = all + row.instanceCount, ready + row.readyCount end
  return ("%d objects of %d types%s have a finalizer; %d wait for the finalizer thread."):format(section.total and section.total.objects
    or all, n, left_out, ready)
end

return view { kind = "heap-snapshot", name = "finalizer-queue", project = sections.view("finalizer-queue", nil, sentence) }
