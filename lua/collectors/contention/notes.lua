-- SPDX-License-Identifier: MIT
-- What a reader of lock contention should know beside the figures.
local frames = require("collectors.waits.frames")

local M = {}

local RECORDED <const> = " A recording has them only if it was made with keyword Contention (0x4000)."
local EMPTY <const> = "NoContention: no contention ended in the window. Some runtimes on Linux do not send these events although "
  .. "monitor-lock-contention-count rises: compare it with that counter."

--- The notes of a window: the engine's first.
---@param result table
---@param artifact ContentionArtifact
---@param recorded boolean
---@return string[]
function M.of(result, artifact, recorded)
  local notes = { table.unpack(result.notes) }
  if artifact.total == 0 then notes[#notes + 1] = EMPTY .. (recorded and RECORDED or "") end
  if artifact.still.n > 0 then
    notes[#notes + 1] = ("StillWaiting: %s of the contentions had not ended when the window did, the longest after %.1f s; only "
      .. "view byBlame has them."):format(frames.still_waiting(artifact.still.n, result.locks),
      artifact.still.longest_ns / 1e9)
  end
  if artifact.before > 0 then
    notes[#notes + 1] = ("BegunBefore: %d of the contentions had begun before the window and are left out."):format(artifact.before)
  end
  frames.unpaired_note(notes, result.locks, "contentions")
  if #artifact.events < artifact.total then
    notes[#notes + 1] = ("EventLimit: the %d longest of %d contentions are kept one by one; all are in the totals and groups.")
      :format(#artifact.events, artifact.total)
  end
  frames.limit_note(notes, result.locks.by_site, "call sites")
  frames.limit_note(notes, result.locks.by_lock, "locks")
  frames.limit_note(notes, result.locks.by_owner, "owners")
  local top = artifact.sites[1]
  if top and top.site.method == frames.UNKNOWN then
    notes[#notes + 1] = frames.NO_NAMES
  end
  return notes
end

--- What view byBlame adds to them.
---@param artifact ContentionArtifact
---@return string[]
function M.of_blame(artifact)
  local notes = {
    "Owners: told by events of the owner's own thread. holding: seen while others waited for it; acquired, earlier: where it had waited "
      .. "for the lock itself, with others waiting already or not; later: its next event after that; none: no event. lateBy: how long "
      .. "after the waiting began (negative: before).",
  }
  if artifact.followed < artifact.total then
    notes[#notes + 1] = ("Followed: owners are those of the last %d of %d contentions."):format(artifact.followed, artifact.total)
  end
  if artifact.is_aot then
    notes[#notes + 1] = "OwnerIds: a program compiled ahead of time names owners by managed thread ids: what their threads did cannot be "
      .. "found."
  end
  return notes
end

return M
