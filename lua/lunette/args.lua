-- SPDX-License-Identifier: MIT
-- args: declared parameters: reads what a caller sent (leniently) into what a script may rely on (strictly).
local errors = require("lunette.errors")
local json = require("lunette.json")
local numbers = require("lunette.numbers")
local text = require("lunette.text")

local M = {}

local MAX_TEXT <const> = 64 * 1024 -- bytes of one text argument
local MAX_ITEMS <const> = 256      -- items of one list argument
local INT_MIN <const>, INT_MAX <const> = -2147483648, 2147483647

local TYPES <const> = {
  string = "text", int = "a whole number", long = "a whole number or 0x text", double = "a number", bool = "true or false",
  object = "an object", any = "any value", ["string[]"] = "a list of texts", ["object[]"] = "a list of objects",
}

local function trimmed(s) return (s:match("^%s*(.-)%s*$")) end

local read = {}

function read.string(value)
  if type(value) == "number" then return math.type(value) == "float" and tostring(math.tointeger(value) or value) or tostring(value) end
  if type(value) == "boolean" then return tostring(value) end
  if type(value) ~= "string" then return nil end
  if #value > MAX_TEXT then return nil, ("must be at most %d bytes long"):format(MAX_TEXT) end
  return value
end

function read.double(value)
  if type(value) == "string" then value = trimmed(value):match("^[+-]?[%d.]+[eE]?[+-]?%d*$") and tonumber(trimmed(value)) or nil end
  if type(value) ~= "number" or value ~= value or value == math.huge or value == -math.huge then return nil end
  return value
end

function read.long(value)
  if type(value) == "string" then
    local s = trimmed(value)
    if s:match("^0[xX]%x+$") then return numbers.parse_address(s) end
    value = s:match("^[+-]?%d+$") and math.tointeger(tonumber(s)) or read.double(s)
  end
  return type(value) == "number" and math.tointeger(value) or nil
end

--- Also one that is no int32, for its range to be told: as a float where it is no int64 either.
function read.int(value)
  local n = read.long(value)
  if n then return n end
  n = read.double(value)
  return n and (n < INT_MIN or n > INT_MAX) and n or nil
end

local WORDS <const> = { ["true"] = true, ["false"] = false, ["1"] = true, ["0"] = false, yes = true, no = false }
function read.bool(value)
  if type(value) == "boolean" then return value end
  local word = type(value) == "string" and trimmed(value):lower() or (math.tointeger(value) and tostring(math.tointeger(value)))
  return WORDS[word]
end

function read.any(value) return value end

local function decoded(value)
  if type(value) ~= "string" then return value end
  local parsed = json.decode(value)
  return parsed
end

function read.object(value)
  local object = decoded(value)
  if type(object) ~= "table" or object == json.null or (json.is_array(object) and next(object) ~= nil) then return nil end
  return object
end

local function list_of(read_item)
  return function(value)
    local list = value
    if type(value) == "string" then list = trimmed(value):sub(1, 1) == "[" and decoded(value) or { value } end
    if type(list) ~= "table" or list == json.null or (next(list) ~= nil and not json.is_array(list)) then return nil end
    if #list > MAX_ITEMS then return nil, ("may hold at most %d items"):format(MAX_ITEMS) end
    local out = {}
    for i, item in ipairs(list) do
      local why
      out[i], why = read_item(item)
      if out[i] == nil then return nil, why and ("item %d %s"):format(i, why) or nil end
    end
    return json.array(out)
  end
end
read["string[]"] = list_of(read.string)
read["object[]"] = list_of(read.object)

local function set_of(list)
  if not list then return nil end
  local set = {}
  for _, word in ipairs(list) do set[word] = true end
  return set
end

--- Checks a declared parameter once; gives it completed.
local function compile_one(declared, where)
  local p = {}
  for k, v in pairs(declared) do p[k] = v end
  p.name, p.type = p.name or p[1], p.type or p[2]
  if type(p.name) ~= "string" or type(p.type) ~= "string" then error(where .. ": a parameter is { \"name\", \"type\", … }", 4) end
  p.base = p.type:gsub("%?$", "")
  if not TYPES[p.base] then error(("%s: parameter %s has the unknown type %s"):format(where, p.name, p.type), 4) end
  p.applies, p.needed_for, p.refused = set_of(p.applies_to), set_of(p.required_for), set_of(p.refused_for)
  if declared.fields then
    p.fields = {}
    for i, field in ipairs(declared.fields) do p.fields[i] = compile_one(field, where .. "." .. p.name) end
  end
  return p
