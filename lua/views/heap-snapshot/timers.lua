-- SPDX-License-Identifier: MIT
-- heap-snapshot/timers: of a heap that was walked; a gcdump cannot tell it.
local sections = require("heap.sections")
local view = require("lunette.view")

local function sentence(t)
  return ("%d timers by %d callbacks, %d tasks, %d completion sources."):format(t.totalTimers, #t.timersByCallback, t.totalTasks,
    t.totalTaskCompletionSources)
end

return view { kind = "heap-snapshot", name = "timers", project = sections.view("timers", nil, sentence) }
