-- SPDX-License-Identifier: MIT
--- The modern side of the HTTP endpoint (2026-07-28): no sessions; a request carries all that is known about its client, and its
--- connection is its life.

local headers_of = require("lunette.mcp.headers")
local protocol = require("lunette.mcp.protocol")
local reply = require("lunette.mcp.reply")
local run = require("lunette.mcp.run")

local M = {}

local META <const> = protocol.META

-- Methods that end at once: they need no watch over the connection.
local QUICK <const> = {
  ["server/discover"] = true, ["tools/list"] = true, ["prompts/list"] = true, ["resources/list"] = true,
  ["resources/templates/list"] = true, ["tasks/get"] = true, ["tasks/update"] = true, ["tasks/cancel"] = true,
}

--- The call record of a modern request (of any transport).
function M.new_call(message, id, principal, transport)
  local params = message.params
  local meta = params._meta
  return {
    id = id, method = message.method, params = params, era = "modern", protocol = meta[META.VERSION], principal = principal,
    transport = transport, client = meta[META.CLIENT], capabilities = meta[META.CAPABILITIES], log_level = meta[META.LOG_LEVEL],
    progress_token = meta.progressToken,
  }
end

-- Lists depend on the bytes of the request and on the registry, and on nothing else: the transport may give them again by itself.
local KEPT <const> = {
  ["server/discover"] = true, ["tools/list"] = true, ["prompts/list"] = true, ["resources/list"] = true,
  ["resources/templates/list"] = true,
}

local function fail(x, err)
  x.req:respond(protocol.http_status(err, "modern"), reply.headers_with(x.cors, reply.JSON_HEADERS), protocol.error_text(x.id, err))
end

local function answer(server, call, out)
  local text, err = server:dispatch(call)
  if text then return out:finish(200, protocol.result_text(call.id, text)) end
  if err == run.CANCELLED then return out:finish(200, nil) end
  return out:finish(protocol.http_status(err, "modern"), protocol.error_text(call.id, err))
end

local function answer_slow(endpoint, x, call)
  local out = reply.modern(x.req, x.accept.sse, x.cors)
  function call.notify(_, method, params)
    if call.cancelled then return false end
    return out:send(protocol.notification_text(method, params))
  end
  function call.conclude(_, text) out:finish(200, protocol.result_text(call.id, text)) end
  x.req:on_close(function()
    out:abandon()
    run.cancel(call, "the client went away")
  end)
  if call.method == "tools/call" then out:arm() end
  return answer(endpoint.server, call, out)
end

--- Handles a request or notification of good shape and envelope.
function M.post(endpoint, x)
  if x.kind == "notification" then return x.req:respond(202, x.cors) end
  local message = x.message
  local ok, err = headers_of.check_standard(message.method, message.params, x.headers)
  if not ok then return fail(x, err) end
  local call = M.new_call(message, x.id, x.principal, "http")
  call.headers = x.headers
  if not QUICK[call.method] then return answer_slow(endpoint, x, call) end
  local text
  local generation = KEPT[call.method] and x.req.generation and x.req:generation()
  text, err = endpoint.server:dispatch(call)
  if not text then return fail(x, err) end
  local headers = x.cors and reply.headers_with(x.cors, reply.JSON_HEADERS) or reply.JSON_HEADERS
  if generation then
    local head, tail = protocol.result_parts(text)
    if x.req:respond_kept(200, headers, head, tail, generation) then return true end
  end
  return x.req:respond(200, headers, protocol.result_text(x.id, text))
end

return M
