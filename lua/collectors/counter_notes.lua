-- SPDX-License-Identifier: MIT
-- Events of EventCounters have some of the fields each, and one source nests them where another does not: that some are missing is no news.
local M = {}

local EVENT <const> = "EventCounters"

--- The notes of a run without those on fields that counters do not have.
---@param result table   of probe.run
---@return string[]
function M.of(result)
  local others = false
  for _, missing in ipairs(result.meta.missing) do others = others or missing.event ~= EVENT end
  local notes = {}
  for _, note in ipairs(result.notes) do
    local expected = note:find("^FieldMissing: " .. EVENT .. " ") or (not others and note:find("^FieldsMissing: "))
    if not expected then notes[#notes + 1] = note end
  end
  return notes
end

return M
