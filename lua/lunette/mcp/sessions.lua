-- SPDX-License-Identifier: MIT
--- Legacy sessions: what `initialize` agreed on, the requests that run, the questions that wait for the client's answer. HTTP has many,
--- each with its streams; stdio has one at a time.

local atomic = require("lunette.atomic")
local crypto = require("lunette.crypto")
local loop = require("lunette.loop")
local protocol = require("lunette.mcp.protocol")
local run = require("lunette.mcp.run")
local streams = require("lunette.mcp.streams")

local M = {}

M.MAX_SESSIONS = 1024
M.IDLE_MS = 30 * 60 * 1000       -- a session without traffic, streams and running requests ends
M.ASK_TIMEOUT_MS = 10 * 60 * 1000
M.MAX_IN_FLIGHT = 64             -- requests of one session
local MAX_QUESTIONS <const> = 32 -- open ones of one session
local SWEEP_MS <const> = 60 * 1000

---@class LegacySession
---@field id string
---@field protocol string
---@field capabilities table
---@field log_level string
---@field calls table<any, table>      by request id: what runs
---@field n_tasks integer              tasks that run for it (2025-11-25)
---@field is_closed? boolean
---@field is_ready boolean             `notifications/initialized` came, or something that can only come after it
local Session = {}
Session.__index = Session

--- A session for an `initialize` request whose params were checked.
---@param S McpServer
---@param version string
---@param params table
---@param principal table
function M.new(S, version, params, principal)
  local session = setmetatable({
    server = S, id = crypto.hex(crypto.random(16)), protocol = version, capabilities = params.capabilities or {},
    client = params.clientInfo, principal = principal, log_level = "info", calls = {}, n_calls = 0, n_uris = 0,
    questions = {}, n_questions = 0, next_question = 1, n_tasks = 0, used_ms = loop.now_ms(),
  }, Session)
  session.streams = streams.new_set(function(n) S.stats.dropped_events = S.stats.dropped_events + n end)
  session.listener = { wants = { tools = true, prompts = true, resources = true }, uris = {}, tasks = {} }
  -- Nothing is told before the client said that it is ready.
  session.listener.send = function(method, note)
    if session.is_ready then session.tell(protocol.notification_text(method, note)) end
  end
  session.tell = function(text)
    if session.streams.standalone.sink then session.streams.standalone:emit(text) end
  end
  S.hub:add(session.listener)
  return session
end

function Session:touch() self.used_ms = loop.now_ms() end

--- Enters a running request. nil, err when its id runs already or too many do.
function Session:enter(call)
  if self.calls[call.id] then return nil, protocol.error(protocol.INVALID_REQUEST, "a request with this id is still running") end
  if self.n_calls >= M.MAX_IN_FLIGHT then return nil, protocol.error(protocol.INTERNAL_ERROR, "too many requests at once") end
  self.calls[call.id], self.n_calls = call, self.n_calls + 1
  return true
end
Session.enter = atomic(Session.enter)

function Session:leave(call)
  if self.calls[call.id] ~= call then return end
  self.calls[call.id], self.n_calls = nil, self.n_calls - 1
end
Session.leave = atomic(Session.leave)

--- notifications/cancelled: unknown ids are nothing to speak of.
function Session:cancel(params)
  local call = params and params.requestId ~= nil and self.calls[params.requestId]
  if call then run.cancel(call, "the client cancelled the request") end
end

local open_question = atomic(function(session)
  local id = session.next_question
  session.next_question, session.n_questions = id + 1, session.n_questions + 1
  session.questions[id] = loop.channel(1)
  return id, session.questions[id]
end)

local close_question = atomic(function(session, id)
  if not session.questions[id] then return end
  session.questions[id], session.n_questions = nil, session.n_questions - 1
end)

--- Asks the client and waits. emit(text) sends on the stream of the call that asks. -> result, or nil, err.
function Session:ask(emit, method, params)
  if self.n_questions >= MAX_QUESTIONS then return nil, protocol.failure("LimitExceeded", "too many open questions to the client") end
  local id, answer = open_question(self)
  if not emit(protocol.request_text(id, method, params)) then
    close_question(self, id)
    return nil, protocol.failure("Cancelled", "the client cannot be asked: it reads no stream")
  end
  local reply, err = answer:recv(M.ASK_TIMEOUT_MS)
  close_question(self, id)
  if not reply then
    emit(protocol.notification_text("notifications/cancelled", { requestId = id, reason = "no longer needed" }))
    return nil, err
  end
  if reply.error ~= nil then
    local message = protocol.is_object(reply.error) and reply.error.message or "error"
    return nil, protocol.failure("ClientError", method .. ": the client answered: " .. tostring(message))
  end
  return reply.result
end

--- A response of the client.
function Session:deliver(message)
  local answer = self.questions[message.id]
  if answer then answer:send(message) end
end

--- Is anything going on?
function Session:is_busy() return self.n_calls > 0 or self.n_tasks > 0 or self.streams.standalone.sink ~= nil end

--- Ends the session: what runs is cancelled, also its tasks; streams are closed.
function Session:close(reason)
  if self.is_closed then return end
  self.is_closed, self.is_ready = true, false
  self.server.tasks:end_session(self, reason)
  self.server.hub:remove(self.listener)
  for _, call in pairs(self.calls) do run.cancel(call, reason) end
  for _, answer in pairs(self.questions) do answer:close() end
  self.streams:close()
end
Session.close = atomic(Session.close)

-- ---- the sessions of an HTTP endpoint -------------------------------------------------------------------------------------------------

---@class SessionStore
local Store = {}
Store.__index = Store

function M.new_store() return setmetatable({ sessions = {}, n = 0 }, Store) end

function Store:drop(session, reason)
  if self.sessions[session.id] ~= session then return end
  self.sessions[session.id], self.n = nil, self.n - 1
  session:close(reason)
end
Store.drop = atomic(Store.drop)

--- Ends sessions that were idle for too long.
function Store:sweep()
  local now = loop.now_ms()
  for _, session in pairs(self.sessions) do
    if not session:is_busy() and now - session.used_ms > M.IDLE_MS then self:drop(session, "the session was idle") end
  end
end
Store.sweep = atomic(Store.sweep)

local function arm(store)
  if store.timer then return end
  store.timer = loop.timer(SWEEP_MS, function()
    store.timer = nil
    store:sweep()
    if store.n > 0 then arm(store) end
  end)
end

local function drop_oldest_idle(store)
  local oldest
  for _, session in pairs(store.sessions) do
    if not session:is_busy() and (not oldest or session.used_ms < oldest.used_ms) then oldest = session end
  end
  if oldest then store:drop(oldest, "room was needed for another session") end
  return oldest ~= nil
end

--- Keeps a session. false when the store is full of busy ones.
function Store:add(session)
  if self.n >= M.MAX_SESSIONS and not drop_oldest_idle(self) then return false end
  self.sessions[session.id], self.n = session, self.n + 1
  arm(self)
  return true
end
Store.add = atomic(Store.add)

--- The session, when it is this principal's.
function Store:get(id, principal)
  local session = self.sessions[id]
  if not session or session.principal.name ~= principal.name then return nil end
  session:touch()
  return session
end

function Store:close()
  for _, session in pairs(self.sessions) do self:drop(session, "the server is stopping") end
  if self.timer then
    self.timer:cancel()
    self.timer = nil
  end
end
Store.close = atomic(Store.close)

return M