end

---@class Params
---@field list table[]
---@field by_name table<string, table>

--- Compiles the parameters of a tool.
---@param declared table[]
---@param where string   the tool, for messages
---@return Params
function M.compile(declared, where)
  local params = { list = {}, by_name = {}, names = {}, where = where }
  for i, one in ipairs(declared or {}) do
    local p = compile_one(one, where)
    if params.by_name[p.name] then error(where .. ": parameter " .. p.name .. " is declared twice", 3) end
    params.list[i], params.by_name[p.name], params.names[i] = p, p, p.name
  end
  return params
end

local function bad_word(p, value, words)
  return errors.invalid(p.name, ("%s must be one of %s; got %s.%s"):format(p.name, table.concat(words, ", "), text.quote(value),
    text.did_you_mean(value, words)))
end

local function match_word(p, value, words)
  value = trimmed(value)
  for _, word in ipairs(words) do
    if word == value or (p.ci and word:lower() == value:lower()) then return word end
  end
  if p.open_enum then return value end
  return nil, bad_word(p, value, words)
end

local function bound(p, name, branch)
  local by_branch = p[name .. "_by_branch"]
  local value = by_branch and branch and by_branch[branch]
  if value == nil then value = p[name] end
  return value
end

local function range_text(p, min, max)
  if p.exclusive_min then return ("above %s and at most %s"):format(p.exclusive_min, max or "anything") end
  if min and max then return ("from %s to %s"):format(min, max) end
  return min and ("at least " .. min) or ("at most " .. max)
end

--- Bounds of a number, in this order: lifted, cut, checked.
local function in_range(p, value, branch, in_task)
  local min, max = bound(p, "min", branch), bound(p, "max", branch)
  if p.base == "int" and (value < INT_MIN or value > INT_MAX) then
    if p.clamp_to and value > 0 then return p.clamp_to end
    min, max = min or INT_MIN, max or INT_MAX
  end
  if p.max_without_task and not in_task then
    if value > p.max_without_task then
      return nil, errors.invalid(p.name,
        ("%s may be at most %s unless the call runs as a task; got %s."):format(p.name, p.max_without_task, value))
    end
  end
  local floor = p.floor_by_branch and p.floor_by_branch[branch]
  local low = (min and value < min) or (p.exclusive_min and value <= p.exclusive_min)
  if low or (max and value > max) then
    return nil, errors.invalid(p.name, ("%s must be %s; got %s."):format(p.name, range_text(p, min, max), value))
  end
  if floor and value < floor then value = floor end
  if p.clamp_to and value > p.clamp_to then value = p.clamp_to end
  return value
end

local read_fields

--- One value of a parameter: read, normalised, checked.
local function value_of(p, given, branch, in_task)
  local value, why = read[p.base](given)
  if value == nil then
    return nil, errors.invalid(p.name, ("%s %s; got %s."):format(p.name, why or "must be " .. TYPES[p.base], text.quote(given)))
  end
  if p.base == "string" then
    if p.trim or p.enum then value = trimmed(value) end
    if p.lower then value = value:lower() end
    if p.enum then return match_word(p, value, p.enum) end
  elseif type(value) == "number" then
    return in_range(p, value, branch, in_task)
  elseif p.fields and p.base == "object" then
    return read_fields(p, value)
  elseif p.fields then
    for i, item in ipairs(value) do
      local fields, err = read_fields(p, item)
      if not fields then return nil, err end
      value[i] = fields
    end
  end
  return value
end

