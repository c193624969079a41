-- SPDX-License-Identifier: MIT
--- Multi-round-trip requests of the modern era: what a handler asks for ends the call with `input_required`; the client calls again with
--- the answers. Earlier answers and `ctx.state` travel in `requestState`: sealed by HMAC, bound to principal, method and arguments, for ten
--- minutes.

local crypto = require("lunette.crypto")
local json = require("lunette.json")
local loop = require("lunette.loop")
local protocol = require("lunette.mcp.protocol")

local M = {}

local TTL_MS <const> = 600 * 1000
local MAX_STATE <const> = 64 * 1024 -- bytes of a requestState
local VERSION <const> = "v1"

local function refused() return nil, protocol.invalid_params("requestState is not valid") end

---@class Sealer
---@field key string     32 random bytes: a restart voids what was sealed before
local Sealer = {}
Sealer.__index = Sealer

--- A sealer with its own random key.
function M.new_sealer() return setmetatable({ key = crypto.random(32) }, Sealer) end

--- The digest that ties a state to who asks what. The client repeats method and params; only what it adds may differ.
---@param params table    the request's
function M.binding(principal_name, method, params)
  local salient = json.encode({ principal_name, method, params.name or params.uri or "", params.arguments or json.null })
  return crypto.base64url(crypto.sha256(salient))
end

--- Seals state and answers. nil, err when they are too big to travel.
---@param binding string
---@param state table       what the handler keeps
---@param answers table     answers of earlier rounds, by key
function Sealer:seal(binding, state, answers)
  local payload = json.encode({ b = binding, e = loop.unix_ms() + TTL_MS, s = state, a = answers, n = crypto.hex(crypto.random(8)) })
  local head = VERSION .. "." .. crypto.base64url(payload)
  if #head > MAX_STATE then
    return nil, protocol.error(protocol.INTERNAL_ERROR, "the state of this call is too big for the client to carry")
  end
  return head .. "." .. crypto.base64url(crypto.hmac_sha256(self.key, head))
end

--- Opens what `seal` made for the same binding -> state, answers; nil, err when it was tampered with, is of another request or too old.
function Sealer:open(binding, text)
  if type(text) ~= "string" or #text > MAX_STATE + 128 then return refused() end
  local head, mac = text:match("^(v1%.[%w_-]+)%.([%w_-]+)$")
  if not head or not crypto.equal(mac, crypto.base64url(crypto.hmac_sha256(self.key, head))) then return refused() end
  local payload = json.decode(crypto.unbase64url(head:sub(#VERSION + 2)) or "")
  if type(payload) ~= "table" or payload.b ~= binding then return refused() end
  if payload.e < loop.unix_ms() then return nil, protocol.invalid_params("requestState has expired: call again without it") end
  return payload.s, payload.a
end

--- Checks the members that a retry adds to params -> answers by key (maybe empty), requestState or nil; nil, err when malformed.
function M.read_retry(params)
  local responses, state = params.inputResponses, params.requestState
  if state ~= nil and type(state) ~= "string" then return nil, protocol.invalid_params("requestState must be a string") end
  if responses == nil then return {}, state end
  if not protocol.is_object(responses) then return nil, protocol.invalid_params("inputResponses must be an object") end
  for key, value in pairs(responses) do
    if not protocol.is_object(value) then return nil, protocol.invalid_params("inputResponses." .. key .. " must be an object") end
  end
  return responses, state
end

--- The result that asks the client: `requests` is key -> {method, params}; a state is sealed only when there is something to keep.
---@param call table      the request (principal, method, params)
---@param sealer Sealer
---@param requests table
---@param state table
---@param answers table   answers that the handler has used so far
function M.input_required(call, sealer, requests, state, answers)
  local result = { resultType = "input_required", inputRequests = requests }
  if next(state) ~= nil or next(answers) ~= nil then
    local binding = M.binding(call.principal.name, call.method, call.params)
    local sealed, err = sealer:seal(binding, state, answers)
    if not sealed then return nil, err end
    result.requestState = sealed
  end
  return result
end

return M
