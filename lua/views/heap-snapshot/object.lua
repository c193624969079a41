-- SPDX-License-Identifier: MIT
-- heap-snapshot/object: one object, field by field, read again where the heap came from. Values are shown only to whoever may see them.
local lazy = require("lunette.lazy")
local artifacts = require("heap.artifact")
local errors = require("lunette.errors")
local json = require("lunette.json")
local numbers = require("lunette.numbers")
local sensitive = require("lunette.sensitive")
local view = require("lunette.view")
local walk = lazy("heap.walk")
local wire = require("heap.wire")

local ORDER <const> = { __order = {
  "address", "typeFullName", "size", "segmentKind", "generation", "isArray", "arrayLength", "arraySample", "isString", "stringLength",
  "stringValue", "stringValueTruncated", "fields", "warnings",
} }
local FIELD_ORDER <const> = { __order = { "index", "name", "typeFullName", "value", "objectAddress", "referencedTypeFullName" } }

local function field_of(row, open)
  local reference = type(row.referencedTypeFullName) == "string" and row.referencedTypeFullName
  return setmetatable({
    index = row.index, name = row.name, typeFullName = wire.name(row.typeFullName),
    value = row.isValue and sensitive.shown(row.value, open) or row.value,
    objectAddress = type(row.objectAddress) == "string" and row.objectAddress or nil,
    referencedTypeFullName = reference and wire.name(reference) or nil,
  }, FIELD_ORDER)
end

local function fields_of(rows, open)
  if type(rows) ~= "table" then return nil end
  local list = json.array({})
  for i, row in ipairs(rows) do list[i] = field_of(row, open) end
  return list
end

-- A live process that ended took its objects along.
local function gone(err, entry)
  if err.kind ~= "ProcessNotFound" and err.kind ~= "ProcessExited" then return err end
  return errors.new("ProcessExited", ("Process %d has ended, and its objects with it. The other views of the handle still answer.")
    :format(entry.process_id), { process_id = entry.process_id })
end

return view {
  kind = "heap-snapshot", name = "object",
  project = function(artifact, options, entry, ctx)
    if artifact.origin == "gcdump" then return nil, artifacts.unavailable(artifact, "object", entry, "it holds no fields") end
    local found, err = walk.object(ctx, artifact, entry, numbers.parse_address(options.address))
    if not found then return nil, gone(err, entry) end
    local open = sensitive.unlocked(ctx, options.includeSensitiveValues)
    local moved = artifact.origin == "live" and not artifact.graph:object(numbers.parse_address(options.address))
    local warnings = json.array({})
    if moved then warnings[1] = "Moved: no object of the snapshot began here; this is what the process has at this address now." end
    if found.fieldsTruncated then warnings[#warnings + 1] = "FieldsTruncated: the object has more fields than are shown." end
    return setmetatable({
      address = found.address, typeFullName = wire.name(found.typeFullName), size = found.size, segmentKind = found.segmentKind,
      generation = found.generation, isArray = found.isArray, arrayLength = found.arrayLength, isString = found.isString,
      arraySample = fields_of(found.arraySample, open), stringLength = found.stringLength,
      stringValue = sensitive.shown(found.stringValue, open), stringValueTruncated = found.stringValueTruncated or false,
      fields = fields_of(found.fields, open), warnings = #warnings > 0 and warnings or nil,
    }, ORDER), {
      fields = { address = options.address },
      summary = ("%s of %d bytes in %s."):format(wire.name(found.typeFullName), found.size, found.generation),
    }
  end,
}
