-- SPDX-License-Identifier: MIT
-- schema: JSON Schemas from declarations: terse ones for tools/list, full ones (from schemas/records.json) for schemas/ and the tests.
local errors = require("lunette.errors")
local fs = require("lunette.fs")
local json = require("lunette.json")
local kinds = require("lunette.kinds")

local M = {}

local DRAFT <const> = "https://json-schema.org/draft/2020-12/schema"
local MAX_RECORDS_BYTES <const> = 4 * 1024 * 1024

local SCALARS <const> = {
  string = { type = "string" }, int = { type = "integer" }, uint = { type = "integer", minimum = 0 }, double = { type = "number" },
  long = { type = json.array({ "integer", "string" }) }, ulong = { type = json.array({ "integer", "string" }) },
  bool = { type = "boolean" }, datetime = { type = "string", format = "date-time" }, timespan = { type = "string", format = "timespan" },
  guid = { type = "string", format = "uuid" }, address = { type = "string", format = "address" }, any = {},
}

local INPUT_TYPES <const> = {
  string = "string", int = "integer", long = "integer", double = "number", bool = "boolean", object = "object",
  ["string[]"] = "array", ["object[]"] = "array",
}
local INPUT_ORDER <const> = { __order = { "type", "description", "enum", "default", "minimum", "maximum" } }

