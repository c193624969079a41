-- SPDX-License-Identifier: MIT
-- validate: checks a decoded JSON value against the subset of JSON Schema that lunette.schema writes.
local json = require("lunette.json")

local M = {}

local MAX_FAULTS <const> = 20

local function type_of(value)
  if value == json.null then return "null" end
  local t = type(value)
  if t == "number" then return math.type(value) == "integer" and "integer" or "number" end
  if t == "table" then return json.is_array(value) and "array" or "object" end
  return t
end

local function type_fits(value, wanted)
  local have = type_of(value)
  if have == wanted or (wanted == "number" and have == "integer") then return true end
  if wanted == "integer" and have == "number" then return math.tointeger(value) ~= nil end
  return (wanted == "array" or wanted == "object") and have == "object" and next(value) == nil -- {} may be either in Lua
end

local FORMATS <const> = {
  ["date-time"] = "^%d%d%d%d%-%d%d%-%d%dT%d%d:%d%d:%d%d[%d.]*[Z+-]",
  timespan = "^%-?[%d.]*%d%d:%d%d:%d%d[%d.]*$",
  address = "^0x[%da-f]+$",
  uuid = "^%x+%-%x+%-%x+%-%x+%-%x+$",
}

local check

local function fault(faults, path, message)
  if #faults < MAX_FAULTS then faults[#faults + 1] = (path == "" and "(top)" or path) .. ": " .. message end
end

local function check_object(value, schema, root, path, faults)
  for _, name in ipairs(schema.required or {}) do
    if value[name] == nil then fault(faults, path, "lacks " .. name) end
  end
  for name, item in pairs(value) do
    local property = schema.properties and schema.properties[name]
    local where = path == "" and tostring(name) or path .. "." .. tostring(name)
    if property then
      check(item, property, root, where, faults)
    elseif schema.additionalProperties == false then
      fault(faults, where, "is not a member of the record")
    elseif type(schema.additionalProperties) == "table" then
      check(item, schema.additionalProperties, root, where, faults)
    end
  end
end

local function check_scalar(value, schema, path, faults)
  if schema.enum then
    local found = false
    for _, word in ipairs(schema.enum) do found = found or word == value end
    if not found then fault(faults, path, ("%s is none of its words"):format(tostring(value))) end
  end
  local pattern = schema.format and FORMATS[schema.format]
  if pattern and type(value) == "string" and not value:match(pattern) then
    fault(faults, path, ("%q is no %s"):format(value, schema.format))
  end
  if schema.minimum and type(value) == "number" and value < schema.minimum then fault(faults, path, value .. " is below the minimum") end
  if schema.maximum and type(value) == "number" and value > schema.maximum then fault(faults, path, value .. " is above the maximum") end
end

local function check_any_of(value, schema, root, path, faults)
  local best
  for _, choice in ipairs(schema.anyOf) do
    local own = {}
    check(value, choice, root, path, own)
    if #own == 0 then return end
    if not best or #own < #best then best = own end
  end
  fault(faults, path, "fits none of the choices; nearest: " .. table.concat(best, "; "))
end

function check(value, schema, root, path, faults)
  local ref = schema["$ref"]
  if ref then return check(value, root["$defs"][ref:match("([^/]+)$")], root, path, faults) end
  if schema.anyOf then check_any_of(value, schema, root, path, faults) end
  if schema.type then
    local fits = false
    for _, wanted in ipairs(type(schema.type) == "table" and schema.type or { schema.type }) do fits = fits or type_fits(value, wanted) end
    if not fits then return fault(faults, path, ("is %s, not %s"):format(type_of(value), json.encode(schema.type))) end
  end
  check_scalar(value, schema, path, faults)
  if type(value) ~= "table" or value == json.null then return nil end
  if schema.items and json.is_array(value) then
    for i, item in ipairs(value) do check(item, schema.items, root, ("%s[%d]"):format(path, i), faults) end
  elseif not json.is_array(value) then
    check_object(value, schema, root, path, faults)
  end
  return nil
end

--- true, or nil and a list of faults ("data.list[2].processId: is string, not \"integer\"").
---@param value any     a decoded JSON value
---@param schema table
---@return true?, string[]? faults
function M.check(value, schema)
  local faults = {}
  check(value, schema, schema, "", faults)
  if #faults == 0 then return true end
  return nil, faults
end

return M
