-- SPDX-License-Identifier: MIT
--- The tasks of the extension io.modelcontextprotocol/tasks: calls that go on after their answer. One store a process: tasks outlive
--- connections. A task ends once (completed, failed or cancelled), stays readable for its time to live, then is gone.

local answers = require("lunette.mcp.answers")
local atomic = require("lunette.atomic")
local crypto = require("lunette.crypto")
local json = require("lunette.json")
local loop = require("lunette.loop")
local protocol = require("lunette.mcp.protocol")

local M = {}

M.MAX_ACTIVE = 32        -- tasks that run or wait for input
M.MAX_KEPT = 256         -- all tasks, ended ones too
M.TTL_MS = 600 * 1000    -- from the creation; grows while someone looks at a task that still runs
M.POLL_MS = 1000
local MAX_QUESTIONS <const> = 64 -- of one task
local SAY_MIN_MS <const> = 500   -- between two notifications about progress

local TERMINAL <const> = { completed = true, failed = true, cancelled = true }

local function iso8601(unix_ms)
  return os.date("!%Y-%m-%dT%H:%M:%S", unix_ms // 1000) .. string.format(".%03dZ", unix_ms % 1000)
end

---@class McpTask
---@field id string
---@field status "working"|"input_required"|"completed"|"failed"|"cancelled"
---@field principal_name string
---@field runner? table     the loop task that runs the handler
local Task = {}
Task.__index = Task

local function touch(task, status)
  if status then task.status = status end
  task.updated_ms = loop.unix_ms()
  task.store.changed(task)
end

local function elapsed_ms(task) return loop.now_ms() - task.started_ms end

-- A task that runs long, or ended late, must stay readable: half a time to live from now at least.
local function extend(task)
  task.ttl_ms = math.max(task.ttl_ms, elapsed_ms(task) + M.TTL_MS // 2)
end

--- The members that every form of a task has.
function Task:fields()
  return {
    taskId = self.id, status = self.status, statusMessage = self.message, createdAt = iso8601(self.created_ms),
    lastUpdatedAt = iso8601(self.updated_ms), ttlMs = self.ttl_ms, pollIntervalMs = M.POLL_MS,
  }
end

--- The task in full, as tasks/get and notifications/tasks show it.
function Task:detail()
  local out = self:fields()
  if self.status == "input_required" then
    out.inputRequests = self.questions
  elseif self.status == "completed" then
    out.result = self.result
  elseif self.status == "failed" then
    out.error = self.error
  end
  return out
end

function Task:is_terminal() return TERMINAL[self.status] == true end

--- Says how far it is, in the status message; subscribers are told at most twice a second.
function Task:say(progress, total, message)
  if self:is_terminal() then return end
  local share = total and string.format("%s of %s", progress, total) or tostring(progress)
  self.message = message and (message .. " (" .. share .. ")") or share
  local now = loop.now_ms()
  if now - (self.said_ms or -SAY_MIN_MS) < SAY_MIN_MS then return end
  self.said_ms = now
  touch(self)
end

local function wire_key(task, key)
  local name, n = key, 1
  while task.used_keys[name] do
    n = n + 1
    name = key .. "-" .. n
  end
  task.used_keys[name] = true
  return name
end

-- Puts the questions up -> wire key -> the handler's key; nil when they are too many.
local put_up = atomic(function(task, requests)
  local key_of = {}
  for key, request in pairs(requests) do
    task.n_questions = task.n_questions + 1
    if task.n_questions > MAX_QUESTIONS then return nil end
    local name = wire_key(task, key)
    key_of[name], task.questions[name] = key, request
  end
  if not TERMINAL[task.status] then touch(task, "input_required") end
  return key_of
end)

--- Shows questions (key -> {method, params}) and waits until tasks/update answered them all -> key -> answer, or nil, err.
function Task:ask(requests)
  local key_of = put_up(self, requests)
  if not key_of then return nil, protocol.failure("LimitExceeded", "this task asks too many questions") end
  local woken, err = self.wake:recv()
  if not woken then return nil, err end
  local results = {}
  for name, key in pairs(key_of) do results[key] = self.given[name] end
  return results
end

--- Takes answers; unknown, answered and unfit ones are left aside.
function Task:answer(responses)
  if self.status ~= "input_required" then return end
  local taken = false
  for name, answer in pairs(responses) do
    local question = self.questions[name]
    if question and answers.fits(question, answer) then
      self.given[name], self.questions[name], taken = answer, nil, true
    end
  end
  if not taken then return end
  if next(self.questions) then return touch(self) end
  touch(self, "working")
  self.wake:send(true)
end
Task.answer = atomic(Task.answer)

local function finish(task, status)
  task.questions, task.message = {}, nil
  task.store.n_active = task.store.n_active - 1
  extend(task)
  touch(task, status)
end

--- Ends with what tools/call would have answered.
function Task:complete(result)
  if self:is_terminal() then return end
  self.result = result
  finish(self, "completed")
end
Task.complete = atomic(Task.complete)

--- Ends with a JSON-RPC error.
function Task:fail(err)
  if self:is_terminal() then return end
  self.error = { code = err.rpc_code or protocol.INTERNAL_ERROR, message = err.message, data = err.rpc_data }
  finish(self, "failed")
end
Task.fail = atomic(Task.fail)

--- Ends as cancelled and stops the handler. Nothing happens to one that ended.
function Task:cancel(reason)
  if self:is_terminal() then return end
  finish(self, "cancelled")
  if self.runner then self.runner:cancel(reason or "the client cancelled the task") end
end
Task.cancel = atomic(Task.cancel)

---@class TaskStore
local Store = {}
Store.__index = Store

--- An empty store. changed(task) is called after each change that a client may see.
function M.new_store(changed)
  return setmetatable({ tasks = {}, n = 0, n_active = 0, changed = changed or function() end }, Store)
end

local watch

function watch(store, task)
  local left = task.ttl_ms - elapsed_ms(task)
  if left > 0 then
    task.timer = loop.timer(left, function() watch(store, task) end)
    return
  end
  task:cancel("the task outlived its time to live")
  if store.tasks[task.id] then store.tasks[task.id], store.n = nil, store.n - 1 end
end
watch = atomic(watch)

--- True while there is room for another task.
function Store:has_room() return self.n_active < M.MAX_ACTIVE and self.n < M.MAX_KEPT end

--- A new task in state working, readable at once; nil, err when the store is full.
function Store:create(principal)
  if not self:has_room() then
    return nil, protocol.error(protocol.INTERNAL_ERROR, "too many tasks: wait for one to end, or cancel one")
  end
  local now = loop.unix_ms()
  local task = setmetatable({
    store = self, id = crypto.uuid(), status = "working", principal_name = principal.name, created_ms = now, updated_ms = now,
    started_ms = loop.now_ms(), ttl_ms = M.TTL_MS, questions = {}, given = {}, used_keys = {}, n_questions = 0, wake = loop.channel(1),
  }, Task)
  self.tasks[task.id], self.n, self.n_active = task, self.n + 1, self.n_active + 1
  watch(self, task)
  return task
end
Store.create = atomic(Store.create)

--- The task, when this principal may see it.
function Store:get(id, principal)
  local task = type(id) == "string" and self.tasks[id] or nil
  if not task or task.principal_name ~= principal.name then return nil end
  if not task:is_terminal() then extend(task) end
  return task
end

--- Stops all that runs (at the end of the process).
function Store:close()
  for _, task in pairs(self.tasks) do
    task:cancel("the server is stopping")
    if task.timer then task.timer:cancel() end
  end
end
Store.close = atomic(Store.close)

--- An empty acknowledgement.
M.ACK = json.raw('{"resultType":"complete"}')

return M
