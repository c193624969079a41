-- SPDX-License-Identifier: MIT
--- MCP over standard input and output: one message a line, both eras interleaved, one principal (root). Requests run at the same time.

local atomic = require("lunette.atomic")
local era = require("lunette.mcp.era")
local http_legacy = require("lunette.mcp.http_legacy")
local http_modern = require("lunette.mcp.http_modern")
local json = require("lunette.json")
local lifecycle = require("lunette.mcp.methods.lifecycle")
local log = require("lunette.log")
local loop = require("lunette.loop")
local protocol = require("lunette.mcp.protocol")
local run = require("lunette.mcp.run")
local sessions = require("lunette.mcp.sessions")
local stdio = require("lunette.stdio")

local M = {}

M.MAX_LINE = 4 * 1024 * 1024
M.MAX_IN_FLIGHT = 256
M.GRACE_MS = 500 -- at the end of input, running requests may still answer for so long

---@class StdioLink
local Link = {}
Link.__index = Link

--- A link for a server. write(line) sends one message.
---@param S McpServer
---@param principal table
---@param write fun(line: string): boolean
function M.new_link(S, principal, write)
  return setmetatable({ server = S, principal = principal, write = write, calls = {}, n_calls = 0, n_listens = 0 }, Link)
end

-- ---- running requests -----------------------------------------------------------------------------------------------------------------

local function result_line(link, call)
  local text, err = link.server:dispatch(call)
  if text then return protocol.result_text(call.id, text) end
  if err == run.CANCELLED then return nil end
  return protocol.error_text(call.id, err)
end

local enter = atomic(function(link, call)
  if link.n_calls >= M.MAX_IN_FLIGHT then return nil, protocol.error(protocol.INTERNAL_ERROR, "too many requests at once") end
  if link.calls[call.id] then return nil, protocol.error(protocol.INVALID_REQUEST, "a request with this id is still running") end
  link.calls[call.id], link.n_calls = call, link.n_calls + 1
  return true
end)

local leave = atomic(function(link, call) link.calls[call.id], link.n_calls = nil, link.n_calls - 1 end)

local function start(link, call)
  local entered, err = enter(link, call)
  if not entered then return link.write(protocol.error_text(call.id, err)) end
  local line = result_line(link, call)
  leave(link, call)
  if line then link.write(line) end
  if call.on_answered then call.on_answered() end
  if link.n_calls == 0 and link.drained then link.drained:send(true) end
  return nil
end

local function notifier(link)
  return function(call, method, params)
    if call.cancelled then return false end
    return link.write(protocol.notification_text(method, params))
  end
end

local function start_modern(link, message, id)
  local call = http_modern.new_call(message, id, link.principal, "stdio")
  call.notify = notifier(link)
  function call.conclude(_, text) link.write(protocol.result_text(id, text)) end
  return start(link, call)
end

local function new_call(link, session, message, id)
  local call = http_legacy.new_call(session, message, id, link.principal, "stdio")
  call.notify = notifier(link)
  function call.request(_, method, params) return session:ask(link.write, method, params) end
  return call
end

local function initialize(link, message, id)
  local version, err = lifecycle.negotiate(message.params or {})
  if not version then return link.write(protocol.error_text(id, err)) end
  if link.session then link.session:close("the client began again") end
  local session = sessions.new(link.server, version, message.params, link.principal)
  session.tell = link.write
  link.session = session
  return start(link, new_call(link, session, message, id))
end

local function start_legacy(link, message, id)
  if message.method == "initialize" then return initialize(link, message, id) end
  if message.method == "ping" then return link.write(protocol.result_text(id, "{}")) end
  if link.session then
    link.session.is_ready = true
    return start(link, new_call(link, link.session, message, id))
  end
  local err = protocol.error(protocol.INVALID_REQUEST, "begin with initialize, or with server/discover and params._meta")
  return link.write(protocol.error_text(id, err))
end

-- ---- lines ----------------------------------------------------------------------------------------------------------------------------

local function notified(link, message)
  if message.method == "notifications/initialized" and link.session then link.session.is_ready = true end
  if message.method ~= "notifications/cancelled" or not message.params then return end
  local call = message.params.requestId ~= nil and link.calls[message.params.requestId]
  if call and call.method ~= "initialize" then run.cancel(call, "the client cancelled the request") end
end

local function batch(link, messages)
  local session = link.session
  local items, why
  if not session or session.protocol ~= "2025-03-26" then
    why = "batches do not exist in this revision"
  else
    items, why = http_legacy.read_batch(messages, nil)
  end
  if not items then return link.write(protocol.error_text(nil, protocol.error(protocol.INVALID_REQUEST, why))) end
  local texts = http_legacy.run_batch(link.server, session, items, link.principal, "stdio")
  if #texts > 0 then link.write("[" .. table.concat(texts, ",") .. "]") end
  return nil
end

--- Handles one line in the current task; nil stands for a line that was too long.
function Link:line(text)
  if text and text:find("^%s*$") then return nil end
  local message = text and json.decode(text)
  if message == nil then
    local why = text and "the line is not JSON" or "the line is longer than 4 MiB"
    return self.write(protocol.error_text(nil, protocol.error(protocol.PARSE_ERROR, why)))
  end
  if json.is_array(message) then return batch(self, message) end
  local kind, id, bad_id = era.shape(message)
  if not kind then return self.write(protocol.error_text(bad_id, id)) end
  if kind == "response" then return self.session and self.session:deliver(message) end
  if kind == "notification" then return notified(self, message) end
  local which, err = era.classify(message, nil, false)
  if not which then return self.write(protocol.error_text(id, err)) end
  if which == "modern" then return start_modern(self, message, id) end
  return start_legacy(self, message, id)
end

local cancel_all = atomic(function(link, method)
  for _, call in pairs(link.calls) do
    if not method or call.method == method then run.cancel(call, "end of input") end
  end
end)

--- The end of input: running requests get a moment, then are cancelled.
function Link:finish()
  cancel_all(self, "subscriptions/listen")
  if self.n_calls > 0 then
    self.drained = loop.channel(1)
    self.drained:recv(M.GRACE_MS)
  end
  cancel_all(self)
  if self.session then self.session:close("end of input") end
end

--- Serves until standard input ends. Waits -> true, or nil, err.
---@param S McpServer
---@param principal table
function M.serve(S, principal)
  local ended = loop.channel(1)
  local link = M.new_link(S, principal, function(line)
    local ok, err = stdio.write(line)
    if not ok then log.warning("mcp", "a message for the client was lost", { error = tostring(err) }) end
    return ok ~= nil
  end)
  local ok, err = stdio.serve({
    on_line = function(line) return link:line(line) end,
    on_eof = function() ended:send(true) end,
    max_line = M.MAX_LINE,
  })
  if not ok then return nil, err end
  ended:recv()
  link:finish()
  S:close()
  return true
end

return M
