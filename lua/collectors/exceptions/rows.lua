-- SPDX-License-Identifier: MIT
-- Exceptions as they are kept and as they look on the wire: what is told of one throw, counts by type, throw sites.
local json = require("lunette.json")
local numbers = require("lunette.numbers")
local probe = require("lunette.probe")
local redaction = require("lunette.redaction")
local sys = require("lunette.sys")

local M = {}

M.PROVIDER = probe.RUNTIME
M.THROW = M.PROVIDER .. "/Exception/Start" -- ExceptionThrown_V1: every throw, handled later or not
M.UNKNOWN_TYPE = "<unknown>"
M.NEEDS = "the runtime's keyword Exception (0x8000)"
M.MAX_TYPES = 4096     -- told apart; the rest is counted together
M.MAX_ROWS = 100000    -- kept of single throws, whatever maxRecent asks
M.MAX_SITES = 100      -- kept of throw sites
-- How much of a throw is shown: in a row of many, and in a short answer. Elsewhere all of it.
M.ROW = { frames = 12, frame_bytes = 400, message_bytes = 4096 }
M.SHORT = { frames = 8, frame_bytes = 200, message_bytes = 512 }
local WHOLE <const> = { frames = math.huge, frame_bytes = math.huge, message_bytes = math.huge }
-- The runtime's own frames between the throw and the one who threw: managed exception handling of .NET 9 and later.
M.MACHINERY = { "System.Runtime.EH." }

local DEFAULT_ROWS <const> = 100

local CUT <const> = "..."
local CUT_AT <const> = 4096 -- bytes after which the engine cuts a text
local MAX_WORD <const> = 512

-- ExceptionFlags of the event, as a reader knows them. 0x10 (CLS compliant) says nothing.
local FLAGS <const> = { { 0x1, "hasInner" }, { 0x2, "nested" }, { 0x4, "rethrown" }, { 0x8, "corruptedState" } }

--- How many single throws to keep of those asked for.
---@param args { maxRecent: integer? }
function M.kept(args) return math.min(args.maxRecent or DEFAULT_ROWS, M.MAX_ROWS) end

--- "1 exception (1 type)".
---@param n integer
---@param types integer
function M.amount(n, types)
  return ("%d exception%s (%d type%s)"):format(n, n == 1 and "" or "s", types, types == 1 and "" or "s")
end

--- What is kept of a throw; `let` names of the program must not hide the fields.
---@param more table?   further columns
function M.columns(more)
  local row = {
    at = "@unix", type = "ExceptionType", message = "ExceptionMessage", hresult = "ExceptionHRESULT", flags = "ExceptionFlags",
    thread = "@thread", stack = "@stack",
  }
  for name, expression in pairs(more or {}) do row[name] = expression end
  return row
end

--- The reducer of counts by type.
function M.by_type(on)
  return probe.group { on = on, by = { type = "ExceptionType" }, max = M.MAX_TYPES, top = M.MAX_TYPES, keep = { n = probe.count() } }
end

--- The reducer of counts by type and innermost frame.
function M.sites(on)
  return probe.group {
    on = on, by = { type = "ExceptionType", stack = "@stack" }, frames = { skip = M.MACHINERY, depth = 1 }, top = M.MAX_SITES,
    keep = { n = probe.count() },
  }
end

-- ---- from the engine -------------------------------------------------------------------------------------------------------------

