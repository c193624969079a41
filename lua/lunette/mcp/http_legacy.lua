-- SPDX-License-Identifier: MIT
--- The legacy side of the HTTP endpoint (2025-11-25 and older): sessions, resumable streams, questions to the client, and the batches of
--- 2025-03-26.

local era = require("lunette.mcp.era")
local guard = require("lunette.mcp.guard")
local headers_of = require("lunette.mcp.headers")
local lifecycle = require("lunette.mcp.methods.lifecycle")
local loop = require("lunette.loop")
local protocol = require("lunette.mcp.protocol")
local reply = require("lunette.mcp.reply")
local run = require("lunette.mcp.run")
local sessions = require("lunette.mcp.sessions")
local sse = require("lunette.mcp.sse")

local M = {}

local MAX_BATCH <const> = 32

local with = reply.headers_with

local function refuse(x, status, code, message)
  x.req:respond(status, with(x.cors, reply.JSON_HEADERS), protocol.error_text(x.id, protocol.error(code, message)))
end

-- The session that the request names; answers and gives nil when there is none.
local function session_of(endpoint, x)
  local id = x.headers["mcp-session-id"]
  if not id then
    refuse(x, 400, protocol.LEGACY_TRANSPORT, "Mcp-Session-Id is required: begin with initialize")
    return nil
  end
  local session = endpoint.sessions:get(headers_of.trim(id), x.principal)
  if not session then refuse(x, 404, protocol.LEGACY_NO_SESSION, "unknown or ended session: begin again with initialize") end
  return session
end

--- The call record of a legacy request (of any transport).
function M.new_call(session, message, id, principal, transport)
  local params = message.params or {}
  local meta = protocol.is_object(params._meta) and params._meta or {}
  return {
    id = id, method = message.method, params = params, era = "legacy", protocol = session.protocol, principal = principal,
    transport = transport, client = session.client, capabilities = session.capabilities, log_level = session.log_level,
    progress_token = protocol.value(meta.progressToken), session = session,
  }
end

--- What a notification of a legacy client does.
function M.notified(session, message)
  if message.method == "notifications/cancelled" then session:cancel(message.params) end
  if message.method == "notifications/initialized" then session.is_ready = true end
end

-- ---- initialize -----------------------------------------------------------------------------------------------------------------------

local function initialize(endpoint, x)
  if x.kind ~= "request" then return refuse(x, 400, protocol.INVALID_REQUEST, "initialize is a request") end
  local version, err = lifecycle.negotiate(x.message.params or {})
  if not version then return refuse(x, 200, err.rpc_code, err.message) end
  local session = sessions.new(endpoint.server, version, x.message.params, x.principal)
  if not endpoint.sessions:add(session) then
    session:close("no room")
    return refuse(x, 503, protocol.LEGACY_TRANSPORT, "too many sessions")
  end
  local text = endpoint.server:dispatch(M.new_call(session, x.message, x.id, x.principal, "http"))
  local headers = with(x.cors, { ["Content-Type"] = "application/json", ["Mcp-Session-Id"] = session.id })
  x.req:respond(200, headers, protocol.result_text(x.id, text))
end

-- ---- requests -------------------------------------------------------------------------------------------------------------------------

local function result_of(server, call)
  local text, err = server:dispatch(call)
  if text then return protocol.result_text(call.id, text) end
  if err == run.CANCELLED then return nil end
  return protocol.error_text(call.id, err)
end

local function bind(call, session, out)
  function call.notify(_, method, params) return out:send(protocol.notification_text(method, params)) end
  function call.suspend(retry_ms) return out:suspend(retry_ms) end
  if out.takes_sse then
    function call.request(_, method, params)
      return session:ask(function(text) return out:send(text) end, method, params)
    end
  end
end

local function request(endpoint, x, session)
  local call = M.new_call(session, x.message, x.id, x.principal, "http")
  local ok, err = session:enter(call)
  if not ok then return x.req:respond(200, with(x.cors, reply.JSON_HEADERS), protocol.error_text(x.id, err)) end
  local out = reply.legacy(x.req, session, x.accept.sse, x.cors)
  bind(call, session, out)
  if call.method == "tools/call" or call.method == "tasks/result" then out:arm() end
  local text = result_of(endpoint.server, call)
  session:leave(call)
  session:touch()
  out:finish(200, text)
  if call.on_answered then call.on_answered() end
  return nil
