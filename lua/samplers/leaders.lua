-- SPDX-License-Identifier: MIT
-- What leads a capture: the methods with most samples of their own that are not known to wait, and the waits by their label. A stack sample
-- of EventPipe does not tell running from waiting, so what is left without the known waits are candidates, no more.
local M = {}

M.SCAN = 2000 -- methods that are looked at, most samples of their own first: what lies behind is single samples
local ATTRIBUTED <const> = { managed = true, dynamic = true, native = true, kernel = true }

--- Samples of a row that are its own and not those of a known wait.
---@param row table
function M.busy(row) return row.running + row.unknown end

local function by_busy(a, b)
  local x, y = M.busy(a), M.busy(b)
  if x ~= y then return x > y end
  return a.method < b.method
end

--- The methods with most samples of their own beside known waits, and the waits of all that were looked at.
---@param artifact SampleArtifact
---@param n integer
---@return table[] rows           of the profile; addresses without a name are none
---@return { reason: string, samples: integer }[] waits   most first
function M.of(artifact, n)
  local rows, by_reason, waits = {}, {}, {}
  for _, row in ipairs(artifact.profile:top_methods { top = M.SCAN, rank_by = "exclusive" }) do
    if row.waiting > 0 and row.wait_reason then
      local wait = by_reason[row.wait_reason]
      if not wait then
        wait = { reason = row.wait_reason, samples = 0 }
        by_reason[row.wait_reason], waits[#waits + 1] = wait, wait
      end
      wait.samples = wait.samples + row.waiting
    end
    if M.busy(row) > 0 and ATTRIBUTED[artifact.profile:frame(row.frame).kind] then rows[#rows + 1] = row end
  end
  table.sort(rows, by_busy)
  table.sort(waits, function(a, b)
    if a.samples ~= b.samples then return a.samples > b.samples end
    return a.reason < b.reason
  end)
  return table.move(rows, 1, math.min(n, #rows), 1, {}), waits
end

return M
