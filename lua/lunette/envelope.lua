-- SPDX-License-Identifier: MIT
-- envelope: the one shape of every answer (DiagnosticResult), its size limits, and the tool result that carries it.
local handles = require("lunette.handles")
local hints = require("lunette.hints")
local json = require("lunette.json")
local numbers = require("lunette.numbers")
local sys = require("lunette.sys")
local text = require("lunette.text")

local M = {}

M.SUMMARY_BYTES = 16 * 1024 -- a default answer
M.MAX_BYTES = 80 * 1024     -- any answer
M.TWICE_BYTES = 1024 * 1024 -- of one that is told as text, too
local ONCE <const> = "The answer has %d bytes: it is in structuredContent alone."
local MAX_SIGNALS <const> = 8
local MAX_BUCKETS <const> = 8
local MIN_ROWS <const> = 3  -- of a list that is cut
local MAX_SUMMARY <const> = 1024
local MAX_TEXT <const> = 2048 -- bytes of another text beside the data, in an answer that would be too long

local ORDER <const> = { __order = {
  "summary", "error", "safetyApproval", "signals", "data", "hints", "handle", "handleExpiresAt", "handleExpiresInSeconds",
  "resolvedProcess", "safety", "safetyWarnings", "childSafety", "cancelled" } }
local ERROR_ORDER <const> = { __order = { "kind", "message", "detail" } }
local SIGNAL_ORDER <const> = { __order = { "signal", "summary", "salience", "buckets", "nextAction" } }

--- Signals as they go out: those that lead, then the most salient first, bounded, with the handle in their buckets; nil when nothing
--- stands out.
---@param signals table[]?
---@param handle Handle?
---@return table?
function M.signals(signals, handle)
  if not signals or #signals == 0 then return nil end
  local list, leads = {}, {}
  for i, s in ipairs(signals) do
    local buckets = {}
    for k, bucket in ipairs(s.buckets or {}) do
      if k > MAX_BUCKETS then break end
      buckets[k] = { key = bucket.key, magnitude = bucket.magnitude, unit = bucket.unit, handle = bucket.handle or handle and handle.id }
    end
    list[i] = setmetatable({
      signal = s.signal, summary = s.summary, salience = numbers.round(math.max(0, math.min(1, s.salience)), 3),
      buckets = json.array(buckets), nextAction = s.nextAction,
    }, SIGNAL_ORDER)
    leads[list[i]] = s.leads
  end
  table.sort(list, function(a, b)
    if leads[a] ~= leads[b] then return leads[a] == true end
    if a.salience ~= b.salience then return a.salience > b.salience end
    return a.signal < b.signal
  end)
  for i = #list, MAX_SIGNALS + 1, -1 do list[i] = nil end
  return json.array(list)
end

---@class Answer
---@field summary string
---@field data table?
---@field error LunetteError?
---@field hints table[]?
---@field handle Handle?
---@field process table?      what process.resolve gave
---@field signals table[]?
---@field safety table
---@field warnings table?
---@field approval table?
---@field children table[]?
---@field cancelled boolean?

--- The envelope of an answer, as a table ready to be encoded.
---@param a Answer
function M.build(a)
  local handle = a.handle
  local process = a.process and (a.process.digest or a.process.resolvedProcess or a.process)
  return setmetatable({
    summary = a.summary, hints = json.array(hints.settle(a.hints or {})), data = a.data,
    error = a.error and setmetatable({ kind = a.error.kind, message = a.error.message, detail = a.error.detail }, ERROR_ORDER),
    handle = handle and handle.id, handleExpiresAt = handle and numbers.iso(handle.expires_unix_ms),
    handleExpiresInSeconds = handle and handles.seconds_left(handle),
    resolvedProcess = process, signals = M.signals(a.signals, handle), safety = a.safety, safetyWarnings = a.warnings,
    safetyApproval = a.approval, childSafety = a.children and json.array(a.children), cancelled = a.cancelled or false,
  }, ORDER)
end

