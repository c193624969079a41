-- SPDX-License-Identifier: MIT
--- A stand-in for the HTTP transport: requests go straight to an endpoint, answers are recorded. For specs of the protocol layer that need
--- no socket.

local json = require("lunette.json")
local loop = require("lunette.loop")
local protocol = require("lunette.mcp.protocol")

local M = {}

local Req = {}
Req.__index = Req

function Req:respond(status, headers, body)
  if self.gone then return nil, protocol.failure("Cancelled", "gone") end
  assert(not self.status, "answered twice")
  self.status, self.answer_headers, self.answer = status, headers or {}, body or ""
  self.done = true -- last: whoever waits may be let in between any two steps
  self.changed:send(true)
  return true
end

function Req:stream(status, headers)
  if self.gone then return nil, protocol.failure("Cancelled", "gone") end
  assert(not self.status, "answered twice")
  self.status, self.answer_headers, self.answer, self.is_stream = status, headers or {}, "", true
  self.changed:send(true)
  return self
end

function Req:write(text)
  if self.gone or self.done then return nil, protocol.failure("Cancelled", "gone") end
  self.answer = self.answer .. text
  self.changed:send(true)
  return true
end

function Req:close()
  self.done = true
  self.changed:send(true)
end

function Req:closed() return self.gone or self.done or false end

function Req:on_close(fn) self.close_hook = fn end

--- The client hangs up.
function Req:hang_up()
  self.gone = true
  if self.close_hook then loop.spawn(self.close_hook) end
end

--- Waits until check(self) is true.
function Req:wait(check, timeout_ms)
  local deadline = loop.now_ms() + (timeout_ms or 2000)
  while not check(self) do
    local left = deadline - loop.now_ms()
    if left <= 0 then error("the answer never came: status " .. tostring(self.status) .. ", so far: " .. tostring(self.answer), 2) end
    self.changed:recv(math.min(left, 20))
  end
  return self
end

function Req:wait_done() return self:wait(function(req) return req.done end) end

--- The messages of an event stream so far: list of {id=, retry=, data=}; data is decoded.
function Req:events()
  local events = {}
  for block in (self.answer or ""):gmatch("(.-)\n\n") do
    local event = {}
    for line in block:gmatch("[^\n]+") do
      local field, value = line:match("^(%a+): ?(.*)$")
      if field then event[field] = value end
    end
    if event.data and event.data ~= "" then event.data = assert(json.decode(event.data)) end
    if next(event) then events[#events + 1] = event end
  end
  return events
end

--- The JSON body, decoded.
function Req:json() return assert(json.decode(self.answer)) end

--- Starts a request; the answer is recorded in what is given back.
---@param endpoint table
---@param opts { method?: string, path?: string, headers?: table, body?: string|table }
function M.start(endpoint, opts)
  local body = type(opts.body) == "table" and json.encode(opts.body) or opts.body or ""
  local headers = { host = "127.0.0.1:8787", ["content-type"] = "application/json", accept = "application/json, text/event-stream" }
  for name, value in pairs(opts.headers or {}) do headers[name] = value or nil end
  local req = setmetatable({
    method = opts.method or "POST", path = opts.path or "/mcp", query = "", headers = headers, body = body, remote = "127.0.0.1",
    changed = loop.channel(64),
  }, Req)
  req.task = loop.spawn(function() endpoint:handle(req) end)
  return req
end

--- A request that is waited for.
function M.send(endpoint, opts) return M.start(endpoint, opts):wait_done() end

--- A modern request body with its envelope.
function M.modern_body(id, method, params, capabilities)
  local all = {}
  for k, v in pairs(params or {}) do all[k] = v end
  local meta = { [protocol.META.VERSION] = protocol.MODERN, [protocol.META.CAPABILITIES] = capabilities or {} }
  for k, v in pairs(all._meta or {}) do meta[k] = v end
  all._meta = meta
  return { jsonrpc = "2.0", id = id, method = method, params = all }
end

local NAMES <const> = { "name", "uri", "taskId" }

--- Headers that go with a modern body.
function M.modern_headers(body)
  local headers = { ["mcp-protocol-version"] = protocol.MODERN, ["mcp-method"] = body.method }
  for _, name in ipairs(NAMES) do headers["mcp-name"] = headers["mcp-name"] or body.params[name] end
  return headers
end

--- Starts a modern request.
function M.start_modern(endpoint, id, method, params, capabilities)
  local body = M.modern_body(id, method, params, capabilities)
  return M.start(endpoint, { headers = M.modern_headers(body), body = body })
end

--- A modern request that is waited for.
function M.modern(endpoint, id, method, params, capabilities)
  return M.start_modern(endpoint, id, method, params, capabilities):wait_done()
end

--- An initialized legacy session -> its id.
function M.initialize(endpoint, version, capabilities)
  local answer = M.send(endpoint, { body = { jsonrpc = "2.0", id = 0, method = "initialize", params = {
    protocolVersion = version, capabilities = capabilities or {}, clientInfo = { name = "spec", version = "1" },
  } } })
  return assert(answer.answer_headers["Mcp-Session-Id"]), answer
end

--- Starts a request, notification or response of a legacy session.
function M.start_legacy(endpoint, session_id, version, message)
  message.jsonrpc = "2.0"
  return M.start(endpoint, { headers = { ["mcp-session-id"] = session_id, ["mcp-protocol-version"] = version }, body = message })
end

function M.legacy(endpoint, session_id, version, message)
  return M.start_legacy(endpoint, session_id, version, message):wait_done()
end

--- Accepts everyone as the one who the Authorization header names.
M.ALLOW_ALL = {
  authenticate = function(headers)
    return { name = headers.authorization or "root", is_root = true, scopes = { root = true } }
  end,
}

return M
