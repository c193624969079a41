-- SPDX-License-Identifier: MIT
-- Rows of the reducer engine become log entries: without secrets, cut at a character, marked as nothing else than data. And the sums.
local flat_json = require("collectors.logs.flat_json")
local memo = require("collectors.memo")
local payload = require("collectors.event_source.payload")
local program = require("collectors.logs.program")
local redaction = require("lunette.redaction")
local untrusted = require("collectors.untrusted")

local M = {}

local MIN_SECRET <const> = 3 -- bytes of a value that is looked for in a message

M.MAX_NAME = 256 -- bytes of a category, the name of an event, the type of an exception
local TEMPLATE <const> = "{OriginalFormat}"

---@class LogEntryRow
---@field at_ns integer        since 1970
---@field level integer        0, Trace, to 5, Critical
---@field category string
---@field event_id integer
---@field event_name string?
---@field message string
---@field exception_type string?
---@field exception_message string?
---@field scopes table<string, string>?
---@field trace_id string?
---@field span_id string?

local function name_of(value, row_max, seen)
  if type(value) ~= "string" or value == "" then return nil end
  local known = seen and seen:get(value)
  if known then return known end
  local text = untrusted.clean(value, M.MAX_NAME, row_max)
  if seen then seen:put(value, text) end
  return text
end

-- A W3C id, or nothing.
local function id_of(value) return type(value) == "string" and value:find("^%x+$") and #value <= 32 and value or nil end

-- A member of a flat object, cleaned; one that was cut loses what may be half a secret.
local function member(object, name, bytes)
  local value, whole = flat_json.value(object, name)
  if not value then return nil end
  if not whole then value = value:gsub("%.%.%.$", "") .. "..." end
  return untrusted.clean(value, bytes, not whole and 0 or nil)
end

-- A text without the values of arguments whose names are those of secrets: within the message nothing else tells what they are.
local function without_arguments(text, arguments)
  if type(text) ~= "string" then return text end
  for _, m in ipairs(flat_json.members(arguments)) do
    local name, value, whole = m[1], m[2], m[3]
    if #value >= MIN_SECRET and name ~= TEMPLATE and payload.text(value, name) == redaction.SENSITIVE then
      if not whole then value = value:gsub("%.%.%.$", "") end
      local from = 1
      while #value >= MIN_SECRET do
        local at, last = text:find(value, from, true)
        if not at then break end
        text = text:sub(1, at - 1) .. redaction.SENSITIVE .. (whole and text:sub(last + 1) or "") -- of a cut one the rest is not known
        from = at + #redaction.SENSITIVE
      end
    end
  end
  return text
end

---@param row table                 of the program
---@param asked LogsAsked
---@param scopes table?             collectors.logs.scopes; nil: without exceptions and scopes
---@param seen table                collectors.memo
---@return LogEntryRow
function M.entry(row, asked, scopes, seen)
  local row_max = program.text_max(asked.bytes)
  local entry = {
    at_ns = row.at, level = row.level, category = name_of(row.category, row_max, seen) or "", event_id = row.id or 0,
    event_name = name_of(row.name, row_max, seen), trace_id = id_of(row.trace), span_id = id_of(row.span),
    message = row.message
      and untrusted.clean(without_arguments(row.message, row.arguments), asked.bytes, row_max)
      or member(row.arguments, TEMPLATE, asked.bytes) or "",
  }
  if not scopes then return entry end
  entry.scopes = scopes:around(row.activity)
  local kind = member(row.exception, "TypeName", M.MAX_NAME)
  if kind and kind ~= "" then entry.exception_type, entry.exception_message = kind, member(row.exception, "Message", asked.bytes) end
  return entry
end

--- Entries in order of time, oldest first.
function M.list(rows, asked, scopes)
  local list, seen = {}, memo.new()
  for i, row in ipairs(rows) do list[i] = M.entry(row, asked, scopes, seen) end
  return list
end

--- How many of each level, 0 to 5.
---@param group table
---@return table<integer, integer>
function M.levels(group)
  local counts = {}
  for level = 0, #program.LEVELS - 1 do counts[level] = 0 end
  for _, g in ipairs(group.rows) do
    if counts[g.key] then counts[g.key] = g.n end
  end
  return counts
end

local function most_first(a, b)
  if a.n ~= b.n then return a.n > b.n end
  if a.errors ~= b.errors then return a.errors > b.errors end
  return a.category < b.category
end

--- Sums by category, most first; and how many messages are of categories that were too many. Names that become equal without their
--- secrets are one.
---@param group table
---@param row_max integer
function M.categories(group, row_max)
  local rows, by_name = {}, {}
  for _, g in ipairs(group.rows) do
    local name = name_of(g.key, row_max) or ""
    local row = by_name[name]
    if not row then
      row = { category = name, n = 0, errors = 0, warnings = 0 }
      by_name[name], rows[#rows + 1] = row, row
    end
    row.n, row.errors, row.warnings = row.n + g.n, row.errors + g.errors, row.warnings + g.warnings
  end
  table.sort(rows, most_first)
  return rows, group.other and group.other.n or 0
end

return M
