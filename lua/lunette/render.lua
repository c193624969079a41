-- SPDX-License-Identifier: MIT
-- render: an answer as people read it: the sentence, tables of what was measured, and the next calls as lines to paste.
local json = require("lunette.json")
local terminal = require("lunette.terminal")
local text = require("lunette.text")

local M = {}

local MAX_ROWS <const> = 60   -- of one table; --json has all
local MAX_CELL <const> = 64   -- characters of a cell
local MAX_COLUMNS <const> = 9
local MAX_DEPTH <const> = 6
local INLINE_ITEMS <const> = 12
local ONE_BY_ONE <const> = 12 -- rows

-- In what no order is known of: columns and members that name a row come first, in this order; the rest follows by name.
local FIRST <const> = {
  "name", "displayName", "provider", "meter", "instrument", "signal", "processId", "id", "status", "severity", "level", "value",
  "comparison", "threshold", "unit", "count", "summary", "message", "kind", "commandLine",
}
local RANK <const> = {}
for i, key in ipairs(FIRST) do RANK[key] = i end

local function by_rank(a, b)
  local ra, rb = RANK[a] or 1000, RANK[b] or 1000
  if ra ~= rb then return ra < rb end
  return a < b
end

local function sorted_keys(object)
  local order, keys = (getmetatable(object) or {}).__order, {}
  for _, key in ipairs(order or {}) do
    if object[key] ~= nil then keys[#keys + 1] = key end
  end
  if order then return keys end
  for key in pairs(object) do keys[#keys + 1] = key end
  table.sort(keys, by_rank)
  return keys
end

local function is_scalar(value) return type(value) ~= "table" or value == json.null end

-- Text of a target, or about it, in a line of its own: no control character of it reaches the terminal.
local function plain(s) return terminal.printable((tostring(s):gsub("[%c]+", " "))) end

local function show(key, value)
  if value == json.null or value == nil then return "-" end
  if math.type(value) == "integer" and key:lower():find("bytes$") and value >= 1024 then return text.bytes(value) end
  if math.type(value) == "float" then return (("%.4g"):format(value):find("e") and ("%.2f"):format(value)) or ("%.4g"):format(value) end
  return plain(value)
end

local function width(s) return utf8.len(s) or #s end

local function cell(key, value)
  local s
  if is_scalar(value) then
    s = show(key, value)
  elseif json.is_array(value) then
    s = ("[%d]"):format(#value)
  else
    local parts = {}
    for _, k in ipairs(sorted_keys(value)) do
      if is_scalar(value[k]) then parts[#parts + 1] = k .. "=" .. show(k, value[k]) end
    end
    s = table.concat(parts, " ")
  end
  if width(s) > MAX_CELL then s = s:sub(1, (utf8.offset(s, MAX_CELL - 2) or MAX_CELL - 2) - 1) .. "..." end
  return s
end

-- The columns of a table, and the names of those that have no room in it.
local function columns_of(rows)
  local seen, columns, ordered = {}, {}, true
  for _, row in ipairs(rows) do
    ordered = ordered and (getmetatable(row) or {}).__order ~= nil
    for _, key in ipairs(sorted_keys(row)) do
      local value = row[key]
      if not seen[key] and not (type(value) == "table" and value ~= json.null and next(value) == nil) then
        seen[key], columns[#columns + 1] = true, key
      end
    end
  end
  if not ordered then table.sort(columns, by_rank) end
  return table.move(columns, 1, math.min(#columns, MAX_COLUMNS), 1, {}), table.move(columns, MAX_COLUMNS + 1, #columns, 1, {})
end

local function pad(s, n, right)
  local fill = (" "):rep(n - width(s))
  return right and fill .. s or s .. fill
end

-- A list of objects as a table.
local function add_table(out, rows, indent)
  local columns, left_out = columns_of(rows)
  local widths, numeric = {}, {}
  local shown = math.min(#rows, MAX_ROWS)
  for _, column in ipairs(columns) do
    widths[column], numeric[column] = width(column), true
    for i = 1, shown do
      widths[column] = math.max(widths[column], width(cell(column, rows[i][column])))
      local value = rows[i][column]
      numeric[column] = numeric[column] and (value == nil or type(value) == "number")
    end
  end
  local function line(get)
    local parts = {}
    for i, column in ipairs(columns) do parts[i] = pad(get(column), widths[column], numeric[column]) end
    out[#out + 1] = (indent .. table.concat(parts, "  ")):gsub("%s+$", "")
  end
  line(function(column) return column end)
  for i = 1, shown do line(function(column) return rows[i][column] == nil and "" or cell(column, rows[i][column]) end) end
  if #rows > shown then out[#out + 1] = ("%s… %d more; --json has all"):format(indent, #rows - shown) end
  if #left_out > 0 then out[#out + 1] = ("%s… and %s; --json has all"):format(indent, table.concat(left_out, ", ")) end
end

local add_object

-- Few rows that hold lists of their own are shown one by one, for a cell has no room for them.
local function one_by_one(list)
  if #list > ONE_BY_ONE then return false end
  for _, row in ipairs(list) do
    for _, value in pairs(row) do
      if type(value) == "table" and value ~= json.null and json.is_array(value) and type(value[1]) == "table" then return true end
    end
  end
  return false
end

local function add_list(out, key, list, indent, depth)
  if #list == 0 then
    out[#out + 1] = ("%s%s: none"):format(indent, key)
  elseif is_scalar(list[1]) then
    local parts, long = {}, false
    for i, item in ipairs(list) do
      parts[i] = show(key, item)
      long = long or #parts[i] > 40
    end
    if long or #parts > INLINE_ITEMS then
      out[#out + 1] = indent .. key .. ":"
      for _, part in ipairs(parts) do out[#out + 1] = indent .. "  - " .. part end
    else
      out[#out + 1] = ("%s%s: %s"):format(indent, key, table.concat(parts, ", "))
    end
  elseif json.is_array(list[1]) or depth > MAX_DEPTH then
    out[#out + 1] = ("%s%s: %s"):format(indent, key, json.encode(list))
  else
    out[#out + 1] = ("%s%s (%d):"):format(indent, key, #list)
    if not one_by_one(list) then return add_table(out, list, indent .. "  ") end
    for i, row in ipairs(list) do
      if i > 1 then out[#out + 1] = "" end
      add_object(out, row, indent .. "  ", depth + 1)
    end
  end
  return nil
end

function add_object(out, object, indent, depth)
  local keys, longest = sorted_keys(object), 0
  for _, key in ipairs(keys) do
    if is_scalar(object[key]) then longest = math.max(longest, width(key)) end
  end
  for _, key in ipairs(keys) do
    if is_scalar(object[key]) then out[#out + 1] = ("%s%s  %s"):format(indent, pad(key, longest), show(key, object[key])) end
  end
  for _, key in ipairs(keys) do
    local value = object[key]
    if not is_scalar(value) then
      if json.is_array(value) then
        add_list(out, key, value, indent, depth)
      elseif next(value) ~= nil then
        out[#out + 1] = indent .. key .. ":"
        add_object(out, value, indent .. "  ", depth + 1)
      end
    end
  end
end

local function escaped(byte) return ("\\x%02x"):format(byte:byte()) end

--- A value as it is typed on a shell's command line; what a terminal must not be given is written in escapes.
---@param value any
function M.quoted(value)
  local s = type(value) == "table" and json.encode(value) or tostring(value)
  if s:find("^[%w_%.%-%+:/,@%%]+$") then return s end
  if terminal.printable(s) ~= s then return "$'" .. s:gsub("[^%w %.,:;()<>+=/_-]", escaped) .. "'" end
  return "'" .. s:gsub("'", "'\\''") .. "'"
end

-- What chooses the branch comes first.
local CHOOSES <const> = { view = 1, kind = 2, source = 3, processId = 4 }
local function argument_order(arguments)
  local keys = text.keys(arguments)
  table.sort(keys, function(a, b)
    local ra, rb = CHOOSES[a] or 1000, CHOOSES[b] or 1000
    if ra ~= rb then return ra < rb end
    return a < b
  end)
  return keys
end

--- A call as a line to paste. A handle lives in one process only, so a question about one is chained behind the call that made it.
---@param hint table
---@param previous string?   the command line of the call that made the handle
---@param handle string?
function M.command(hint, previous, handle)
  local words, arguments = { hint.nextTool }, hint.suggestedArguments or {}
  local chained = false
  for _, key in ipairs(argument_order(arguments)) do
    local value = arguments[key]
    if previous and handle and value == handle then value, chained = "@", true end
    if key ~= "_dotnetDiagnostics" then words[#words + 1] = key .. "=" .. M.quoted(value) end
  end
  if arguments._dotnetDiagnostics then words[#words + 1] = "--approve" end
  local line = table.concat(words, " ")
  return chained and ("lunette call %s then %s"):format(previous, line) or "lunette call " .. line
end

local function heading(style, words) return style and "\27[1m" .. words .. "\27[0m" or words end

local function add_signals(out, signals, style)
  out[#out + 1] = ""
  out[#out + 1] = heading(style, "What stands out")
  for _, signal in ipairs(signals) do
    out[#out + 1] = ("  %s (%s): %s"):format(plain(signal.signal), show("", signal.salience),
      plain(signal.summary))
    for _, bucket in ipairs(signal.buckets or {}) do
      out[#out + 1] = ("    %s  %s %s"):format(plain(bucket.key), show("", bucket.magnitude), plain(bucket.unit or ""))
    end
  end
end

local function add_hints(out, hints, previous, handle, style)
  out[#out + 1] = ""
  out[#out + 1] = heading(style, "Next")
  for _, hint in ipairs(hints) do
    out[#out + 1] = "  # " .. plain(hint.reason)
    out[#out + 1] = "  " .. M.command(hint, previous, handle)
  end
end

local function process_line(p)
  local runtime = p.runtime ~= "Unknown" and p.runtime or "unknown runtime"
  return ("Process %d, %s%s%s"):format(p.processId, runtime, p.runtimeVersion and " " .. p.runtimeVersion or "",
    p.autoResolved and " (the only one)" or "")
end

--- The text of an answer.
---@param envelope table      decoded
---@param options? { style: boolean, previous: string, handle: string }   previous: this call and those before it, as typed; handle: the
---   newest of this process, which an answer that made none is about
---@return string
function M.answer(envelope, options)
  options = options or {}
  local out = { heading(options.style, plain(envelope.summary)) }
  local err = envelope.error
  if err then
    out[#out + 1] = ("%s%s"):format(plain(err.kind), type(err.detail) == "string" and " (" .. plain(err.detail) .. ")" or "")
    if err.message ~= envelope.summary then out[#out + 1] = plain(err.message) end
    if type(err.detail) == "table" then add_object(out, err.detail, "  ", 1) end
  end
  if envelope.safetyApproval then out[#out + 1] = "Repeat it with --approve to run it." end
  if envelope.resolvedProcess then out[#out + 1] = process_line(envelope.resolvedProcess) end
  for _, warning in ipairs(envelope.safetyWarnings or {}) do out[#out + 1] = "Note: " .. plain(warning) end
  if envelope.signals then add_signals(out, envelope.signals, options.style) end
  if envelope.data then
    out[#out + 1] = ""
    add_object(out, envelope.data, "", 1)
  end
  if #(envelope.hints or {}) > 0 then
    add_hints(out, envelope.hints, options.previous, envelope.handle or options.handle, options.style)
  end
  return table.concat(out, "\n") .. "\n"
end

return M