-- Properties and required members of an object that is declared by its fields.
local function members(fields, property)
  local properties, order, required = {}, {}, {}
  for i, p in ipairs(fields) do
    properties[p.name], order[i] = property(p), p.name
    if p.required then required[#required + 1] = p.name end
  end
  return setmetatable(properties, { __order = order }), #required > 0 and json.array(required) or nil
end

--- The schema of one input parameter, as short as it can be.
local function input_property(p)
  -- A default that depends on the branch is none that a client could fill in.
  local s = { type = INPUT_TYPES[p.base], description = p.note, minimum = p.min }
  if not p.default_by_branch then s.default = p.default end
  s.maximum = p.max or p.max_without_task
  if p.base == "string[]" then s.items = { type = "string" } end
  if p.base == "object[]" then s.items = { type = "object" } end
  if p.enum and not p.open_enum then s.enum = json.array({ table.unpack(p.enum) }) end
  if p.fields then
    local object = p.base == "object[]" and s.items or s
    object.properties, object.required = members(p.fields, input_property)
  end
  return setmetatable(s, INPUT_ORDER)
end

--- inputSchema of a tool: a plain object at its top. Limits are described here and checked in the tool, so that a breach is an answer of
--- the tool and no error of the protocol.
function M.input(tool)
  local properties, required = members(tool.params.list, input_property)
  local top = { type = "object", properties = properties, required = required }
  return setmetatable(top, { __order = { "type", "properties", "required" } })
end

local ENVELOPE <const> = {
  type = "object", required = json.array({ "summary", "hints", "cancelled" }),
  properties = {
    summary = { type = "string" }, hints = { type = "array" }, data = { type = "object" }, error = { type = "object" },
    signals = { type = "array" }, handle = { type = "string" }, safetyApproval = { type = "object" }, cancelled = { type = "boolean" },
  },
}

--- outputSchema of every tool in tools/list: the envelope only; schemas/ has the payloads.
function M.envelope() return ENVELOPE end

local loaded -- schemas/records.json, once it was needed

--- Reads the records of the wire. Nothing but schema generation and tests needs them.
---@param path string   schemas/records.json
function M.load_records(path)
  local body, err = fs.read(path, MAX_RECORDS_BYTES)
  if not body then return nil, err end
  loaded, err = json.decode(body)
  if not loaded then return nil, err end
  loaded.generic = {}
  for name, fields in pairs(loaded.records) do
    local base, parameters = name:match("^(%w+)<(.+)>$")
    if base then
      local list = {}
      for word in parameters:gmatch("%w+") do list[#list + 1] = word end
      loaded.generic[base] = { parameters = list, fields = fields }
    end
  end
  return true
end

local build -- type text -> schema

-- "A,map<B,C>" -> { "A", "map<B,C>" }
local function split_arguments(inner)
  local list, depth, start = {}, 0, 1
  for i = 1, #inner do
    local c = inner:sub(i, i)
    if c == "<" then depth = depth + 1 elseif c == ">" then depth = depth - 1 end
    if c == "," and depth == 0 then
      list[#list + 1] = inner:sub(start, i - 1):match("^%s*(.-)%s*$")
      start = i + 1
    end
  end
  list[#list + 1] = inner:sub(start):match("^%s*(.-)%s*$")
  return list
end

local function record(name, fields, defs, bind)
  if defs[name] then return { ["$ref"] = "#/$defs/" .. name } end
  local def = { type = "object", properties = {}, additionalProperties = false }
  defs[name] = def
  local required = {}
  for field, declared in pairs(fields) do
    local nullable = declared:sub(-1) == "?"
    local property = build(nullable and declared:sub(1, -2) or declared, defs, bind)
    local words = loaded.values[name .. "." .. field]
    if words and property.type == "string" then
      property = { type = "string", examples = words }
    end
    def.properties[field] = property
    if not nullable then required[#required + 1] = field end
  end
  table.sort(required)
  def.required = #required > 0 and json.array(required) or nil
  if name == "DiagnosticError" then def.properties.kind = { type = "string", enum = M.error_kinds() } end
  return { ["$ref"] = "#/$defs/" .. name }
end

local function generic(base, inner, defs, bind)
  local arguments = split_arguments(inner)
  for i, argument in ipairs(arguments) do arguments[i] = bind and bind[argument] or argument end
  if base == "map" then return { type = "object", additionalProperties = build(arguments[2], defs, bind) } end
  local g = loaded.generic[base]
  if not g then error("schema: there is no generic record " .. base) end
  local bound = {}
  for i, parameter in ipairs(g.parameters) do bound[parameter] = arguments[i] end
  return record(base .. "_" .. table.concat(arguments, "_"):gsub("%W", "_"), g.fields, defs, bound)
end

function build(type_text, defs, bind)
  if bind and bind[type_text] then type_text = bind[type_text] end
  local one, others = type_text:match("^([%w]+)|(.+)$")
  if one then return { anyOf = json.array({ build(one, defs, bind), build(others, defs, bind) }) } end
  local item = type_text:match("^(.+)%[%]$")
  if item then return { type = "array", items = build(item, defs, bind) } end
  local inner = type_text:match("^(.+)%?$")
  if inner then
    local schema = build(inner, defs, bind)
    return next(schema) == nil and schema or { anyOf = json.array({ schema, { type = "null" } }) }
  end
  if SCALARS[type_text] then return SCALARS[type_text] end
  local enum = type_text:match("^enum:(%w+)$")
  if enum then return { type = "string", enum = loaded.enums[enum] } end
  local base, arguments = type_text:match("^(%w+)<(.+)>$")
  if base then return generic(base, arguments, defs, bind) end
  local fields = loaded.records[type_text]
  if not fields then error("schema: there is no record " .. type_text) end
  return record(type_text, fields, defs)
end

--- All kinds of errors that an answer may have.
function M.error_kinds()
  local list = {}
  for kind in pairs(errors.KINDS) do list[#list + 1] = kind end
  table.sort(list)
  return json.array(list)
end

-- The envelope with that `data`.
local function whole(data, defs, title)
  local fields = {}
  for name, declared in pairs(loaded.records.DiagnosticResult) do fields[name] = name == "data" and "any?" or declared end
  record("DiagnosticResult", fields, defs)
  local result = defs.DiagnosticResult
  result.properties.data = data
  defs.DiagnosticResult = nil
  result["$schema"], result.title, result["$defs"] = DRAFT, title, defs
  return setmetatable(result, { __order = { "$schema", "title", "type", "properties", "required", "additionalProperties" } })
end

-- `data` of a tool with branches: the discriminator and one member a branch; or the record of a branch that answers it whole.
local function branched(tool, defs)
  local properties = { [tool.discriminator] = { type = "string", enum = json.array({ table.unpack(tool.branch_names) }) } }
  local choices, seen = {}, {}
  for _, value in ipairs(tool.branch_names) do
    local branch = tool.branches[value]
    for name, type_text in pairs(branch.extra or {}) do properties[name] = build(type_text, defs) end -- what extras.fields may add
    if branch.data_field then
      properties[branch.data_field] = build(branch.payload or "any", defs)
    elseif branch.payload and not seen[branch.payload] then
      seen[branch.payload] = true
      choices[#choices + 1] = build(branch.payload, defs)
    end
  end
  local own = { type = "object", properties = properties, required = json.array({ tool.discriminator }), additionalProperties = false }
  if #choices == 0 then return own end
  return { anyOf = json.array({ own, table.unpack(choices) }) }
end

--- What a view of query_snapshot answers in `data`.
---@param kind_name string
---@param view_name string
function M.view_data(kind_name, view_name, defs)
  local kind = kinds.get(kind_name)
  local view = kind.views[view_name]
  if kind.wrapper == "" or (kind.wrapper == "HeapSnapshotQueryResult" and not view.field) then return build(view.payload, defs) end
  if kind.wrapper ~= "CollectionQueryResult" then return build(kind.wrapper, defs) end
  record("CollectionQueryResult", loaded.records.CollectionQueryResult, defs)
  local properties = {}
  for name, property in pairs(defs.CollectionQueryResult.properties) do properties[name] = property end
  properties.payload = build(view.payload, defs)
  return { type = "object", properties = properties, required = defs.CollectionQueryResult.required, additionalProperties = false }
end

local function any_view(defs)
  local choices, seen = {}, {}
  for _, kind_name in ipairs(kinds.names()) do
    for _, view_name in ipairs(kinds.get(kind_name).view_names) do
      local data = M.view_data(kind_name, view_name, defs)
      local key = json.encode(data)
      if not seen[key] then
        seen[key] = true
        choices[#choices + 1] = data
      end
    end
  end
  return { anyOf = json.array(choices) }
end

--- The full schema of what a tool answers. load_records comes first.
---@param tool table
function M.output(tool)
  local defs, declared = {}, tool.declared
  local data
  if declared.views then
    data = any_view(defs)
  elseif declared.payload then
    data = build(declared.payload, defs)
  elseif tool.discriminator then
    data = branched(tool, defs)
  else
    data = build("any", defs)
  end
  return whole(data, defs, tool.name .. " (answer)")
end

--- The full schema of the answer of one view.
function M.view_output(kind_name, view_name)
  local defs = {}
  local data = M.view_data(kind_name, view_name, defs)
  return whole(data, defs, kind_name .. "/" .. view_name)
end

--- The full input schema of a tool, as tools/list has it, with its name.
function M.input_file(tool)
  local s = M.input(tool)
  s["$schema"], s.title = DRAFT, tool.name .. " (arguments)"
  return setmetatable(s, { __order = { "$schema", "title", "type", "properties", "required" } })
end

return M