function read_fields(p, object)
  local out, names = {}, {}
  for _, field in ipairs(p.fields) do
    names[#names + 1] = field.name
    local given = object[field.name]
    if given ~= nil and given ~= json.null then
      local value, err = value_of(field, given)
      if value == nil then
        err.detail, err.message = p.name, p.name .. "." .. err.message
        return nil, err
      end
      out[field.name] = value
    elseif field.required then
      return nil, errors.invalid(p.name, ("%s.%s is required."):format(p.name, field.name))
    else
      out[field.name] = field.default
    end
  end
  for name in pairs(object) do
    local known = false
    for _, n in ipairs(names) do known = known or n == name end
    if not known then
      return nil, errors.invalid(p.name, ("%s has no member %s.%s It takes %s."):format(p.name, text.quote(name),
        text.did_you_mean(name, names), table.concat(names, ", ")))
    end
  end
  return out
end

--- The value of the discriminator, from raw arguments.
---@return string? branch, table? err
function M.branch(params, discriminator, raw, words)
  local p = params.by_name[discriminator]
  local given = raw[discriminator]
  if given == nil or given == json.null then
    if p.default ~= nil then return p.default end
    return nil, errors.invalid(discriminator, ("%s is required; it is one of %s."):format(discriminator, table.concat(words, ", ")))
  end
  local value = read.string(given)
  if not value then return nil, bad_word(p, given, words) end
  return match_word({ name = discriminator }, value, words)
end

local function check_unknown(params, raw)
  for name in pairs(raw) do
    if not params.by_name[name] then
      local list = #params.names > 0 and "It takes " .. table.concat(params.names, ", ") or "It takes none"
      return nil, errors.invalid(tostring(name),
        ("%s has no argument %s.%s %s."):format(params.where, text.quote(name), text.did_you_mean(tostring(name), params.names), list))
    end
  end
  return true
end

local function read_one(p, raw, branch, in_task, out, relevant)
  local given = raw[p.name]
  if given == json.null or (relevant and not relevant[p.name]) then given = nil end
  if p.applies and branch and not p.applies[branch] then
    if given ~= nil and (p.only or p.refused and p.refused[branch]) then
      return nil, errors.invalid(p.name, ("%s belongs to %s, not to %s."):format(p.name, text.join(p.applies_to, "and"), branch))
    end
    return true
  end
  if given == nil then
    if p.required or (p.needed_for and p.needed_for[branch]) then
      return nil, errors.invalid(p.name, ("%s is required%s."):format(p.name, branch and " for " .. branch or ""))
    end
    out.args[p.name] = bound(p, "default", branch)
    return true
  end
  local value, err = value_of(p, given, branch, in_task)
  if value == nil then return nil, err end
  out.args[p.name], out.explicit[p.name], out.given[p.name] = value, true, value
  return true
end

local function check_pairs(params, out)
  for _, p in ipairs(params.list) do
    if out.explicit[p.name] then
      for _, other in ipairs(p.excludes or {}) do
        if out.explicit[other] then return nil, errors.invalid(p.name, ("%s and %s exclude each other."):format(p.name, other)) end
      end
    elseif p.required_with and out.explicit[p.required_with] then
      return nil, errors.invalid(p.name, ("%s is required with %s."):format(p.name, p.required_with))
    elseif p.required_unless and not out.explicit[p.required_unless] then
      return nil, errors.invalid(p.name, ("%s or %s is required."):format(p.name, p.required_unless))
    end
  end
  return true
end

---@class Bound
---@field args table       name -> value, defaults filled in
---@field explicit table   name -> true for what the caller gave
---@field given table      name -> value of what the caller gave, as read

--- Reads raw arguments (already without the reserved ones).
---@param params Params
---@param raw table
---@param branch string?
---@param in_task boolean?
---@param relevant? table   set of the parameters that count for this call; the others are ignored
---@return Bound?, table? err
function M.bind(params, raw, branch, in_task, relevant)
  local ok, err = check_unknown(params, raw)
  if not ok then return nil, err end
  local out = { args = {}, explicit = {}, given = {} }
  for _, p in ipairs(params.list) do
    ok, err = read_one(p, raw, branch, in_task, out, relevant)
    if not ok then return nil, err end
  end
  ok, err = check_pairs(params, out)
  if not ok then return nil, err end
  return out
end

M.TYPES = TYPES
return M
