-- SPDX-License-Identifier: MIT
-- listen: where the server listens: from the command line, else from the environment, else 127.0.0.1:8787.
local M = {}

M.DEFAULT = { address = "127.0.0.1", port = 8787, tls = false }
local MAX_PORT <const> = 65535

local function place(address, port, tls)
  port = math.tointeger(tonumber(port))
  if not port or port < 0 or port > MAX_PORT then return nil, "the port must be from 0 to " .. MAX_PORT end
  address = address:gsub("^%[", ""):gsub("%]$", "")
  if address == "" or address == "+" or address == "*" then address = "0.0.0.0" end
  if address == "localhost" then address = "127.0.0.1" end
  return { address = address, port = port, tls = tls }
end

--- "127.0.0.1:8787", "[::1]:8787", ":8787" or "8787".
---@return table? place, string? why
function M.parse(text)
  local port = text:match("^(%d+)$")
  if port then return place(M.DEFAULT.address, port, false) end
  local address, behind = text:match("^(%[[%x:.]+%]):(%d+)$")
  if not address then address, behind = text:match("^([%w.*+%-]*):(%d+)$") end
  if not address then return nil, ("%q is no ADDRESS:PORT"):format(text) end
  return place(address, behind, false)
end

--- "http://127.0.0.1:8787;https://[::1]:8443/" -> list of places.
---@return table[]? places, string? why
function M.parse_urls(text)
  local list = {}
  for url in text:gmatch("[^;%s]+") do
    local scheme, rest = url:match("^(https?)://([^/]+)/?$")
    if not scheme then return nil, ("%q is no http:// or https:// address"):format(url) end
    if not rest:find(":%d+$") then rest = rest .. (scheme == "https" and ":443" or ":80") end
    local found, why = M.parse(rest)
    if not found then return nil, why end
    found.tls = scheme == "https"
    list[#list + 1] = found
  end
  if #list == 0 then return nil, "the list of addresses is empty" end
  return list
end

local function ports(text, tls, list)
  for port in text:gmatch("%d+") do
    local found, why = place("0.0.0.0", port, tls)
    if not found then return nil, why end
    list[#list + 1] = found
  end
  return list
end

local function from_ports(cfg, prefix)
  local plain, secure = cfg:get(prefix .. "_HTTP_PORTS"), cfg:get(prefix .. "_HTTPS_PORTS")
  if not plain and not secure then return nil end
  local list, why = ports(plain or "", false, {})
  if list then list, why = ports(secure or "", true, list) end
  return list, why
end

--- Where to listen, and what says so.
---@param cfg table          config
---@param options { http: string?, urls: string? }
---@return table[]? places, string source_or_why
function M.places(cfg, options)
  if options.http then
    local found, why = M.parse(options.http)
    return found and { found }, found and "--http" or why
  end
  for _, name in ipairs({ "--urls", "ASPNETCORE_URLS", "DOTNET_URLS" }) do
    local urls = options.urls
    if name ~= "--urls" then urls = cfg:get(name) end
    if urls then
      local list, why = M.parse_urls(urls)
      return list, list and name or (name .. ": " .. why)
    end
  end
  for _, prefix in ipairs({ "ASPNETCORE", "DOTNET" }) do
    local list, why = from_ports(cfg, prefix)
    if list or why then return list, list and prefix .. "_HTTP_PORTS" or why end
  end
  return { M.DEFAULT }, "default"
end

return M
