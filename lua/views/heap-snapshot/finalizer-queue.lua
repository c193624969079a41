-- SPDX-License-Identifier: MIT
-- heap-snapshot/finalizer-queue: of a heap that was walked; a gcdump cannot tell it.
local sections = require("heap.sections")
local view = require("lunette.view")

local function sentence(rows)
  local all, ready = 0, 0
  for _, row in ipairs(rows) do all, ready = all + row.instanceCount, ready + row.readyCount end
  return ("%d objects of %d types have a finalizer; %d wait for the finalizer thread."):format(all, #rows, ready)
end

return view { kind = "heap-snapshot", name = "finalizer-queue", project = sections.view("finalizer-queue", nil, sentence) }
