-- SPDX-License-Identifier: MIT
-- Holds every answer that a live test gets against the schema that the tool declares for it: members, types, what must be there.
local fs = require("lunette.fs")
local json = require("lunette.json")
local kinds = require("lunette.kinds")
local schema = require("lunette.schema")
local sys = require("lunette.sys")
local validate = require("lunette.validate")

local M = {}

local MAX_FILE <const> = 8 * 1024 * 1024
assert(schema.load_records(sys.home .. "/schemas/records.json")) -- once: cases run side by side

local schemas = {} -- by tool, or by kind and view; false where there is none

local function of_tool(tool)
  if schemas[tool] == nil then
    local body = fs.read(("%s/schemas/tools/%s.output.json"):format(sys.home, tool), MAX_FILE)
    schemas[tool] = body and assert(json.decode(body)) or false -- a tool of a site has none
  end
  return schemas[tool]
end

-- That of the view, which says more than that of all views. A view of a site has none.
local function of_view(data)
  local kind = kinds.base(data.kind)
  if not kind or not kind.views[data.view] then return nil end
  local key = data.kind .. "/" .. data.view
  schemas[key] = schemas[key] or schema.view_output(data.kind, data.view)
  return schemas[key]
end

-- Whether a site's own branch answered, which the product's schema cannot know.
local function is_of_site(wanted, data)
  local properties = wanted.properties.data.properties
  local words = type(data) == "table" and properties and properties.kind and properties.kind.enum
  for _, word in ipairs(words or {}) do
    if word == data.kind then return false end
  end
  return words and data.kind ~= nil or false
end

--- Fails when the answer is not as declared.
---@param tool string
---@param envelope table
function M.check(tool, envelope)
  local data = type(envelope) == "table" and envelope.data
  local wanted
  if tool == "query_snapshot" then
    wanted = type(data) == "table" and data.kind and data.view and of_view(data)
  else
    wanted = of_tool(tool)
  end
  if not wanted or is_of_site(wanted, data) then return end
  local ok, faults = validate.check(envelope, wanted)
  if not ok then error(("the answer of %s is not as its schema says: %s"):format(tool, table.concat(faults, "; ")), 0) end
end

return M
