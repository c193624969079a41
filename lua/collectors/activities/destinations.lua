-- SPDX-License-Identifier: MIT
-- Where outgoing HTTP went: scheme, host and port that the client told when a request began, joined to its span by trace and span id. Never
-- concluded from times; withheld as soon as something does not fit.
local program = require("collectors.activities.program")
local redaction = require("lunette.redaction")
local sys = require("lunette.sys")

local M = {}

M.PROVENANCE = program.HTTP_START
local MAX_HOST <const> = 253  -- bytes: the longest name of the DNS
local MAX_PORT <const> = 65535

local function key_of(trace, span) return trace and span and trace .. "-" .. span or nil end

local function same(a, b) return a.scheme == b.scheme and a.host == b.host and a.port == b.port end

--- Starts by identity: { first = start, n = how often, alike = all tell the same }.
local function by_identity(rows)
  local starts = {}
  for _, row in ipairs(rows) do
    local key = key_of(row.trace, row.span)
    local known = key and starts[key]
    if known then
      known.n, known.alike = known.n + 1, known.alike and same(known.first, row)
    elseif key then
      starts[key] = { first = row, n = 1, alike = true }
    end
  end
  return starts
end

local function spans_by_identity(spans)
  local n = {}
  for _, s in ipairs(spans) do
    local key = key_of(s.trace_id, s.span_id)
    if key then n[key] = (n[key] or 0) + 1 end
  end
  return n
end

--- The authority; or nil, why: the program did not tell all of it, it is none, or it looks like a secret.
local function authority(start)
  if not (start.host and start.scheme and start.port) then return nil, "unavailable" end
  local host = type(start.host) == "string" and start.host or ""
  if host == "" or #host > MAX_HOST or host:find("[%s%c/@?#]") or sys.utf8_sanitize(host) ~= host then return nil, "malformed" end
  local scheme = type(start.scheme) == "string" and start.scheme:lower() or ""
  if not scheme:find("^%l[%l%d+.-]*$") or #scheme > 32 then return nil, "malformed" end
  local port = math.tointeger(start.port)
  if not port or port < 0 or port > MAX_PORT then return nil, "malformed" end
  local shown = scheme .. "://" .. host .. ":" .. port
  if redaction.redact(shown) ~= shown or redaction.redact(host) ~= host then return nil, "redacted" end
  return { scheme = scheme, host = host, port = port }
end

-- Which number of the account a reason counts in.
local COUNTED <const> = { available = "matched", missing = "missing", duplicate = "duplicate", conflicting = "conflicting" }

--- Gives each span of the HTTP client its destination, and the account of all.
---@param spans Span[]
---@param starts { rows: table[], seen: integer }   of the program
---@param lost integer?   events that the runtime dropped; nil: not known
---@return table account
function M.join(spans, starts, lost)
  local known, n_spans = by_identity(starts.rows), spans_by_identity(spans)
  local cap_limited = starts.seen > #starts.rows
  local last = starts.rows[#starts.rows]
  local account = { matched = 0, missing = 0, duplicate = 0, conflicting = 0, withheld = 0, cap_limited = cap_limited, lost = lost }
  local function decide(span)
    local key = key_of(span.trace_id, span.span_id)
    local start = key and known[key]
    if start and not start.alike then return "conflicting" end
    if start and start.n > 1 or key and n_spans[key] > 1 then return "duplicate" end
    if (lost or 0) > 0 then return "transport-loss" end
    if cap_limited and (not last or span.end_ns >= last.at) then return "cap-limited" end
    if not start then return "missing" end
    local found, why = authority(start.first)
    if not found then return why end
    return "available", found
  end
  for _, span in ipairs(spans) do
    local key = key_of(span.trace_id, span.span_id)
    if span.source == program.HTTP_SOURCE or key and known[key] then
      local availability, found = decide(span)
      local counted = COUNTED[availability] or "withheld"
      account[counted] = account[counted] + 1
      span.destination = found or {}
      span.destination.availability = availability
      span.destination.provenance = found and M.PROVENANCE or nil
    end
  end
  return account
end

return M
