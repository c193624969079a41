-- SPDX-License-Identifier: MIT
--- Which arguments of a tool a modern HTTP client mirrors in `Mcp-Param-*` headers (`x-mcp-header` in the input schema), and whether an
--- author may ask for that. Pure: used when a tool is registered and when a call comes in.

local M = {}

local MAX_DEPTH <const> = 16
local TYPES <const> = { string = true, integer = true, boolean = true }

---@class ParamHeader
---@field path string[]     property names from the root of the arguments
---@field header string     the name after `Mcp-Param-`, as written by the author
---@field field string      the whole header name, lower-case
---@field kind "string"|"integer"|"boolean"

local function is_token(s)
  return type(s) == "string" and s ~= "" and not s:find("[^%w!#$%%&'*+%-.^_`|~]")
end

-- True when an annotation hides below something that is not a chain of `properties`: such a tool would be dropped by HTTP clients.
local function has_stray(schema, depth)
  if type(schema) ~= "table" or depth > MAX_DEPTH then return false end
  if schema["x-mcp-header"] ~= nil then return true end
  for key, child in pairs(schema) do
    if key ~= "const" and key ~= "enum" and key ~= "default" and key ~= "examples" and has_stray(child, depth + 1) then return true end
  end
  return false
end

local function check_annotation(property, path, seen)
  local header = property["x-mcp-header"]
  local where = "property '" .. table.concat(path, ".") .. "'"
  if not is_token(header) then return nil, where .. ": x-mcp-header must be a non-empty HTTP token" end
  if not TYPES[property.type] then return nil, where .. ": x-mcp-header needs type string, integer or boolean" end
  local field = "mcp-param-" .. header:lower()
  if seen[field] then return nil, where .. ": x-mcp-header '" .. header .. "' is used twice" end
  seen[field] = true
  return { path = path, header = header, field = field, kind = property.type }
end

local walk

local function walk_property(property, path, found, seen)
  if type(property) ~= "table" then return true end
  if property["x-mcp-header"] ~= nil then
    local item, why = check_annotation(property, path, seen)
    if not item then return nil, why end
    found[#found + 1] = item
  end
  return walk(property, path, found, seen)
end

function walk(schema, path, found, seen)
  if #path >= MAX_DEPTH then return true end
  for key, child in pairs(schema) do
    if key == "properties" and type(child) == "table" then
      for name, property in pairs(child) do
        local deeper = table.move(path, 1, #path, 1, {})
        deeper[#deeper + 1] = tostring(name)
        local ok, why = walk_property(property, deeper, found, seen)
        if not ok then return nil, why end
      end
    elseif key ~= "x-mcp-header" and has_stray(child, 0) then
      return nil, "x-mcp-header below '" .. tostring(key) .. "': it must be reachable through properties only"
    end
  end
  return true
end

--- The mirrored parameters of an input schema, sorted by header; nil and the reason when the author broke a rule.
---@param schema table
---@return ParamHeader[]|nil found
---@return string? why
function M.of_schema(schema)
  if schema["x-mcp-header"] ~= nil then return nil, "x-mcp-header at the root of the schema" end
  local found = {}
  local ok, why = walk(schema, {}, found, {})
  if not ok then return nil, why end
  table.sort(found, function(a, b) return a.field < b.field end)
  return found
end

return M
