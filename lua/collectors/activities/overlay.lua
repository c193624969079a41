-- SPDX-License-Identifier: MIT
-- Spans and the times at which the process stood still for its garbage collector: how much of each span that was. Both are placed on the
-- clock of the runtime's events, which sessions on one machine share; the target's wall clock is brought there by the spans' own events.

local M = {}

M.MAX_EVENTS = 20 -- pauses that are named for one span
local REASONS <const> = { [1] = "GC", [6] = "GCPrep" }
local UNKNOWN <const> = "Unknown"

---@class OverlayPause
---@field from integer            ns of the common clock
---@field to integer
---@field row SuspensionPhase

-- What is to be added to a time since the start of a capture, in ns.
local function base_of(artifact, mono) return mono and artifact.start_mono_ns or artifact.start_unix_ns end

-- The one collection that began within a phase. `collections` are in order of their start.
local function collection_of(collections, row)
  local low, high = 1, #collections
  while low <= high do
    local mid = (low + high) // 2
    if collections[mid].start_ns < row.start_ns then low = mid + 1 else high = mid - 1 end
  end
  local found = collections[low]
  return found and row.end_ns and found.start_ns <= row.end_ns and found or nil
end

local function starts_in_order(list)
  local rows = table.move(list, 1, #list, 1, {})
  table.sort(rows, function(a, b) return a.start_ns < b.start_ns end)
  return rows
end

--- All validated phases that the capture still holds: those kept in order, and the longest.
---@return SuspensionPhase[] phases   by start
local function phases_of(s)
  local rows, seen = {}, {}
  for _, list in ipairs { s.rows, s.longest } do
    for _, row in ipairs(list) do
      if row.reliable and row.end_ns and not seen[row.start_ns] then seen[row.start_ns], rows[#rows + 1] = true, row end
    end
  end
  return starts_in_order(rows)
end

-- From when on pauses may be missing in what is held: the last one that was kept in order, or the begin of one without an end.
local function doubtful_from(s)
  local from
  local last = s.rows[#s.rows]
  if s.dropped > 0 then from = last and (last.end_ns or last.start_ns) or math.mininteger end
  for _, row in ipairs(s.rows) do
    if not row.end_ns and (not from or row.start_ns < from) then from = row.start_ns end
  end
  return from
end

--- The last phase that begins before `at`; 0 when none does.
local function last_before(pauses, at)
  local low, high = 1, #pauses
  while low <= high do
    local mid = (low + high) // 2
    if pauses[mid].from < at then low = mid + 1 else high = mid - 1 end
  end
  return high
end

-- Time of [from, to] in pauses, and which they were. Phases of one process do not overlap; if two do, their common part counts once.
local function attribute(pauses, from, to)
  local total, hit, at = 0, {}, from
  local i = last_before(pauses, from)
  i = math.max(1, i)
  while i <= #pauses and pauses[i].from < to do
    local p = pauses[i]
    local a, b = math.max(p.from, at), math.min(p.to, to)
    if b > a then
      total, at = total + b - a, b
      hit[#hit + 1] = { pause = p, ns = b - a }
    end
    i = i + 1
  end
  return total, hit
end

---@class OverlayResult
---@field status "available"|"degraded"|"unavailable"
---@field window { from: integer, to: integer }   what both captures saw
---@field impacted table[]        { span, ns, percent, hit, lower_bound }, largest share first
---@field overlap_ns integer?     of all spans; nil when unavailable
---@field pause_ns integer?       of the common window
---@field collections integer     that ran in the common window
---@field invalid integer
---@field flags string[]

local function window_of(artifact, base)
  return base, base + math.floor(artifact.duration_ms * 1000000)
end

--- The common window of both captures; nil when there is none.
local function common(activities, gc, mono)
  local a_from, a_to = window_of(activities, base_of(activities, mono))
  local g_from, g_to = window_of(gc, base_of(gc, mono))
  local from, to = math.max(a_from, g_from), math.min(a_to, g_to)
  return to > from and { from = from, to = to } or nil
end

local function count_collections(gc, base, window)
  local n = 0
  for _, c in ipairs(gc.collections.rows) do
    if c.start_ns + base < window.to and c.end_ns + base > window.from then n = n + 1 end
  end
  return n
end

local function larger_share_first(a, b)
  if a.percent ~= b.percent then return a.percent > b.percent end
  if a.ns ~= b.ns then return a.ns > b.ns end
  return a.span.ordinal < b.span.ordinal
end

local function pauses_of(gc, base)
  local pauses, collections = {}, starts_in_order(gc.collections.rows)
  for i, row in ipairs(phases_of(gc.suspensions)) do
    pauses[i] = { from = row.start_ns + base, to = row.end_ns + base, row = row, collection = collection_of(collections, row) }
  end
  return pauses
end

local function measure_spans(activities, mono, pauses, window, doubtful)
  local impacted, overlap, invalid = {}, 0, 0
  -- a span's begin and end by the target's wall clock, then by the events' clock
  local base = mono and activities.start_mono_ns - (activities.clock_offset or 0) or 0
  for _, span in ipairs(activities.spans) do
    if not span.took_ns or span.took_ns <= 0 then
      invalid = invalid + 1
    else
      local from = span.start_unix_ns + base
      local to = from + span.took_ns
      local ns, hit = attribute(pauses, math.max(from, window.from), math.min(to, window.to))
      if ns > 0 then
        overlap = overlap + ns
        impacted[#impacted + 1] = {
          span = span, ns = ns, percent = 100 * ns / span.took_ns, hit = hit,
          lower_bound = from < window.from or to > window.to or doubtful ~= nil and to > doubtful,
        }
      end
    end
  end
  table.sort(impacted, larger_share_first)
  return impacted, overlap, invalid
end

local function flags_of(gc, mono, doubtful)
  local flags = {}
  if not mono then flags[#flags + 1] = "wall-clock-alignment" end
  if gc.suspensions.dropped > 0 then flags[#flags + 1] = "pause-details-capped" end
  if gc.collections.dropped > 0 then flags[#flags + 1] = "collection-details-capped" end
  if doubtful then flags[#flags + 1] = "open-ended-pauses" end
  for _, word in ipairs(gc.suspensions.quality) do flags[#flags + 1] = "gc:" .. word end
  return flags
end

--- Lays the pauses of a gc capture over the spans of an activities capture.
---@param activities table
---@param gc GcArtifact
---@return OverlayResult?   nil: the two have no time in common
function M.of(activities, gc)
  local mono = activities.start_mono_ns and gc.start_mono_ns and activities.clock_offset and true or false
  local window = common(activities, gc, mono)
  if not window then return nil end
  local base, s = base_of(gc, mono), gc.suspensions
  local result = { status = s.status, window = window, impacted = {}, collections = count_collections(gc, base, window), invalid = 0 }
  local from = doubtful_from(s)
  local doubtful = from and (from == math.mininteger and from or from + base)
  result.flags = flags_of(gc, mono, doubtful ~= nil and s.dropped == 0)
  local pauses = s.status ~= "unavailable" and pauses_of(gc, base) or {}
  local impacted, overlap, invalid = measure_spans(activities, mono, pauses, window, doubtful)
  result.invalid = invalid
  if s.status == "unavailable" then return result end
  result.impacted, result.overlap_ns = impacted, overlap
  result.pause_ns = attribute(pauses, window.from, window.to)
  result.omitted = s.dropped - (#pauses - M.kept_in_order(s))
  return result
end

--- Validated phases among those kept in order.
function M.kept_in_order(s)
  local n = 0
  for _, row in ipairs(s.rows) do n = n + (row.reliable and row.end_ns and 1 or 0) end
  return n
end

--- How a pause is called: generation, reason and type of the collection that began in it, if one did.
---@return integer? generation, string reason, string type
function M.called(pause)
  local c = pause.collection
  if c then return c.generation, c.reason or UNKNOWN, c.type or UNKNOWN end
  return nil, REASONS[pause.row.reason] or UNKNOWN, UNKNOWN
end

return M
