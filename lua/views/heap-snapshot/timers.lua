-- SPDX-License-Identifier: MIT
-- heap-snapshot/timers: of a heap that was walked; a gcdump cannot tell it.
local sections = require("heap.sections")
local view = require("lunette.view")

local function sentence(t)
  local callbacks = #t.timersByCallback
  return ("%d timers by %d %s, %d tasks, %d completion sources."):format(t.totalTimers, callbacks,
    callbacks == 1 and "callback" or "callbacks", t.totalTasks, t.totalTaskCompletionSources)
end

return view { kind = "heap-snapshot", name = "timers", project = sections.view("timers", nil, sentence) }
