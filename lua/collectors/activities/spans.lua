-- SPDX-License-Identifier: MIT
-- Rows of the reducer engine become spans: ids from the arguments, times by the target's clock, text without secrets.
local memo = require("collectors.memo")
local program = require("collectors.activities.program")
local tags = require("collectors.activities.tags")
local untrusted = require("collectors.untrusted")

local M = {}

M.MAX_NAME = 256   -- bytes of a source, an operation, a display name, an id
M.MAX_SAID = 1024  -- bytes of a status description
local EPOCH_TICKS <const> = 621355968000000000 -- 1970 in ticks of 100 ns since the year 1
local UNSET <const> = "Unset"
local W3C_DIGITS <const> = 55 -- of a whole id

---@class Span
---@field source string
---@field operation string
---@field name string?            as the program displays it, where that differs from the operation
---@field id string
---@field parent_id string?
---@field trace_id string?
---@field span_id string?
---@field parent_span_id string?
---@field start_unix_ns integer   by the target's clock
---@field took_ns integer?        nil when the stream does not tell
---@field end_ns integer          when its event was written, since the session's start
---@field kind string?
---@field status "Ok"|"Error"|nil
---@field said string?            what it says of its status
---@field tags table<string, string>
---@field destination table?      see collectors.activities.destinations

local function text_of(value, max)
  if type(value) ~= "string" or value == "" then return nil end
  return untrusted.clean(value, max or M.MAX_NAME, program.TEXT_MAX)
end

-- A name: few different ones come again and again.
local function name_of(value, seen)
  if type(value) ~= "string" or value == "" then return nil end
  local known = seen:get(value)
  if not known then
    known = text_of(value)
    seen:put(value, known)
  end
  return known
end

--- An id that is not all zeros: that is how the runtime writes none.
local function id_of(value)
  if type(value) ~= "string" or value == "" or not value:find("[^0]") then return nil end
  if #value <= W3C_DIGITS and not value:find("[^%x-]") then return value end -- nothing else is in it
  return text_of(value)
end

-- The whole id: as the program has it, made of its parts, or the one of the event's header.
local function whole_id(row, trace, span)
  return id_of(row.id) or trace and span and ("00-%s-%s-01"):format(trace, span) or id_of(row.header) or ""
end

local function parent_id(row, trace, parent)
  return id_of(row.parent) or trace and parent and ("00-%s-%s-01"):format(trace, parent) or nil
end

---@param row table              of the program
---@param start_unix_ns integer  of the session: for a span whose own start is not told
---@param seen table             collectors.memo
---@return Span
function M.span(row, start_unix_ns, seen)
  local trace, span, parent = id_of(row.trace), id_of(row.span), id_of(row.parent_span)
  local took = math.tointeger(row.took)
  local took_ns = took and took >= 0 and took < math.maxinteger // 100 and took * 100 or nil
  local start = math.tointeger(row.start)
  local known = start and start >= EPOCH_TICKS and start - EPOCH_TICKS < math.maxinteger // 100
  local operation, name = name_of(row.operation, seen) or "", name_of(row.name, seen)
  return {
    source = name_of(row.source, seen) or "", operation = operation, name = name ~= operation and name or nil,
    id = whole_id(row, trace, span), parent_id = parent_id(row, trace, parent), trace_id = trace, span_id = span, parent_span_id = parent,
    start_unix_ns = known and (start - EPOCH_TICKS) * 100 or start_unix_ns + row.at - (took_ns or 0), took_ns = took_ns, end_ns = row.at,
    kind = name_of(row.kind, seen), status = row.status ~= UNSET and name_of(row.status, seen) or nil, said = text_of(row.said, M.MAX_SAID),
    tags = tags.parse(row.tags, program.TEXT_MAX, seen),
  }
end

--- Spans in the order in which they ended.
function M.list(rows, start_unix_ns)
  local list, seen = {}, memo.new()
  for i, row in ipairs(rows) do list[i] = M.span(row, start_unix_ns, seen) end
  return list
end

--- What the target's wall clock says, less the time of the session's events, at the same moment. Each event is written a moment after its
--- span ended, so the largest difference is nearest. nil without a span that tells both.
---@param list Span[]
---@return integer?
function M.clock_offset(list)
  local best
  for _, s in ipairs(list) do
    local offset = s.took_ns and s.start_unix_ns + s.took_ns - s.end_ns
    if offset and (not best or offset > best) then best = offset end
  end
  return best
end

-- Names become equal when secrets are taken out of them: their numbers are added up.
local function add(rows, by_key, key, row)
  local known = by_key[key]
  if not known then
    by_key[key], rows[#rows + 1] = row, row
    return
  end
  known.n, known.timed, known.sum_ms = known.n + row.n, known.timed + row.timed, known.sum_ms + row.sum_ms
  known.max_ms, known.p95_ms = math.max(known.max_ms, row.max_ms), math.max(known.p95_ms, row.p95_ms)
  known.errors = known.errors + row.errors
end

local function heaviest_first(a, b)
  if a.n ~= b.n then return a.n > b.n end
  if a.max_ms ~= b.max_ms then return a.max_ms > b.max_ms end
  if a.source ~= b.source then return a.source < b.source end
  return (a.operation or "") < (b.operation or "")
end

--- Sums by operation and by source, most frequent first.
---@param group table   the group of the program
---@return table[] by_source, table[] by_operation, integer untold   spans of operations that were too many
function M.sums(group)
  local sources, operations, by_source, by_operation = {}, {}, {}, {}
  for _, g in ipairs(group.rows) do
    local ms = g.ms
    local function row(operation)
      return {
        source = text_of(g.source) or "", operation = operation, n = g.n, timed = ms.n, sum_ms = (ms.mean or 0) * ms.n,
        max_ms = ms.max or 0, p95_ms = ms.p95 or 0, errors = g.errors,
      }
    end
    local r = row(text_of(g.operation) or "")
    add(operations, by_operation, r.source .. "\0" .. r.operation, r)
    add(sources, by_source, r.source, row(nil))
  end
  table.sort(sources, heaviest_first)
  table.sort(operations, heaviest_first)
  return sources, operations, group.other and group.other.n or 0
end

--- Names of the sources of all spans of the window, most frequent first.
function M.names(group)
  local rows, names = table.move(group.rows, 1, #group.rows, 1, {}), {}
  table.sort(rows, function(a, b)
    if a.n ~= b.n then return a.n > b.n end
    return (a.key or "") < (b.key or "")
  end)
  for i, g in ipairs(rows) do names[i] = text_of(g.key) or "" end
  return names
end

return M