end

--- Handles a POST of good shape: a request, notification or response.
function M.post(endpoint, x)
  if x.message.method == "initialize" then return initialize(endpoint, x) end
  local session = session_of(endpoint, x)
  if not session then return nil end
  if x.kind == "request" then return request(endpoint, x, session) end
  if x.kind == "response" then session:deliver(x.message) else M.notified(session, x.message) end
  return x.req:respond(202, x.cors)
end

-- ---- batches (2025-03-26 only) ----------------------------------------------------------------------------------------------------------

-- All elements as {kind, message, id}; nil, why when one is bad or of the modern era.
local function read_batch(messages, version)
  if #messages == 0 or #messages > MAX_BATCH then return nil, "a batch holds 1 to " .. MAX_BATCH .. " messages" end
  local items = {}
  for i, message in ipairs(messages) do
    local kind, id = era.shape(message)
    if not kind then return nil, "message " .. i .. " of the batch is invalid" end
    if kind ~= "response" and era.classify(message, version, true) ~= "legacy" then return nil, "batches do not exist in this revision" end
    if message.method == "initialize" then return nil, "initialize cannot be part of a batch" end
    items[i] = { kind = kind, message = message, id = id }
  end
  return items
end
M.read_batch = read_batch

--- Carries out the messages of a batch at once -> list of response texts.
function M.run_batch(server, session, items, principal, transport)
  local running, texts = {}, {}
  for _, item in ipairs(items) do
    if item.kind == "request" then
      local call = M.new_call(session, item.message, item.id, principal, transport)
      local ok, err = session:enter(call)
      if ok then
        running[#running + 1] = loop.spawn(function()
          local text = result_of(server, call)
          session:leave(call)
          return text
        end)
      else
        texts[#texts + 1] = protocol.error_text(item.id, err)
      end
    elseif item.kind == "response" then
      session:deliver(item.message)
    else
      M.notified(session, item.message)
    end
  end
  for _, task in ipairs(running) do texts[#texts + 1] = task:await() end
  return texts
end

--- Handles a POST whose body is an array.
function M.post_batch(endpoint, x, messages)
  local items, why = read_batch(messages, headers_of.trim(x.headers["mcp-protocol-version"]))
  if not items then return refuse(x, 400, protocol.INVALID_REQUEST, why) end
  local session = session_of(endpoint, x)
  if not session then return nil end
  if session.protocol ~= "2025-03-26" then
    return refuse(x, 400, protocol.INVALID_REQUEST, "batches do not exist in revision " .. session.protocol)
  end
  local texts = M.run_batch(endpoint.server, session, items, x.principal, "http")
  if #texts == 0 then return x.req:respond(202, x.cors) end
  return x.req:respond(200, with(x.cors, reply.JSON_HEADERS), "[" .. table.concat(texts, ",") .. "]")
end

-- ---- GET and DELETE -------------------------------------------------------------------------------------------------------------------

--- Opens the stream for messages that belong to no request, or resumes one that broke.
function M.get(endpoint, x)
  local session = session_of(endpoint, x)
  if not session then return nil end
  if not headers_of.accept(x.headers.accept).sse then
    return x.req:respond(406, with(x.cors, reply.JSON_HEADERS), guard.refusal("Accept must list text/event-stream"))
  end
  local stream, after = session.streams.standalone, nil
  local last = headers_of.trim(x.headers["last-event-id"])
  if last then
    stream, after = session.streams:find(last)
    if not stream then return refuse(x, 400, protocol.LEGACY_TRANSPORT, "unknown Last-Event-ID") end
  end
  session.is_ready = true
  local req = x.req
  if not req:stream(200, with(x.cors, sse.HEADERS)) then return nil end
  req:on_close(function() stream:detach(req) end)
  return stream:attach(req, after)
end

--- Ends the session.
function M.delete(endpoint, x)
  local session = session_of(endpoint, x)
  if not session then return nil end
  endpoint.sessions:drop(session, "the client ended the session")
  return x.req:respond(204, x.cors)
end

return M
