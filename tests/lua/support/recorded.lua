-- SPDX-License-Identifier: MIT
-- collect_events over a recording of tests/data/recordings, as a client calls it; the whole answer is held against its schema.
local kit = require("support.framework_kit")
local sys = require("lunette.sys")
local view = require("lunette.view")

local M = {}

--- The envelope of one kind over one recording.
---@param kind string
---@param name string   of the recording
---@param more? table   arguments
function M.collect(kind, name, more)
  local arguments = { kind = kind, traceFilePath = ("%s/tests/data/recordings/%s.nettrace"):format(sys.home, name) }
  for key, value in pairs(more or {}) do arguments[key] = value end
  local ctx = kit.ctx()
  ctx.transport = "cli"
  local collect_events = require("tools.collect_events")
  local envelope = kit.call(collect_events, arguments, ctx)
  if envelope.error then error(("%s over %s: %s"):format(kind, name, envelope.error.message), 2) end
  assert(kit.conforms(envelope, collect_events))
  return envelope
end

--- A view of the handle of such an answer.
---@param envelope table
---@param kind string   of the handle
---@param name string   of the view
---@param more? table   arguments
function M.view(envelope, kind, name, more)
  view.register(assert(loadfile(("%s/lua/views/%s/%s.lua"):format(sys.home, kind, name)))())
  local arguments = { handle = envelope.handle, view = name }
  for key, value in pairs(more or {}) do arguments[key] = value end
  local answer = kit.call(require("tools.query_snapshot"), arguments)
  if answer.error then error(("%s: %s"):format(name, answer.error.message), 2) end
  assert(kit.conforms(answer, nil, kind, name))
  return answer.data.payload
end

return M
