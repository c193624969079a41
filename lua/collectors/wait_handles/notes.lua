-- SPDX-License-Identifier: MIT
-- What a reader of waits on handles should know beside the figures.
local frames = require("collectors.waits.frames")
local wire = require("collectors.wait_handles.wire")

local M = {}

--- The notes of a window: the engine's first.
---@param result table
---@param artifact WaitArtifact
---@param recorded boolean
---@return string[]
function M.of(result, artifact, recorded)
  local notes = { table.unpack(result.notes) }
  if artifact.total == 0 and artifact.inside.n == 0 then
    notes[#notes + 1] = recorded
      and "NoWaits: the recording has no wait on a handle: none ended, it was made without keyword WaitHandle (0x40000000000) at level "
        .. "Verbose, or by a runtime before .NET 9."
      or "NoWaits: no wait on a handle ended in the window. A thread that waits all through it sends no event: see collect_thread_snapshot."
  end
  if artifact.inside.n > 0 then
    notes[#notes + 1] = ("InsideContention: %d more waits (%.1f ms) are part of lock contention and counted there only.")
      :format(artifact.inside.n, artifact.inside.total_ns / 1e6)
  end
  if artifact.still > 0 then
    notes[#notes + 1] = ("StillWaiting: %s of the waits had not ended when the window did; they are not in the totals.")
      :format(frames.still_waiting(artifact.still, result.waits))
  end
  if artifact.before > 0 then
    notes[#notes + 1] = ("BegunBefore: %d of the waits had begun before the window and are left out."):format(artifact.before)
  end
  frames.unpaired_note(notes, result.waits, "waits")
  local idle, idle_ns = wire.idle(artifact)
  if idle > 0 then
    notes[#notes + 1] = ("Idle: %d of the waits (%.1f ms) are threads of the runtime that wait for want of work; whereThreadsWait has them "
      .. "last."):format(idle, idle_ns / 1e6)
  end
  frames.limit_note(notes, result.waits.by_site, "call sites of waits")
  frames.limit_note(notes, result.locks.by_site, "call sites of lock contention")
  local top = artifact.sites[1]
  if top and top.site.method == frames.UNKNOWN then
    notes[#notes + 1] = frames.NO_NAMES
  end
  return notes
end

--- What view whereThreadsWait says of itself.
M.OF_RANKING = "Ranking: by the time of waits that ended in the window and, so far, of those that had not (stillWaitingDuration); share is "
  .. "of all that but idle. idle: threads of the runtime that wait for want of work. Not seen: waits all through the window, Thread.Sleep, "
  .. "I/O."

return M
