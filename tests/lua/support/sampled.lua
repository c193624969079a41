-- SPDX-License-Identifier: MIT
-- Sample captures over recordings, and views of them, as a client asks for them. Every answer is held against its schema.
local collect_sample = require("tools.collect_sample")
local fs = require("lunette.fs")
local handles = require("lunette.handles")
local kit = require("support.framework_kit")
local query_snapshot = require("tools.query_snapshot")
local sys = require("lunette.sys")
local view = require("lunette.view")

local M = {}

--- The path of a recording, in a zip file or not.
function M.path(name)
  local path = ("%s/tests/data/recordings/%s"):format(sys.home, name)
  return fs.stat(path .. ".zip") and path .. ".zip" or path .. ".nettrace"
end

--- A caller who may read recordings from anywhere.
function M.ctx(options)
  local ctx = kit.ctx(options)
  ctx.transport = "cli"
  return ctx
end

--- A call of collect_sample.
---@return table envelope, table result
function M.call(arguments, options)
  local envelope, result = kit.call(collect_sample, arguments, M.ctx(options))
  if envelope.data then assert(kit.conforms(envelope, collect_sample)) end
  return envelope, result
end

--- A capture of a recording: the payload, the envelope and the artifact.
---@param kind "cpu"|"allocation"
---@param name string
---@param more? table
function M.capture(kind, name, more)
  local arguments = { kind = kind, traceFilePath = M.path(name) }
  for k, v in pairs(more or {}) do arguments[k] = v end
  local envelope = M.call(arguments)
  if envelope.error then error(("%s %s: %s"):format(kind, name, envelope.error.message), 2) end
  return envelope.data[kind], envelope, assert(handles.get(envelope.handle)).artifact
end

--- A view of a handle: its data and the envelope. An error stays in the envelope.
---@param handle string
---@param name string
---@param options? table
function M.ask(handle, name, options)
  local entry = assert(handles.get(handle))
  if not view.find(entry.kind, name) then
    view.register(assert(loadfile(("%s/lua/views/%s/%s.lua"):format(sys.home, entry.kind, name)))())
  end
  local arguments = { handle = handle, view = name }
  for k, v in pairs(options or {}) do arguments[k] = v end
  local envelope = kit.call(query_snapshot, arguments, M.ctx())
  if not envelope.error then assert(kit.conforms(envelope, nil, entry.kind, name)) end
  return envelope.data, envelope
end

--- A handle around an artifact that a spec made.
function M.put(kind, artifact)
  return handles.put {
    kind = kind, artifact = artifact, origin = "trace", process_id = artifact.process_id, started_unix_ms = artifact.started_unix_ms,
    duration_ms = artifact.duration_ms,
  }.id
end

--- The row of a list whose method holds a text.
function M.row(rows, text)
  for _, row in ipairs(rows) do
    if (row.method or row.frame.method):find(text, 1, true) then return row end
  end
  return nil
end

return M
