-- SPDX-License-Identifier: MIT
-- validator: checks a table against a schema, and says what is wrong with each field and what was expected. Schemas are data; see
-- lunette.declare for what a field may say.
local text = require("lunette.text")

local M = {}

local MAX_PROBLEMS <const> = 20
local MAX_DEPTH <const> = 12
local MAX_KNOWN <const> = 12 -- names in a message

local NAMES <const> = {
  string = "text", integer = "a whole number", number = "a number", boolean = "true or false", ["function"] = "a function",
  table = "a table", list = "a list", map = "a table of names and values", record = "a table", any = "any value",
}

local is = {}
function is.string(v) return type(v) == "string" end
function is.integer(v) return math.type(v) == "integer" or (type(v) == "number" and math.tointeger(v) ~= nil) end
function is.number(v) return type(v) == "number" and v == v end
function is.boolean(v) return type(v) == "boolean" end
function is.table(v) return type(v) == "table" end
function is.any(v) return v ~= nil end
is["function"] = function(v)
  local mt = type(v) == "table" and getmetatable(v)
  return type(v) == "function" or (type(mt) == "table" and mt.__call ~= nil) or false
end
function is.list(v) return type(v) == "table" and (next(v) == nil or v[1] ~= nil) end
is.map, is.record = is.table, is.table

local function shown(value)
  local kind = type(value)
  if kind == "string" then return "the text " .. text.quote(value) end
  if kind == "number" or kind == "boolean" then return tostring(value) end
  if kind == "table" then return "a table" end
  return kind == "nil" and "nothing" or "a " .. kind
end

