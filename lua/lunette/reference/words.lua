-- SPDX-License-Identifier: MIT
-- The reference of the words that site files declare with, from their schemas.
local md = require("lunette.reference.markdown")

local M = {}

local MAX_DEPTH <const> = 4

local function fields_of(field)
  local fields = field.fields
  if type(fields) == "function" then fields = fields() end
  return fields
end

local function enum_of(field)
  local enum = field.enum
  if type(enum) == "function" then enum = enum() end
  return enum
end

-- The record that items of a list or values of a map are; nil for plain ones.
local function item_of(field)
  local of = field.of
  return type(of) == "table" and of or nil
end

local function type_text(field)
  local of = item_of(field)
  local base = (field.type or field[2] or "any"):gsub("|", " or ")
  local inner = type(field.of) == "string" and field.of or of and (of.type or of[2])
  return inner and ("%s of %s"):format(base, inner:gsub("|", " or ")) or base
end

local function limits_text(field)
  local parts, enum = {}, enum_of(field)
  if field.required then parts[#parts + 1] = "required" end
  if enum then parts[#parts + 1] = "one of " .. md.codes(enum) end
  if field.min or field.max then parts[#parts + 1] = ("%s to %s"):format(field.min or "any", field.max or "any") end
  if field.pattern_note then parts[#parts + 1] = field.pattern_note end
  return table.concat(parts, "; ")
end

local rows_of

-- The rows of the fields inside a field. The same fields are told once: parameters hold parameters, conditions stand in many places.
local function inner_rows(field, path, depth, rows, told)
  local item = item_of(field)
  local holder = item and item.fields and item or field
  if not holder.fields then return end
  local first = told[holder.fields]
  if first then
    rows[#rows][3] = rows[#rows][3] .. (rows[#rows][3] == "" and "" or "; ") .. "fields as in " .. md.code(first)
  elseif depth < MAX_DEPTH then
    told[holder.fields] = path
    local suffix = holder == field and "" or (field.type or field[2]):find("map", 1, true) and ".NAME" or "[]"
    rows_of(fields_of(holder), path .. suffix, depth + 1, rows, told)
  end
end

function rows_of(fields, prefix, depth, rows, told)
  for _, field in ipairs(fields or {}) do
    local name = field.name or field[1]
    local path = type(name) == "number" and ("%s[%d]"):format(prefix, name) or (prefix == "" and name or prefix .. "." .. name)
    rows[#rows + 1] = { md.code(path), type_text(field), field.note or "", limits_text(field) }
    inner_rows(field, path, depth, rows, told)
  end
end

--- Every word with its fields.
---@param declare table   lunette.declare
---@return string[] lines
function M.render(declare)
  local out = {}
  for _, kind in ipairs(declare.kinds()) do
    local schema, rows = declare.SCHEMAS[kind], {}
    rows_of(schema.fields, "", 1, rows, {})
    md.add(out, "## " .. kind, "", ("%s declares %s; files in %s/."):format(md.code(kind .. " { … }"), schema.title,
      schema.room) .. (schema.note and " " .. schema.note or ""), "", md.table({ "Field", "Type", "Meaning", "Values" }, rows), "")
  end
  return out
end

return M
