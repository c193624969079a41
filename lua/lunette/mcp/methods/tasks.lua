-- SPDX-License-Identifier: MIT
--- tasks/get, tasks/update and tasks/cancel of the extension io.modelcontextprotocol/tasks (modern era).

local mrtr = require("lunette.mcp.mrtr")
local protocol = require("lunette.mcp.protocol")

local M = { modern = {} }

--- true when this request declared the tasks extension; nil, err (-32021) when not.
function M.declared(call)
  local extensions = call.capabilities.extensions
  if protocol.is_object(extensions) and extensions[protocol.TASKS_EXTENSION] ~= nil then return true end
  return nil, protocol.missing_capability({ extensions = { [protocol.TASKS_EXTENSION] = {} } })
end

local function find(S, call)
  local ok, err = M.declared(call)
  if not ok then return nil, err end
  local task = S.tasks:get(call.params.taskId, call.principal)
  if not task then return nil, protocol.invalid_params("Unknown task: " .. tostring(call.params.taskId)) end
  return task
end

M.modern["tasks/get"] = function(S, call)
  local task, err = find(S, call)
  if not task then return nil, err end
  return task:detail()
end

M.modern["tasks/update"] = function(S, call)
  local task, err = find(S, call)
  if not task then return nil, err end
  if call.params.inputResponses == nil then return nil, protocol.invalid_params("params.inputResponses must be an object") end
  local responses, why = mrtr.read_retry({ inputResponses = call.params.inputResponses })
  if not responses then return nil, why end
  task:answer(responses)
  return {}
end

M.modern["tasks/cancel"] = function(S, call)
  local task, err = find(S, call)
  if not task then return nil, err end
  task:cancel()
  return {}
end

return M
