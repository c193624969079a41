-- SPDX-License-Identifier: MIT
-- heap-snapshot/diff: two heaps type by type (baselineHandle), by how much each type's bytes moved in percent; or several as a journey.
local compared = require("heap.compared")
local diff = require("samplers.views.diff")
local journey = require("lunette.journey")
local json = require("lunette.json")
local numbers = require("lunette.numbers")
local view = require("lunette.view")

local ORDER <const> = { __order = {
  "kind", "baselineHandle", "currentHandle", "minDeltaPct", "verdict", "totalAdded", "totalRemoved", "totalChanged", "added", "removed",
  "changed", "notes",
} }
local ROW_ORDER <const> = { __order = { "key", "direction", "deltaAbs", "deltaPct", "baseline", "current" } }

local function rows_of(list, top)
  local rows = json.array({})
  for i = 1, math.min(top, #list) do
    local entry = list[i]
    local key, baseline, current = entry.row.render()
    rows[i] = setmetatable({
      key = key, direction = entry.direction, deltaAbs = entry.delta, deltaPct = numbers.round(entry.pct, 2), baseline = baseline,
      current = current,
    }, ROW_ORDER)
  end
  return rows
end

local function notes_of(before, after)
  local notes = json.array({})
  if before.origin ~= after.origin then
    notes[1] = ("OtherSource: one heap is of a %s, one of a %s: a gcdump is taken behind a collection, a walk counts garbage too, and "
      .. "nested and generic types have other names in a gcdump."):format(before.origin, after.origin)
  end
  return notes
end

local function pairwise(entry, opts, baseline)
  local rows = compared.rows(baseline.artifact, entry.artifact)
  local top = math.min(opts.topN or diff.TOP, diff.MAX_ROWS)
  local least = opts.minDeltaPct or diff.MIN_DELTA_PCT
  local parts, notes = diff.sort(rows, least), notes_of(baseline.artifact, entry.artifact)
  local verdict, note = diff.judge(rows, parts)
  notes[#notes + 1] = note
  return setmetatable({
    kind = entry.kind, baselineHandle = baseline.id, currentHandle = entry.id, minDeltaPct = least, verdict = verdict,
    totalAdded = #parts.added, totalRemoved = #parts.removed, totalChanged = #parts.changed, added = rows_of(parts.added, top),
    removed = rows_of(parts.removed, top), changed = rows_of(parts.changed, top), notes = notes,
  }, ORDER), {
    summary = ("%s: %d -> %d bytes; %d types added, %d removed, %d changed by %s %% or more."):format(verdict,
      baseline.artifact.info.bytes, entry.artifact.info.bytes, #parts.added, #parts.removed, #parts.changed, ("%.6g"):format(least)),
  }
end

return view {
  kind = "heap-snapshot", name = "diff",
  project = function(_, opts, entry)
    local entries, err = journey.captures(entry, opts)
    if not entries then return nil, err end
    if opts.baselineHandle then return pairwise(entry, opts, entries[1]) end
    return journey.view(entry, opts, compared.comparable, {})
  end,
}
