-- SPDX-License-Identifier: MIT
--- Tasks: calls that go on after their answer. One store a process holds those of both forms: of the extension
--- io.modelcontextprotocol/tasks, which outlive connections, and of the sessions of revision 2025-11-25 (session_tasks.lua), which end with
--- their session. A task ends once (completed, failed or cancelled), stays readable for its time to live, then is gone.

local answers = require("lunette.mcp.answers")
local atomic = require("lunette.atomic")
local crypto = require("lunette.crypto")
local json = require("lunette.json")
local loop = require("lunette.loop")
local protocol = require("lunette.mcp.protocol")
local sys = require("lunette.sys")

local M = {}

local MAX_REASON <const> = 300 -- bytes of a failed call's text that its status message repeats

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
---@field session? LegacySession   the session of revision 2025-11-25 that has it; nil: one of the extension
---@field runner? table     the loop task that runs the handler
---@field waiters table[]   who waits for the end: { call=, wake=channel }
local Task = {}
Task.__index = Task

local function touch(task, status)
  if status then task.status = status end
  task.updated_ms = loop.unix_ms()
  if status then -- in an atomic section: nobody comes or goes
    for _, waiter in ipairs(task.waiters) do waiter.wake:send(true) end
  end
  task.store.changed(task, status ~= nil)
end

local function elapsed_ms(task) return loop.now_ms() - task.started_ms end

-- A task that runs long, or ended late, must stay readable: half a time to live from now at least.
local function extend(task)
  task.ttl_ms = math.max(task.ttl_ms, elapsed_ms(task) + task.asked_ttl_ms // 2)
end

--- When it was made and last changed, as ISO 8601 texts.
function Task:times() return iso8601(self.created_ms), iso8601(self.updated_ms) end

--- The members that a task of the extension has whatever its status.
function Task:fields()
  local created_at, updated_at = self:times()
  return {
    taskId = self.id, status = self.status, statusMessage = self.message, createdAt = created_at, lastUpdatedAt = updated_at,
    ttlMs = self.ttl_ms, pollIntervalMs = M.POLL_MS,
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
Task.say = atomic(Task.say)

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
  local refusal = self.refusal
  if refusal then
    self.refusal = nil
    return nil, refusal
  end
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

--- The open questions get no answer: `ask` gives nil, err.
function Task:refuse(err)
  if self.status ~= "input_required" then return end
  self.questions, self.refusal = {}, err
  touch(self, "working")
  self.wake:send(true)
end
Task.refuse = atomic(Task.refuse)

local function finish(task, status, message)
  task.questions, task.message = {}, message
  task.store.n_active = task.store.n_active - 1
  if task.session then task.session.n_tasks = task.session.n_tasks - 1 end
  extend(task)
  touch(task, status)
end

-- What an error of the tool says: its text, or the summary in it where it is an answer of the framework.
local function text_of(result)
  local block = result.content[1]
  local text = block and type(block.text) == "string" and block.text or "the tool answered with an error"
  local envelope = json.decode(text)
  if protocol.is_object(envelope) and type(envelope.summary) == "string" then text = envelope.summary end
  return #text > MAX_REASON and sys.utf8_cut(text, MAX_REASON) .. " ..." or text
end

--- Ends with what tools/call would have answered. Of the two forms only that of 2025-11-25 says failed when this is an error of the tool.
function Task:complete(result)
  if self:is_terminal() then return end
  self.result = result
  if self.session and result.isError == true then return finish(self, "failed", text_of(result)) end
  finish(self, "completed")
end
Task.complete = atomic(Task.complete)

--- Ends with a JSON-RPC error.
function Task:fail(err)
  if self:is_terminal() then return end
  self.error = { code = err.rpc_code or protocol.INTERNAL_ERROR, message = err.message, data = err.rpc_data }
  finish(self, "failed", self.session and err.message)
end
Task.fail = atomic(Task.fail)

--- Ends as cancelled and stops the handler. Nothing happens to one that ended.
function Task:cancel(reason)
  if self:is_terminal() then return end
  reason = reason or "the client cancelled the task"
  finish(self, "cancelled", self.session and reason)
  if self.runner then self.runner:cancel(reason) end
end
Task.cancel = atomic(Task.cancel)

---@class TaskStore
local Store = {}
Store.__index = Store

--- An empty store. changed(task, is_status) is called after each change that a client may see; is_status: it has another status.
function M.new_store(changed)
  return setmetatable({ tasks = {}, n = 0, n_active = 0, n_made = 0, changed = changed or function() end }, Store)
end

local watch

function watch(store, task)
  if #task.waiters > 0 and not task:is_terminal() then extend(task) end
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
---@param principal table
---@param session? LegacySession   the session that has it
---@param ttl_ms? integer          time to live when not M.TTL_MS
function Store:create(principal, session, ttl_ms)
  if session and session.is_closed then return nil, protocol.error(protocol.INTERNAL_ERROR, "the session has ended") end
  if not self:has_room() then
    return nil, protocol.error(protocol.INTERNAL_ERROR, "too many tasks: wait for one to end, or cancel one")
  end
  local now = loop.unix_ms()
  local task = setmetatable({
    store = self, id = crypto.uuid(), status = "working", principal_name = principal.name, created_ms = now, updated_ms = now,
    started_ms = loop.now_ms(), ttl_ms = ttl_ms or M.TTL_MS, asked_ttl_ms = ttl_ms or M.TTL_MS, session = session, waiters = {},
    questions = {}, given = {}, used_keys = {}, n_questions = 0, wake = loop.channel(1),
  }, Task)
  self.n_made = self.n_made + 1
  task.order = ("%015d"):format(self.n_made)
  self.tasks[task.id], self.n, self.n_active = task, self.n + 1, self.n_active + 1
  if session then session.n_tasks = session.n_tasks + 1 end
  watch(self, task)
  return task
end
Store.create = atomic(Store.create)

--- The task, when this principal may see it: in the session that has it, or without one when none has.
function Store:get(id, principal, session)
  local task = type(id) == "string" and self.tasks[id] or nil
  if not task or task.principal_name ~= principal.name or task.session ~= session then return nil end
  if not task:is_terminal() then extend(task) end
  return task
end

--- The tasks of a session, in the order in which they were made (field `order`).
function Store:of_session(session)
  local list = {}
  for _, task in pairs(self.tasks) do
    if task.session == session then list[#list + 1] = task end
  end
  table.sort(list, function(a, b) return a.order < b.order end)
  return list
end
Store.of_session = atomic(Store.of_session)

--- Ends and forgets the tasks of a session: nobody else can reach them.
function Store:end_session(session, reason)
  for _, task in ipairs(self:of_session(session)) do
    task:cancel(reason)
    if task.timer then task.timer:cancel() end
    self.tasks[task.id], self.n = nil, self.n - 1
  end
end
Store.end_session = atomic(Store.end_session)

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
