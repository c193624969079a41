-- SPDX-License-Identifier: MIT
--- The tasks of revision 2025-11-25, which the client asks for (`task` in the params of tools/call) and which belong to its session: how
--- they look on the wire, where their messages go, how tasks/result waits. The tasks themselves are lunette.mcp.tasks.

local answers = require("lunette.mcp.answers")
local atomic = require("lunette.atomic")
local json = require("lunette.json")
local loop = require("lunette.loop")
local pagination = require("lunette.mcp.pagination")
local protocol = require("lunette.mcp.protocol")
local tasks = require("lunette.mcp.tasks")

local RELATED <const> = protocol.META.RELATED_TASK

local M = {}

M.MIN_TTL_MS = 1000           -- a shorter time to live would end the task before anyone can ask for it
M.MAX_TTL_MS = 60 * 60 * 1000 -- of what a client may ask for

--- What initialize says of it.
M.CAPABILITY = { list = {}, cancel = {}, requests = { tools = { call = {} } } }

--- The time to live that `params.task` asks for, within bounds; nil, err when the member is malformed.
---@param member any      JSON value, not nil
---@return integer|nil ttl_ms
---@return RpcError? err
function M.requested_ttl(member)
  if not protocol.is_object(member) then return nil, protocol.invalid_params("params.task must be an object") end
  local ttl = protocol.value(member.ttl)
  if ttl == nil then return tasks.TTL_MS end
  if type(ttl) ~= "number" or ttl ~= ttl or ttl < 0 then
    return nil, protocol.invalid_params("params.task.ttl must be a number of milliseconds, 0 or more")
  end
  return math.floor(math.max(M.MIN_TTL_MS, math.min(M.MAX_TTL_MS, ttl)))
end

--- The task as every answer about it shows it.
---@param task McpTask
---@return table
function M.fields(task)
  local created_at, updated_at = task:times()
  return {
    taskId = task.id, status = task.status, statusMessage = task.message, createdAt = created_at, lastUpdatedAt = updated_at,
    ttl = task.ttl_ms, pollInterval = tasks.POLL_MS,
  }
end

local function related(task) return { [RELATED] = { taskId = task.id } } end

-- A copy of a table whose _meta names the task, too.
local function with_related(task, plain)
  local copy, meta = setmetatable({}, getmetatable(plain)), related(task)
  for k, v in pairs(plain) do copy[k] = v end
  for k, v in pairs(plain._meta or {}) do
    if k ~= RELATED then meta[k] = v end
  end
  copy._meta = meta
  return copy
end

--- The answer to the tools/call that made the task.
function M.create_result(task) return { task = M.fields(task), _meta = related(task) } end

--- What tools/call would have answered; nil, err where it would have been a JSON-RPC error, or nothing since the task was cancelled.
---@param task McpTask     one that has ended
function M.outcome(task)
  if task.status == "cancelled" then
    return nil, protocol.invalid_params("the task has no result: " .. task.message, { taskId = task.id, status = task.status })
  end
  if task.error then return nil, protocol.error(task.error.code, task.error.message, task.error.data) end
  return with_related(task, task.result)
end

-- ---- messages -----------------------------------------------------------------------------------------------------------------------

-- On the stream of a tasks/result that waits, else on the session's own (the GET stream over HTTP): the stream of tools/call has ended.
local function tell(task, method, params)
  if task:is_terminal() then return false end
  params = with_related(task, params)
  local waiter = task.waiters[#task.waiters]
  if waiter then return waiter.call:notify(method, params) end
  task.session.listener.send(method, params)
  return true
end

local function tell_status(task)
  task.session.listener.send("notifications/tasks/status", M.fields(task))
end

-- The client knows its task now, so that it can be told of it.
local introduce = atomic(function(call, task)
  if call.cancelled then return task:cancel("the client cancelled the request that made the task") end
  task.is_known = true
  if task.status ~= "working" then tell_status(task) end
end)

--- Ties a task to the call that made it: progress and log messages go on after the call was answered, and no status is told before.
function M.take_over(call, task)
  function call.notify(_, method, params) return tell(task, method, params) end
  call.suspend = nil
  function call.on_answered() introduce(call, task) end
end

--- The task has changed; is_status: it has another status, which the client is told.
function M.changed(task, is_status)
  if is_status and task.is_known then tell_status(task) end
end

-- ---- tasks/result -------------------------------------------------------------------------------------------------------------------

-- A question that no other tasks/result is asking now -> its key, the question.
local take = atomic(function(task)
  task.asking = task.asking or {}
  for key, request in pairs(task.questions) do
    if not task.asking[key] then
      task.asking[key] = true
      return key, request
    end
  end
  return nil
end)

-- The question was not put to an end: another tasks/result may ask it.
local release = atomic(function(task, key)
  task.asking[key] = nil
  for _, waiter in ipairs(task.waiters) do waiter.wake:send(true) end
end)

-- Runs as a task of its own, since the task may end or the one who waits may give up before the client has answered.
local function ask(waiter, task, key, request)
  loop.on_cleanup(function() waiter.wake:send(true) end)
  local answer, err = waiter.call:request(request.method, with_related(task, request.params))
  if answer and answers.fits(request, answer) then return task:answer({ [key] = answer }) end
  if answer then
    err = protocol.failure("InvalidArgument", "the client's answer to " .. request.method .. " does not fit the question")
  elseif loop.cancelled() then
    return release(task, key)
  end
  return task:refuse(err)
end

-- Puts the next question to the client, one at a time.
local function ask_next(waiter, task)
  if waiter.asker and not waiter.asker:done() then return end
  local key, request = take(task)
  waiter.asker = key and loop.spawn(ask, waiter, task, key, request)
end

local join = atomic(function(task, waiter) task.waiters[#task.waiters + 1] = waiter end)

local leave = atomic(function(task, waiter)
  for i, other in ipairs(task.waiters) do
    if other == waiter then return table.remove(task.waiters, i) end
  end
  return nil
end)

--- Waits for the end of a task, and puts its questions to the client meanwhile. true, or nil, err when the waiting was cancelled.
---@param _ table       the context of run.wait
---@param call table    the tasks/result
---@param task McpTask
function M.await(_, call, task)
  local waiter = { call = call, wake = loop.channel(1) }
  join(task, waiter)
  loop.on_cleanup(function()
    leave(task, waiter)
    if waiter.asker then waiter.asker:cancel("the client does not wait any more") end
  end)
  while not task:is_terminal() do
    ask_next(waiter, task)
    local woken, err = waiter.wake:recv()
    if not woken then return nil, err end
  end
  if waiter.asker then -- it takes the question back before the stream ends
    waiter.asker:cancel("the task has ended")
    waiter.asker:await()
  end
  return true
end

-- ---- tasks/list ---------------------------------------------------------------------------------------------------------------------

--- One page of the session's tasks, the oldest first; nil, err for a cursor that is none.
function M.page(S, call)
  local list = S.tasks:of_session(call.session)
  local page, next_cursor = pagination.page(list, "order", "tasks", call.params.cursor, S.page_size)
  if not page then return nil, next_cursor end
  local rows = json.array({})
  for i, task in ipairs(page) do rows[i] = M.fields(task) end
  return { tasks = rows, nextCursor = next_cursor }
end

return M
