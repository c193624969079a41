-- SPDX-License-Identifier: MIT
-- Asks a view of an artifact as a client does, through query_snapshot, and holds the whole answer against its schema.
local handles = require("lunette.handles")
local kit = require("support.framework_kit")
local query_snapshot = require("tools.query_snapshot")
local schema = require("lunette.schema")
local sys = require("lunette.sys")
local validate = require("lunette.validate")
local view = require("lunette.view")

local M = {}

--- The payload of a view, and the envelope around it.
---@param kind string       of the handle
---@param artifact table
---@param name string       of the view
---@param options? table
function M.view(kind, artifact, name, options)
  view.register(assert(loadfile(("%s/lua/views/%s/%s.lua"):format(sys.home, kind, name)))())
  local handle = handles.put {
    kind = kind, artifact = artifact, origin = artifact.origin or "trace", process_id = artifact.process_id,
    started_unix_ms = artifact.started_unix_ms, duration_ms = artifact.duration_ms,
  }
  local arguments = { handle = handle.id, view = name }
  for key, value in pairs(options or {}) do arguments[key] = value end
  local envelope = kit.call(query_snapshot, arguments)
  if envelope.error then error(("%s/%s: %s"):format(kind, name, envelope.error.message), 2) end
  assert(kit.conforms(envelope, nil, kind, name))
  return envelope.data.payload, envelope
end

--- Holds a payload, as it is before it is encoded, against its record in schemas/records.json.
---@param payload table
---@param record string
function M.fits(payload, record)
  local json = require("lunette.json")
  assert(schema.load_records(sys.home .. "/schemas/records.json"))
  local wanted = schema.output { name = record, declared = { payload = record } }
  local envelope = { summary = "x", hints = json.array {}, cancelled = false, data = payload }
  local ok, faults = validate.check(assert(json.decode(json.encode(envelope))), wanted)
  if not ok then error(record .. ": " .. table.concat(faults, "; "), 2) end
end

return M