local function machinery(name)
  for _, prefix in ipairs(M.MACHINERY) do
    if name:sub(1, #prefix) == prefix then return true end
  end
  return false
end

--- The frames of a stack as text, innermost first; nil when none of them has a name.
---@param stack { frames: { name: string?, address: integer }[] }?
---@return string[]?
function M.frames(stack)
  local list, named = {}, false
  for _, frame in ipairs(stack and stack.frames or {}) do
    if not (frame.name and #list == 0 and machinery(frame.name)) then
      named = named or frame.name ~= nil
      list[#list + 1] = frame.name or numbers.address(frame.address or 0)
    end
  end
  return named and list or nil
end

--- A message as it may be kept: without secrets. A text that was cut loses its last word first, since half a secret is not recognised.
---@param text string?
---@return string
function M.message(text)
  if type(text) ~= "string" or text == "NULL" then return "" end -- the event's word for an exception without a message of its own
  local was_cut = #text >= CUT_AT and text:sub(-#CUT) == CUT
  if was_cut then
    local from = math.max(1, #text - #CUT - MAX_WORD)
    local blank = text:sub(from, -#CUT - 1):match(".*()%s")
    text = blank and text:sub(1, from + blank - 1) or text:sub(1, from)
  end
  text = redaction.redact(text)
  return was_cut and text .. CUT or text
end

-- A recording may describe the event as it likes.
local function type_of(value) return type(value) == "string" and value or M.UNKNOWN_TYPE end

local function flags_of(bits)
  local list = {}
  for _, flag in ipairs(FLAGS) do
    if math.type(bits) == "integer" and bits & flag[1] ~= 0 then list[#list + 1] = flag[2] end
  end
  return #list > 0 and list or nil
end

---@class ThrownException
---@field at_ms number         Unix time, milliseconds
---@field type string
---@field message string       without secrets
---@field hresult integer      32 bits
---@field flags string[]?      hasInner, nested, rethrown, corruptedState
---@field thread integer       the kernel's id
---@field frames string[]?     innermost first

--- One throw from a row of the engine.
---@param raw table
---@param stacks table[]   of the result
---@return ThrownException
function M.of(raw, stacks)
  return {
    at_ms = (raw.at or 0) / 1e6, type = type_of(raw.type), message = M.message(raw.message),
    hresult = (math.tointeger(raw.hresult) or 0) & 0xFFFFFFFF, flags = flags_of(raw.flags), thread = raw.thread or 0,
    frames = raw.stack and M.frames(stacks[raw.stack]) or nil,
  }
end

--- All rows of a `first` or `last`.
function M.list(rows, stacks)
  local list = {}
  for i, raw in ipairs(rows) do list[i] = M.of(raw, stacks) end
  return list
end

--- Counts by type, most frequent first, equal ones by name; and how many throws are of types that were not told apart.
---@return { type: string, n: integer }[], integer
function M.counts(group)
  local list = {}
  for i, row in ipairs(group.rows) do list[i] = { type = type_of(row.type), n = row.n } end
  table.sort(list, function(a, b)
    if a.n ~= b.n then return a.n > b.n end
    return a.type < b.type
  end)
  return list, group.other and group.other.n or 0
end

--- How long the window was: of a recording its own length.
function M.duration_ms(source, result)
  local window = result.window
  return source.path and (window.summary.duration_ns or 0) / 1e6 or window.elapsed_ms
end

--- Throw sites, most frequent first: of those whose innermost frame has a name; and how many throws have one.
---@return { type: string, frame: string, n: integer }[], integer resolved
function M.throw_sites(group, stacks)
  local list, resolved = {}, 0
  for _, row in ipairs(group.rows) do
    local frames = row.stack and M.frames(stacks[row.stack])
    if frames then
      resolved = resolved + row.n
      list[#list + 1] = { type = type_of(row.type), frame = frames[1], n = row.n }
    end
  end
  table.sort(list, function(a, b)
    if a.n ~= b.n then return a.n > b.n end
    if a.type ~= b.type then return a.type < b.type end
    return a.frame < b.frame
  end)
  return list, resolved
end

-- ---- to the wire -----------------------------------------------------------------------------------------------------------------

local COUNT_ORDER <const> = { __order = { "exceptionType", "count" } }
local SITE_ORDER <const> = { __order = { "exceptionType", "frame", "count" } }
local ROW_ORDER <const> = {
  __order = { "timestamp", "exceptionType", "exceptionMessage", "exceptionHResult", "threadId", "flags", "stack" },
}

local function first(list, limit, map)
  local rows = json.array({})
  for i = 1, math.min(#list, limit or #list) do rows[i] = map(list[i]) end
  return rows
end

local function cut(text, bytes)
  return #text <= bytes and text or sys.utf8_cut(text, bytes - #CUT) .. CUT
end

--- The first frames; the last line says how many more there are.
local function wire_frames(frames, limits)
  if not frames then return nil end
  local list = json.array({})
  for i = 1, math.min(#frames, limits.frames) do list[i] = cut(frames[i], limits.frame_bytes) end
  if #frames > #list then list[#list + 1] = ("(%d more)"):format(#frames - #list) end
  return list
end

--- ExceptionCount rows.
function M.wire_counts(counts, limit)
  return first(counts, limit, function(c) return setmetatable({ exceptionType = c.type, count = c.n }, COUNT_ORDER) end)
end

--- ExceptionThrowSite rows.
function M.wire_sites(sites, limit)
  return first(sites, limit, function(s) return setmetatable({ exceptionType = s.type, frame = s.frame, count = s.n }, SITE_ORDER) end)
end

--- ManagedExceptionEvent, which is also CrashGuardException; nil for nil.
---@param e ThrownException?
---@param limits table?   M.ROW, M.SHORT; nil: all of it
function M.wire_row(e, limits)
  if not e then return nil end
  limits = limits or WHOLE
  return setmetatable({
    timestamp = numbers.iso(e.at_ms), exceptionType = e.type, exceptionMessage = cut(e.message, limits.message_bytes),
    exceptionHResult = ("0x%08X"):format(e.hresult),
    threadId = e.thread, flags = e.flags and json.array({ table.unpack(e.flags) }), stack = wire_frames(e.frames, limits),
  }, ROW_ORDER)
end

function M.wire_rows(list, limit)
  return first(list, limit, function(e) return M.wire_row(e, M.ROW) end)
end

return M