local function expected(spec)
  local parts = {}
  for name in spec.type:gmatch("[^|]+") do
    local what = NAMES[name] or name
    if name == "list" and spec.of then
      local of = type(spec.of) == "string" and spec.of or spec.of.type
      what = "a list of " .. (({ string = "texts", number = "numbers", integer = "whole numbers", record = "tables" })[of] or of)
    end
    parts[#parts + 1] = what
  end
  return text.join(parts, "or")
end
M.expected = expected

local function member(path, key)
  if math.type(key) == "integer" then return ("%s[%d]"):format(path, key) end
  key = tostring(key)
  return path == "" and key or path .. "." .. key
end

local function field_name(spec) return spec.name or spec[1] end

--- Completes a field once: names instead of places, alternatives as a list.
local function normal(spec)
  if type(spec) == "string" then return { type = spec, kinds = { spec } } end
  if spec.kinds then return spec end
  if spec.type == nil then spec.name, spec.type = spec[1], spec[2] end
  spec.kinds = {}
  for name in spec.type:gmatch("[^|]+") do
    if not is[name] then error(("schema: unknown type %s of %s"):format(name, tostring(spec.name)), 0) end
    spec.kinds[#spec.kinds + 1] = name
  end
  return spec
end

local function fields_of(spec)
  if type(spec.fields) == "function" then spec.fields = spec.fields() end
  return spec.fields
end

local function add(out, path, message, at_key)
  if #out < MAX_PROBLEMS then out[#out + 1] = { path = path, message = message, key = at_key } end
end

local function known(fields)
  local names = {}
  for _, f in ipairs(fields) do
    if type(f[1]) == "string" then names[#names + 1] = f[1] end
  end
  table.sort(names)
  return names
end

local check_value

local function check_record(value, spec, path, out, depth)
  local fields, by_name = fields_of(spec), {}
  for _, f in ipairs(fields) do by_name[field_name(normal(f))] = f end
  local what = path == "" and spec.title or path
  for key, v in pairs(value) do
    local f = by_name[key]
    if f then
      check_value(v, f, member(path, key), out, depth + 1)
    elseif not spec.open then
      local names = known(fields)
      local message = ("there is no field %s in %s.%s"):format(text.quote(tostring(key)), what, text.did_you_mean(tostring(key), names))
      if not message:find("Did you mean", 1, true) and #names <= MAX_KNOWN then
        message = message .. " There are: " .. table.concat(names, ", ") .. "."
      end
      add(out, member(path, key), message, true)
    end
  end
  for _, f in ipairs(fields) do
    if f.required and value[field_name(f)] == nil then
      local name = type(field_name(f)) == "string" and text.quote(field_name(f)) or ("at place %d"):format(field_name(f))
      add(out, path, ("%s needs the field %s: %s%s"):format(what, name, expected(f), f.note and ", " .. f.note or ""))
    end
  end
end

local function check_list(value, spec, path, out, depth)
  local n = #value
  if spec.non_empty and n == 0 then add(out, path, "must not be empty") end
  for key, v in pairs(value) do
    if math.type(key) ~= "integer" or key < 1 or key > n then
      add(out, member(path, key), ("a list has no names, but here is %s"):format(text.quote(tostring(key))), true)
    elseif spec.of then
      check_value(v, normal(spec.of), member(path, key), out, depth + 1)
    end
  end
end

local function check_map(value, spec, path, out, depth)
  for key, v in pairs(value) do
    if type(key) ~= "string" then
      add(out, member(path, key), "names are texts here", true)
    else
      local words = spec.keys
      if type(words) == "function" then words = words() end
      local fits = not words
      for _, word in ipairs(words or {}) do fits = fits or word == key end
      if not fits then add(out, member(path, key), ("there is no %s.%s"):format(text.quote(key), text.did_you_mean(key, words)), true) end
      if spec.of then check_value(v, normal(spec.of), member(path, key), out, depth + 1) end
    end
  end
end

local function check_words(value, spec, path, out)
  local words = spec.enum
  if type(words) == "function" then words = words() end
  for _, word in ipairs(words) do
    if word == value then return end
  end
  add(out, path, ("must be one of %s; got %s.%s"):format(table.concat(words, ", "), text.quote(value),
    type(value) == "string" and text.did_you_mean(value, words) or ""))
end

local function check_scalar(value, spec, path, out)
  if spec.enum and (type(value) == "string" or type(value) == "number") then check_words(value, spec, path, out) end
  if type(value) == "string" then
    if spec.non_empty ~= false and value == "" and not spec.enum then add(out, path, "must not be empty") end
    if spec.pattern and not value:find(spec.pattern) then
      add(out, path, ("%s; got %s"):format(spec.pattern_note or "does not look as it should", text.quote(value)))
    end
    if spec.max_bytes and #value > spec.max_bytes then add(out, path, ("may be at most %d bytes long"):format(spec.max_bytes)) end
  elseif type(value) == "number" then
    if spec.min and value < spec.min then add(out, path, ("must be at least %s; got %s"):format(spec.min, value)) end
    if spec.max and value > spec.max then add(out, path, ("must be at most %s; got %s"):format(spec.max, value)) end
  end
end

function check_value(value, spec, path, out, depth)
  spec = normal(spec)
  if depth > MAX_DEPTH then return add(out, path, "is nested too deeply") end
  local kind
  for _, name in ipairs(spec.kinds) do
    if is[name](value) then
      kind = name
      break
    end
  end
  if not kind then
    local note = spec.note and (" (%s)"):format(spec.note) or ""
    return add(out, path, ("must be %s%s; got %s"):format(expected(spec), note, shown(value)))
  end
  if kind == "record" and spec.fields then
    check_record(value, spec, path, out, depth)
  elseif kind == "list" then
    check_list(value, spec, path, out, depth)
  elseif kind == "map" then
    check_map(value, spec, path, out, depth)
  else
    check_scalar(value, spec, path, out)
  end
  if spec.check then
    local why = spec.check(value)
    if why then add(out, path, why) end
  end
end

--- All that is wrong with a table: { { path, message } }, empty when nothing is.
---@param value any
---@param schema table    { title, fields, check? }
---@return table[]
function M.problems(value, schema)
  local out = {}
  if type(value) ~= "table" then return { { path = "", message = ("%s is a table; got %s"):format(schema.title, shown(value)) } } end
  schema.type = schema.type or "record"
  check_value(value, setmetatable({ check = false }, { __index = schema }), "", out, 0)
  if schema.check and #out == 0 then
    schema.check(value, function(path, message) add(out, path, message) end)
  end
  table.sort(out, function(a, b) return a.path < b.path end)
  return out
end

return M
