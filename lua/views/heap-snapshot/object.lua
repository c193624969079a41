-- SPDX-License-Identifier: MIT
-- heap-snapshot/object: one object, field by field, read again where the heap came from. Values are shown only to whoever may see them.
local lazy = require("lunette.lazy")
local artifacts = require("heap.artifact")
local errors = require("lunette.errors")
local json = require("lunette.json")
local numbers = require("lunette.numbers")
local objects = require("heap.objects")
local sensitive = require("lunette.sensitive")
local view = require("lunette.view")
local walk = lazy("heap.walk")
local wire = require("heap.wire")

local ORDER <const> = { __order = {
  "address", "typeFullName", "size", "segmentKind", "generation", "isArray", "arrayLength", "arraySample", "isString", "stringLength",
  "stringValue", "stringValueTruncated", "fields", "warnings",
} }
local FIELD_ORDER <const> = { __order = { "index", "name", "typeFullName", "value", "objectAddress", "referencedTypeFullName" } }

-- "inner.<Key>k__BackingField" -> "inner.", "key"
local function parts_of(name)
  local prefix, last = name:match("^(.*%.)([^%.]+)$")
  last = last or name
  last = last:match("^<(.-)>") or last
  return prefix or "", last:lower():gsub("^m?_+", "")
end

-- What hides a value beside its own name: a key or name in the same object that names a secret, as in entries of a dictionary.
local function keys_of(rows)
  local keys = {}
  for _, row in ipairs(rows) do
    if row.isValue and type(row.name) == "string" and type(row.objectAddress) == "string" then
      local prefix, last = parts_of(row.name)
      if last == "key" or last == "name" then keys[prefix] = row.value end
    end
  end
  return keys
end

local function value_of(row, open, keys)
  if not row.isValue then return row.value end
  local named = type(row.name) == "string" and type(row.objectAddress) == "string" -- a text; numbers are told as they are
  if open and named then
    local prefix, last = parts_of(row.name)
    local key = last == "value" and keys[prefix]
    if key and sensitive.names_secret(key, row.value) then return sensitive.shown(row.value, open, { name = key, cut = row.cut }) end
  end
  return sensitive.shown(row.value, open, { name = named and row.name or nil, cut = row.cut })
end

local function field_of(row, open, keys)
  local reference = type(row.referencedTypeFullName) == "string" and row.referencedTypeFullName
  return setmetatable({
    index = row.index, name = row.name, typeFullName = wire.name(row.typeFullName), value = value_of(row, open, keys),
    objectAddress = type(row.objectAddress) == "string" and row.objectAddress or nil,
    referencedTypeFullName = reference and wire.name(reference) or nil,
  }, FIELD_ORDER)
end

local function fields_of(rows, open)
  if type(rows) ~= "table" then return nil end
  local list, keys = json.array({}), keys_of(rows)
  for i, row in ipairs(rows) do list[i] = field_of(row, open, keys) end
  return list
end

-- An address at which the origin has no object; a live process that ended took its objects along.
local function unread(err, entry, options)
  if err.kind == "NotFound" then return objects.none(options.address, "") end
  if err.kind ~= "ProcessNotFound" and err.kind ~= "ProcessExited" then return err end
  return errors.new("ProcessExited", ("Process %d has ended, and its objects with it. The other views of the handle still answer.")
    :format(entry.process_id), { process_id = entry.process_id })
end

return view {
  kind = "heap-snapshot", name = "object",
  project = function(artifact, options, entry, ctx)
    if artifact.origin == "gcdump" then return nil, artifacts.unavailable(artifact, "object", entry, "it holds no fields") end
    local found, err = walk.object(ctx, artifact, entry, numbers.parse_address(options.address))
    if not found then return nil, unread(err, entry, options) end
    local open = sensitive.unlocked(ctx, options.includeSensitiveValues)
    local moved = artifact.origin == "live" and not artifact.totals and not artifact.graph:object(numbers.parse_address(options.address))
    local warnings = json.array({})
    if moved then warnings[1] = "Moved: no object of the snapshot began here; this is what the process has at this address now." end
    if found.fieldsTruncated then warnings[#warnings + 1] = "FieldsTruncated: the object has more fields than are shown." end
    return setmetatable({
      address = found.address, typeFullName = wire.name(found.typeFullName), size = found.size, segmentKind = found.segmentKind,
      generation = found.generation, isArray = found.isArray, arrayLength = found.arrayLength, isString = found.isString,
      arraySample = fields_of(found.arraySample, open), stringLength = found.stringLength,
      stringValue = sensitive.shown(found.stringValue, open, { cut = found.stringValueTruncated }),
      stringValueTruncated = found.stringValueTruncated or false,
      fields = fields_of(found.fields, open), warnings = #warnings > 0 and warnings or nil,
    }, ORDER), {
      fields = { address = objects.text(options.address) },
      summary = ("%s of %d bytes in %s."):format(wire.name(found.typeFullName), found.size, found.generation),
    }
  end,
}
