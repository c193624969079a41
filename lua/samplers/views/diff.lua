-- SPDX-License-Identifier: MIT
-- diff: two captures row by row (baselineHandle), or several as a journey (comparisonHandles). CPU samples compare their shares; only
-- samples of the kernel on both sides give a verdict. Allocations compare rates, so windows may differ in length.
local compared = require("samplers.compared")
local event_names = require("collectors.event_names")
local journey = require("lunette.journey")
local json = require("lunette.json")
local numbers = require("lunette.numbers")

local M = {}

M.TOP, M.MAX_ROWS, M.MIN_DELTA_PCT = 25, 200, 5
local ORDER <const> = { __order = {
  "kind", "baselineHandle", "currentHandle", "minDeltaPct", "verdict", "totalAdded", "totalRemoved", "totalChanged", "added", "removed",
  "changed", "notes",
} }
local ROW_ORDER <const> = { __order = { "key", "direction", "deltaAbs", "deltaPct", "baseline", "current" } }

---@class ComparedRow
---@field name string          what orders rows that are equal else
---@field before number?       the primary metric; nil: not in that capture
---@field after number?
---@field render fun(): table, table?, table?   key, baseline, current

local function change(row)
  if row.before == nil then return row.after, 100.0 end
  if row.after == nil then return -row.before, -100.0 end
  local delta = row.after - row.before
  if row.before == 0 then return delta, delta == 0 and 0 or 100.0 end
  return delta, 100 * delta / math.abs(row.before)
end

local function direction(row, delta)
  return row.before == nil and "added" or row.after == nil and "removed" or delta > 0 and "up" or "down"
end

local function sorted(list, weights)
  table.sort(list, function(a, b)
    for _, weight in ipairs(weights) do
      local x, y = weight(a), weight(b)
      if x ~= y then return x > y end
    end
    return a.row.name < b.row.name
  end)
  return list
end

local function primary(entry) return entry.row.after or entry.row.before end
local function size_pct(entry) return math.abs(entry.pct) end
local function size_abs(entry) return math.abs(entry.delta) end

--- Puts rows into added, removed and changed; those that moved by less are left out.
---@param rows ComparedRow[]
---@param min_delta_pct number
function M.sort(rows, min_delta_pct)
  local out = { added = {}, removed = {}, changed = {}, shared = 0 }
  for _, row in ipairs(rows) do
    local delta, pct = change(row)
    local entry = { row = row, delta = delta, pct = pct, direction = direction(row, delta) }
    if row.before == nil then
      out.added[#out.added + 1] = entry
    elseif row.after == nil then
      out.removed[#out.removed + 1] = entry
    else
      out.shared = out.shared + 1
      if delta ~= 0 and math.abs(pct) >= min_delta_pct then out.changed[#out.changed + 1] = entry end
    end
  end
  sorted(out.added, { primary })
  sorted(out.removed, { primary })
  sorted(out.changed, { size_pct, size_abs })
  return out
end

local function median(rows)
  local list = {}
  for _, row in ipairs(rows) do
    if row.before then list[#list + 1] = row.before end
  end
  if #list == 0 then return 0 end
  table.sort(list)
  local n = #list
  return n % 2 == 1 and list[n // 2 + 1] or (list[n // 2] + list[n // 2 + 1]) / 2
end

--- The verdict of rows whose metric is worse when it grows.
---@param rows ComparedRow[]
---@param parts table   of sort
---@return string verdict, string? note
function M.judge(rows, parts)
  if parts.shared == 0 and #rows > 0 then return "no_change", "NoOverlap: nothing is in both captures, so they do not compare." end
  local line, worse, better = median(rows), false, false
  for _, entry in ipairs(parts.changed) do
    if entry.direction == "up" then worse = true else better = true end
  end
  for _, entry in ipairs(parts.added) do worse = worse or entry.row.after > line end
  for _, entry in ipairs(parts.removed) do better = better or entry.row.before > line end
  if worse and better then return "mixed" end
  return worse and "regression" or better and "improvement" or "no_change"
end

local function rows_of(list, top)
  local rows = json.array({})
  for i = 1, math.min(top, #list) do
    local entry = list[i]
    local key, baseline, current = entry.row.render()
    rows[i] = setmetatable({
      key = key, direction = entry.direction, deltaAbs = numbers.round(entry.delta, 4), deltaPct = numbers.round(entry.pct, 2),
      baseline = baseline, current = current,
    }, ROW_ORDER)
  end
  return rows
end

-- "Top hotspot share grew": for samples that were measured on a CPU, on both sides.
local function narrative(rows)
  local best, delta = nil, 0
  for _, row in ipairs(rows) do
    local moved = (row.after or 0) - (row.before or 0)
    if math.abs(moved) > math.abs(delta) then best, delta = row, moved end
  end
  if not best then return "" end
  return (" Top hotspot share %s: %s %.1f %% -> %.1f %% (%+.1f pp)."):format(delta > 0 and "grew" or "shrank",
    event_names.spoken(best.name), best.before or 0, best.after or 0, delta)
end

local function pairwise(entry, opts, baseline)
  local rows = compared.rows(entry.kind, baseline.artifact, entry.artifact)
  local least, top = opts.minDeltaPct or M.MIN_DELTA_PCT, math.min(opts.topN or M.TOP, M.MAX_ROWS)
  local parts, notes = M.sort(rows, least), json.array(compared.notes(entry.kind, baseline.artifact, entry.artifact))
  local verdict, note = compared.evidence_verdict(entry.kind, { baseline.artifact, entry.artifact })
  if verdict then
    notes[#notes + 1] = note
  else
    verdict, note = M.judge(rows, parts)
    notes[#notes + 1] = note
  end
  local measured = compared.measured(entry.kind, { baseline.artifact, entry.artifact })
  return setmetatable({
    kind = entry.kind, baselineHandle = baseline.id, currentHandle = entry.id, minDeltaPct = least, verdict = verdict,
    totalAdded = #parts.added, totalRemoved = #parts.removed, totalChanged = #parts.changed, added = rows_of(parts.added, top),
    removed = rows_of(parts.removed, top), changed = rows_of(parts.changed, top), notes = notes,
  }, ORDER), {
    summary = ("%s: %d added, %d removed, %d changed by %s %% or more.%s"):format(verdict, #parts.added, #parts.removed, #parts.changed,
      ("%.6g"):format(least), measured and narrative(rows) or ""),
  }
end

--- What the view answers.
function M.project(_, opts, entry)
  local entries, err = journey.captures(entry, opts)
  if not entries then return nil, err end
  if opts.baselineHandle then return pairwise(entry, opts, entries[1]) end
  local artifacts = {}
  for i, e in ipairs(entries) do artifacts[i] = e.artifact end
  return journey.view(entry, opts, function(artifact) return compared.comparable(entry.kind, artifact) end, {
    verdict = function(mode) return compared.evidence_verdict(entry.kind, artifacts, mode) end,
    narrative = compared.measured(entry.kind, artifacts)
      and narrative(compared.rows(entry.kind, artifacts[1], artifacts[#artifacts])) or nil,
  })
end

return M