-- The list of `value` that weighs most and can still be cut: its holder, key and path.
local function heaviest(value, path, best, depth)
  if type(value) ~= "table" or value == json.null or depth > 12 then return best end
  for key, item in pairs(value) do
    if type(item) == "table" and item ~= json.null then
      local where = type(key) == "string" and (path == "" and key or path .. "." .. key) or path .. "[]"
      if json.is_array(item) and #item > MIN_ROWS then
        local weight = #json.encode(item)
        if not best or weight > best.weight then best = { holder = value, key = key, path = where, weight = weight, rows = #item } end
      end
      best = heaviest(item, where, best, depth + 1)
    end
  end
  return best
end

local function copy_of(value, depth)
  if type(value) ~= "table" or value == json.null or depth > 32 then return value end
  local copy = setmetatable({}, getmetatable(value))
  for k, v in pairs(value) do copy[k] = copy_of(v, depth + 1) end
  return copy
end

local function cut_note(cuts, handle)
  local parts = {}
  for _, path in ipairs(cuts.order) do
    local cut = cuts[path]
    parts[#parts + 1] = cut.lists > 1 and ("%s (%d lists cut)"):format(path, cut.lists)
      or ("%s (%d of %d rows)"):format(path, cut.kept, cut.rows)
  end
  local rest = handle and ("the rest is behind the handle: query_snapshot(handle=%q)"):format(handle.id)
    or "narrow the question to see the rest"
  return (" Cut to fit: %s; %s."):format(text.join(parts, "and"), rest)
end

local function cut_once(data, target, cuts, least)
  local list = heaviest(data, "", nil, 0)
  if not list then return false end
  local size = list.weight
  local keep = math.max(MIN_ROWS, math.min(list.rows - 1, math.floor(list.rows * math.max(least, (size - target) / size))))
  local shorter = {}
  for i = 1, keep do shorter[i] = list.holder[list.key][i] end
  list.holder[list.key] = json.array(shorter)
  local cut = cuts[list.path]
  if not cut then
    cut = { rows = list.rows, lists = 0, holders = {} }
    cuts[list.path], cuts.order[#cuts.order + 1] = cut, list.path
  end
  if not cut.holders[list.holder] then cut.lists, cut.holders[list.holder] = cut.lists + 1, true end
  cut.kept = keep
  return true
end

local MAX_CUTS <const> = 64
-- At first a list loses half at most, so that several long ones shrink together; then whatever it takes.
local GENTLE_CUTS <const>, HALF <const>, TENTH <const> = 24, 0.5, 0.1

local function short_text(value) return type(value) == "string" and sys.utf8_cut(value, MAX_TEXT) or value end

-- A copy of an error, a hint or a signal with short texts; what is no text and long is left out.
local function short_copy(of)
  local copy = setmetatable({}, getmetatable(of))
  for name, value in pairs(of) do
    if type(value) ~= "table" or #json.encode(value) <= MAX_TEXT then
      copy[name] = short_text(value)
    elseif name == "buckets" then
      copy[name] = json.array({}) -- of a signal: always a list
    end
  end
  return copy
end

local function short_list(list)
  local out = {}
  for i, one in ipairs(list or {}) do out[i] = short_copy(one) end
  return list and json.array(out)
end

-- An answer that is too long without its data: what else a script can make long becomes short.
local function within(envelope, body)
  if #body <= M.MAX_BYTES then return body, envelope end
  if envelope.error then envelope.error = short_copy(envelope.error) end
  envelope.hints, envelope.signals = short_list(envelope.hints), short_list(envelope.signals)
  return json.encode(envelope), envelope
end

--- The envelope as JSON of at most `limit` bytes: the longest lists lose their tail, and the summary says so.
---@param envelope table
---@param limit integer
---@param handle Handle?
---@return string text, table envelope   the second is what the text says
function M.encode(envelope, limit, handle)
  envelope.summary = sys.utf8_cut(envelope.summary, MAX_SUMMARY)
  local body = json.encode(envelope)
  if #body <= limit or not envelope.data then return within(envelope, body) end
  local summary, cuts = envelope.summary, { order = {} }
  envelope.data = copy_of(envelope.data, 0)
  for i = 1, MAX_CUTS do
    if not cut_once(envelope.data, #body - limit + 256, cuts, i <= GENTLE_CUTS and HALF or TENTH) then break end
    envelope.summary = summary .. cut_note(cuts, handle)
    body = json.encode(envelope)
    if #body <= limit then return body, envelope end
  end
  envelope.data = nil
  envelope.summary = summary .. (" The answer is larger than %d bytes and no list in it can be cut%s."):format(limit,
    handle and "; ask smaller questions with query_snapshot" or "")
  return within(envelope, json.encode(envelope))
end

--- The MCP tool result of an envelope that was encoded. What is very large (a piece of a file) is there once only.
---@param body string
---@param is_error boolean
---@param has_structured? boolean   the client knows structuredContent
function M.result(body, is_error, has_structured)
  local said = body
  if has_structured and #body > M.TWICE_BYTES then said = json.encode { summary = ONCE:format(#body) } end
  return { content = json.array({ { type = "text", text = said } }), structuredContent = json.raw(body), isError = is_error or nil }
end

return M
