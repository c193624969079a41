-- SPDX-License-Identifier: MIT
--- The methods of tasks: tasks/get, tasks/update and tasks/cancel of the extension io.modelcontextprotocol/tasks (modern era); tasks/get,
--- tasks/result, tasks/list and tasks/cancel of revision 2025-11-25.

local mrtr = require("lunette.mcp.mrtr")
local protocol = require("lunette.mcp.protocol")
local run = require("lunette.mcp.run")
local session_tasks = require("lunette.mcp.session_tasks")

local M = { modern = {}, legacy = {} }

local function unknown(call) return protocol.invalid_params("Unknown task: " .. tostring(call.params.taskId)) end

-- ---- the extension ----------------------------------------------------------------------------------------------------------------

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
  if not task then return nil, unknown(call) end
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

-- ---- revision 2025-11-25 ----------------------------------------------------------------------------------------------------------

-- A method that older revisions do not have.
local function define(method, fn)
  M.legacy[method] = function(S, call)
    if call.protocol ~= protocol.LEGACY_NEWEST then return nil, protocol.error(protocol.METHOD_NOT_FOUND, "unknown method: " .. method) end
    return fn(S, call)
  end
end

-- A method about one task of the session.
local function define_for_task(method, fn)
  define(method, function(S, call)
    local task = S.tasks:get(call.params.taskId, call.principal, call.session)
    if not task then return nil, unknown(call) end
    return fn(S, call, task)
  end)
end

define_for_task("tasks/get", function(_, _, task) return session_tasks.fields(task) end)

define_for_task("tasks/result", function(_, call, task)
  if not task:is_terminal() then
    local kind, why = run.wait(call, {}, session_tasks.await, call, task)
    if kind == "cancelled" then return nil, run.CANCELLED end
    if kind ~= "result" then return nil, run.internal_error(call.method, tostring(why)) end
  end
  return session_tasks.outcome(task)
end)

define_for_task("tasks/cancel", function(_, _, task)
  if task:is_terminal() then return nil, protocol.invalid_params("the task cannot be cancelled, it has ended: " .. task.status) end
  task:cancel()
  return session_tasks.fields(task)
end)

define("tasks/list", function(S, call) return session_tasks.page(S, call) end)

return M
