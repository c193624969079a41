-- SPDX-License-Identifier: MIT
-- auth: bearer tokens and whom they stand for. Every token is compared, in constant time; a token is never logged, but for the one that the
-- server made itself at start.
local crypto = require("lunette.crypto")
local log = require("lunette.log")
local scopes = require("lunette.scopes")

local M = {}

local EPHEMERAL_BYTES <const> = 32
local MAX_TOKENS <const> = 256
local MAX_TOKEN <const> = 8192

--- The principal of stdio and of the command line: whoever may start the program may do what it does. No literal scopes.
function M.local_principal(name) return scopes.principal(name or "local", { "root" }) end

local Authority = {}
Authority.__index = Authority

local function add(self, name, token, list)
  self.tokens[#self.tokens + 1] = { digest = crypto.sha256(token), principal = scopes.principal(name, list) }
end

local function field(record, name)
  for key, value in pairs(record) do
    if type(key) == "string" and key:lower() == name then return value end
  end
  return nil
end

local function scope_list(value)
  local list = {}
  if type(value) == "string" then
    for word in value:gmatch("[^%s,]+") do list[#list + 1] = word end
  elseif type(value) == "table" then
    local indexes = {}
    for index in pairs(value) do indexes[#indexes + 1] = index end
    table.sort(indexes, function(a, b) return tonumber(a) < tonumber(b) end)
    for _, index in ipairs(indexes) do list[#list + 1] = tostring(value[index]) end
  end
  return list
end

-- One entry of Auth:BearerTokens. Returns why it cannot be used, or nil.
local function add_scoped(self, i, record, seen)
  local name, token, list = field(record, "name"), field(record, "token"), scope_list(field(record, "scopes"))
  local where = "Auth:BearerTokens:" .. (i - 1)
  if type(name) ~= "string" or name == "" then return where .. ": Name is empty" end
  if type(token) ~= "string" or token == "" then return where .. " (" .. name .. "): Token is empty" end
  if #token > MAX_TOKEN then return where .. " (" .. name .. "): Token is too long" end
  if #list == 0 then return where .. " (" .. name .. "): Scopes is empty" end
  if seen.names[name] then return where .. ": the name " .. name .. " is there twice" end
  if seen.tokens[token] then return where .. " (" .. name .. "): the same token is there twice" end
  for _, scope in ipairs(list) do
    if not scopes.known(scope) then return ("%s (%s): there is no scope %s"):format(where, name, scope) end
  end
  seen.names[name], seen.tokens[token] = true, true
  add(self, name, token, list)
  return nil
end

--- Builds the authority from the configuration.
---@param cfg table         config.load()
---@param options? { ephemeral: boolean }   make a token when none is configured (a loopback bind)
---@return table? authority
---@return string? why
function M.new(cfg, options)
  local self = setmetatable({ tokens = {}, source = "none" }, Authority)
  local records = cfg:get("Auth:BearerTokens")
  if records and #records > 0 then
    if #records > MAX_TOKENS then return nil, "Auth:BearerTokens has more than " .. MAX_TOKENS .. " entries" end
    local seen = { names = {}, tokens = {} }
    for i, record in ipairs(records) do
      local why = add_scoped(self, i, record, seen)
      if why then return nil, why end
    end
    self.source = "Auth:BearerTokens"
  elseif cfg:get("MCP_BEARER_TOKEN") then
    add(self, "root", cfg:get("MCP_BEARER_TOKEN"), { "root" })
    self.source = "MCP_BEARER_TOKEN"
  elseif options and options.ephemeral then
    self.ephemeral = crypto.hex(crypto.random(EPHEMERAL_BYTES))
    add(self, "root", self.ephemeral, { "root" })
    self.source = "ephemeral"
  end
  return self
end

function Authority:has_credentials() return #self.tokens > 0 end

local function refusal(message) return { status = 401, www_authenticate = "Bearer", message = message } end

--- Whom a request stands for.
---@param headers table<string, string>   names in lower case
---@return table? principal
---@return { status: integer, www_authenticate: string, message: string }? refusal
function Authority:authenticate(headers)
  local value = headers.authorization
  if not value then return nil, refusal("A bearer token is needed: Authorization: Bearer TOKEN.") end
  local scheme, token = value:match("^%s*(%S+)%s+(%S+)%s*$")
  if not scheme or scheme:lower() ~= "bearer" or #token > MAX_TOKEN then
    return nil, refusal("The Authorization header must be: Bearer TOKEN.")
  end
  local digest = crypto.sha256(token)
  local found
  for _, entry in ipairs(self.tokens) do -- all of them, so that the time tells nothing
    if crypto.equal(entry.digest, digest) then found = entry.principal end
  end
  if found then return found end
  return nil, refusal("This bearer token is not known here.")
end

--- Whether an address is one that only this machine can reach.
function M.is_loopback(address)
  local host = address:gsub("^%[", ""):gsub("%]$", ""):lower()
  return host == "localhost" or host == "::1" or host:match("^127%.%d+%.%d+%.%d+$") ~= nil or host:match("^::ffff:127%.") ~= nil
end

--- Whether the server may listen there.
---@param address string
---@param has_tls boolean
---@param has_credentials boolean
---@return true?, string? why
function M.check_bind(address, has_tls, has_credentials)
  if M.is_loopback(address) then return true end
  if not has_credentials then
    return nil, ("%s can be reached from other machines, and no token is configured: set MCP_BEARER_TOKEN or Auth__BearerTokens__0__…, "
      .. "or listen on 127.0.0.1."):format(address)
  end
  if not has_tls then
    return nil, ("%s can be reached from other machines, and tokens would cross the network in clear text: give --tls-cert and --tls-key, "
      .. "or listen on 127.0.0.1 behind a proxy that has TLS."):format(address)
  end
  return true
end

local current

--- The authority that the transports ask.
function M.use(authority)
  current = authority
  if authority and authority.ephemeral then
    log.notice("auth", "no token is configured; this one is good until the server ends", { token = authority.ephemeral })
  end
end
function M.authenticate(headers)
  if not current then return nil, refusal("This server has no tokens.") end
  return current:authenticate(headers)
end

return M
