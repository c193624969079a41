-- SPDX-License-Identifier: MIT
-- schema: JSON Schemas from declarations (terse ones for tools/list, full ones for schemas/), and the check of a value against one.
local json = require("lunette.json")

local M = {}

local SCALARS <const> = {
  string = { type = "string" }, int = { type = "integer" }, uint = { type = "integer", minimum = 0 }, long = { type = { "integer", "string" } },
  ulong = { type = { "integer", "string" } }, double = { type = "number" }, bool = { type = "boolean" },
  datetime = { type = "string", pattern = "^%d%d%d%d%-%d%d%-%d%dT%d%d:%d%d:%d%d" }, timespan = { type = "string" }, guid = { type = "string" },
  address = { type = "string" }, any = {},
}

--- The schema of one input parameter, as short as it can be.
local function input_property(p)
  local s = { description = p.note }
  if p.base == "string" then s.type = "string"
  elseif p.base == "int" or p.base == "long" then s.type = "integer"
  elseif p.base == "double" then s.type = "number"
  elseif p.base == "bool" then s.type = "boolean"
  elseif p.base == "string[]" then s.type, s.items = "array", { type = "string" }
  elseif p.base == "object[]" then s.type, s.items = "array", { type = "object" }
  elseif p.base == "object" then s.type = "object"
  end
  if p.enum and not p.open_enum then s.enum = json.array({ table.unpack(p.enum) }) end
  s.default, s.minimum, s.maximum = p.default, p.min, p.max or p.max_without_task
  if p.fields then
    local properties, required = {}, {}
    for _, field in ipairs(p.fields) do
      properties[field.name] = input_property(field)
      if field.required then required[#required + 1] = field.name end
    end
    local object = p.base == "object[]" and s.items or s
    object.properties, object.required = properties, #required > 0 and json.array(required) or nil
  end
  return setmetatable(s, { __order = { "type", "description", "enum", "default", "minimum", "maximum" } })
end

--- inputSchema of a tool: a plain object at its top. Limits are described here and checked in the tool, so that a breach is an answer of the tool.
function M.input(tool)
  local properties, order, required = {}, {}, {}
  for i, p in ipairs(tool.params.list) do
    properties[p.name], order[i] = input_property(p), p.name
    if p.required then required[#required + 1] = p.name end
  end
  setmetatable(properties, { __order = order })
  return setmetatable({ type = "object", properties = properties, required = #required > 0 and json.array(required) or nil },
    { __order = { "type", "properties", "required" } })
end

local ENVELOPE <const> = {
  type = "object", required = json.array({ "summary", "hints", "cancelled" }),
  properties = {
    summary = { type = "string" }, hints = { type = "array", items = { type = "object" } }, data = { type = "object" },
    error = { type = "object" }, signals = { type = "array" }, handle = { type = "string" }, safety = { type = "object" },
    safetyApproval = { type = "object" }, resolvedProcess = { type = "object" }, cancelled = { type = "boolean" },
  },
}

--- outputSchema of every tool in tools/list: the envelope only; schemas/ has the payloads.
function M.envelope() return ENVELOPE end

M.SCALARS = SCALARS
return M
