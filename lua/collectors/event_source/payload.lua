-- SPDX-License-Identifier: MIT
-- The payload of an event as text values: secrets out first, then cut to a size, valid UTF-8. It is data from the target, never more.
local json = require("lunette.json")
local redaction = require("lunette.redaction")
local sys = require("lunette.sys")

local M = {}

M.MAX_VALUE = 1024   -- bytes of one value
M.MAX_EVENT = 8192   -- bytes of the values of one event
M.MAX_FIELDS = 64    -- fields of one event
local MAX_SCAN <const> = 65536 -- bytes of a value that are looked through
local MAX_DEPTH <const> = 8
local MAX_ITEMS <const> = 256  -- of a list or structure

local MIN_DOUBTFUL <const> = 8 -- bytes of a text that is a secret only by such a name
local LOOKS_SECRET <const> = ("x1"):rep(16)
local secret_names = {} -- name -> whether what it holds is a secret; names are few, the table is emptied when they are not
local n_names = 0

local function changed(probe) return redaction.redact(probe) ~= probe end

-- By the rules for assignments in text, of a name: whether what it holds is a secret, whether it is if it looks like one; and the name
-- itself without secrets.
local function about(name)
  local known = secret_names[name]
  if known == nil then
    local plain = redaction.redact(sys.utf8_sanitize(name))
    local head = sys.utf8_sanitize(name):sub(1, 96)
    known = { always = changed(head .. "=x"), maybe = changed(head .. "=" .. LOOKS_SECRET), plain = plain }
    if n_names >= 1024 then secret_names, n_names = {}, 0 end
    secret_names[name], n_names = known, n_names + 1
  end
  return known
end

local function is_secret(name, value)
  local known = about(name)
  return known.always or known.maybe and type(value) == "string" and #value >= MIN_DOUBTFUL
end

--- The name of a field, key or event as the target gave it, without secrets.
---@param name string
function M.name(name) return about(name).plain end

local function cut(text, max)
  if #text <= max then return text, false end
  return sys.utf8_cut(text, math.max(0, max - 3)) .. "...", true
end

local function clean(text)
  if #text > MAX_SCAN then text = sys.utf8_cut(text, MAX_SCAN) end
  return redaction.redact(sys.utf8_sanitize(text))
end

local safe -- (value, name, depth) -> a value that json.encode can write, without secrets

-- A list of { Key, Value } pairs, as DiagnosticSource and Extensions-Logging write arguments.
local function is_pairs(list)
  for _, item in ipairs(list) do
    if type(item) ~= "table" or type(item.Key) ~= "string" then return false end
  end
  return #list > 0
end

local function safe_table(value, name, depth)
  if depth > MAX_DEPTH then return "..." end
  local copy, n = {}, 0
  if is_pairs(value) then
    for i, item in ipairs(value) do
      if i > MAX_ITEMS then break end
      copy[M.name(item.Key)] = safe(item.Value, item.Key, depth + 1)
    end
    return copy
  end
  if #value > 0 or json.is_array(value) then
    for i = 1, math.min(#value, MAX_ITEMS) do copy[i] = safe(value[i], name, depth + 1) end
    return json.array(copy)
  end
  for key, item in pairs(value) do
    n = n + 1
    if n > MAX_ITEMS then break end
    copy[M.name(tostring(key))] = safe(item, tostring(key), depth + 1)
  end
  return copy
end

function safe(value, name, depth)
  local kind = type(value)
  if kind == "boolean" then return value end
  if value ~= nil and kind ~= "table" and is_secret(name, value) then return redaction.SENSITIVE end
  if kind == "string" then return clean(value) end
  if kind == "table" and value ~= json.null then return safe_table(value, name, depth) end
  if kind == "number" then return value == value and math.abs(value) < math.huge and value or tostring(value) end
  return json.null
end

--- Text of one value.
---@param value any
---@param name string   of its field: one that names a secret hides the value
---@return string
function M.text(value, name)
  value = safe(value, name, 0)
  if type(value) == "string" then return value end
  return json.encode(value)
end

--- The payload as a map of text values, and how many bytes it has; what was cut ends in "...".
---@param fields table<string, any>?
---@return table<string, string> payload, integer bytes
function M.of(fields)
  local names = {}
  for name in pairs(fields or {}) do names[#names + 1] = tostring(name) end
  table.sort(names)
  local payload, left = {}, M.MAX_EVENT
  for i, name in ipairs(names) do
    if i > M.MAX_FIELDS or left <= 0 then break end
    local text = cut(M.text(fields[name], name), math.min(M.MAX_VALUE, left))
    payload[M.name(name)] = text
    left = left - #text - #name
  end
  return payload, M.MAX_EVENT - left
end

return M
