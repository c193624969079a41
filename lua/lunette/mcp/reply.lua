-- SPDX-License-Identifier: MIT
--- The answer to one POST: one JSON body, or, once there is something to say before the end, an event stream. Modern streams die with
--- their connection; legacy ones are resumable.

local atomic = require("lunette.atomic")
local loop = require("lunette.loop")
local protocol = require("lunette.mcp.protocol")
local sse = require("lunette.mcp.sse")
local streams = require("lunette.mcp.streams")

local M = {}

M.JSON_HEADERS = { ["Content-Type"] = "application/json" }

-- ---- what both have --------------------------------------------------------------------------------------------------------------------

local function arm(reply)
  if not reply.takes_sse then return end
  reply.timer = loop.timer(sse.STREAM_AFTER_MS, function() reply:open() end)
end

local function disarm(reply)
  if reply.timer then reply.timer:cancel() end
  reply.timer = nil
end

local function headers_with(extra, base)
  if not extra then return base end
  local all = {}
  for k, v in pairs(base) do all[k] = v end
  for k, v in pairs(extra) do all[k] = v end
  return all
end
M.headers_with = headers_with

-- ---- modern ----------------------------------------------------------------------------------------------------------------------------

local Modern = {}
Modern.__index = Modern

--- A reply to a modern request. extra: headers of every answer (CORS).
---@param takes_sse boolean    does the client accept event streams
function M.modern(req, takes_sse, extra)
  return setmetatable({ req = req, takes_sse = takes_sse, extra = extra }, Modern)
end

Modern.arm = arm

--- Begins the stream, if it has not begun. false when that is not possible (any more).
function Modern:open()
  disarm(self)
  if self.is_open then return true end
  if self.ended or not self.takes_sse then return false end
  if not self.req:stream(200, headers_with(self.extra, sse.HEADERS)) then
    self.ended = true
    return false
  end
  self.is_open = true
  sse.watch(self.req)
  return true
end
Modern.open = atomic(Modern.open)

--- Sends a message before the answer. false when the client does not read streams, or is gone.
function Modern:send(text)
  return self:open() and self.req:write(sse.event(text)) and true or false
end
Modern.send = atomic(Modern.send)

--- Sends the answer and ends. text nil: nothing more is to be said.
function Modern:finish(status, text)
  disarm(self)
  if self.ended then return end
  if self.is_open then
    if text then self.req:write(sse.event(text)) end
    sse.unwatch(self.req)
    self.req:close()
  elseif text then
    self.req:respond(status, headers_with(self.extra, M.JSON_HEADERS), text)
  else
    self.req:respond(202, self.extra)
  end
  self.ended = true
  self.req:on_close(nil)
end
Modern.finish = atomic(Modern.finish)

--- The client is gone.
function Modern:abandon()
  disarm(self)
  self.ended = true
  sse.unwatch(self.req)
end
Modern.abandon = atomic(Modern.abandon)

-- ---- legacy ----------------------------------------------------------------------------------------------------------------------------

local Legacy = {}
Legacy.__index = Legacy

--- A reply to a legacy request. Its stream is one of the session's.
function M.legacy(req, session, takes_sse, extra)
  return setmetatable({ req = req, session = session, takes_sse = takes_sse, extra = extra }, Legacy)
end

Legacy.arm = arm

-- From 2025-11-25 on a stream begins with an id and no data, so that the client can come back however early the connection breaks.
function Legacy:open()
  disarm(self)
  if self.stream then return true end
  if self.ended or not self.takes_sse or not self.req:stream(200, headers_with(self.extra, sse.HEADERS)) then return false end
  local stream = self.session.streams:new()
  self.stream = stream
  stream:attach(self.req)
  self.req:on_close(function() stream:detach(self.req) end)
  if self.session.protocol >= protocol.LEGACY_NEWEST then stream:emit("", streams.RETRY_MS) end
  return true
end
Legacy.open = atomic(Legacy.open)

function Legacy:send(text)
  if not self:open() then return false end
  self.stream:emit(text)
  return true
end
Legacy.send = atomic(Legacy.send)

--- Closes the connection, the client polls. false where the protocol has no such thing.
function Legacy:suspend(retry_ms)
  if self.session.protocol < protocol.LEGACY_NEWEST or not self:open() then return false end
  return self.stream:suspend(retry_ms)
end
Legacy.suspend = atomic(Legacy.suspend)

function Legacy:finish(status, text)
  disarm(self)
  if self.ended then return end
  self.ended = true
  if self.stream then
    self.stream:finish(text)
  elseif text then
    self.req:respond(status, headers_with(self.extra, M.JSON_HEADERS), text)
  else
    self.req:respond(202, self.extra)
  end
  self.req:on_close(nil)
end
Legacy.finish = atomic(Legacy.finish)

return M
