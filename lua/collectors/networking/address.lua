-- SPDX-License-Identifier: MIT
-- Addresses of outgoing requests, without what may be secret in them: user info and values of the query go, segments of the path that
-- look like a key go, and the rest passes the redactor.
local redaction = require("lunette.redaction")

local M = {}

M.UNKNOWN = "(unknown)"
M.MAX_HOST, M.MAX_PATH, M.MAX_MESSAGE = 255, 512, 300
local OPAQUE_AT <const> = 20    -- a segment of letters and digits so long is a key or an id
local MAX_PARAMETERS <const> = 16

-- Cuts to at most `bytes`, never inside a character.
local function cut(text, bytes)
  if #text <= bytes then return text end
  local last = bytes
  while last > 0 and (text:byte(last + 1) & 0xC0) == 0x80 do last = last - 1 end
  return text:sub(1, last) .. "..."
end

local function decoded(text)
  return (text:gsub("%%(%x%x)", function(hex) return string.char(tonumber(hex, 16)) end))
end

-- What the redactor leaves of a text; what it finds only behind the escapes of a URL counts, too.
local function safe(text)
  local plain = decoded(text)
  if plain ~= text and utf8.len(plain) and redaction.redact(plain) ~= plain then return redaction.redact(plain) end
  return redaction.redact(text)
end

--- A host without user info; an address of IPv6 in brackets.
---@param host string?
---@return string
function M.host(host)
  if type(host) ~= "string" or host == "" then return M.UNKNOWN end
  host = safe(cut(host:match("([^@]*)$"), M.MAX_HOST))
  if host:find(":", 1, true) and host:sub(1, 1) ~= "[" then host = "[" .. host .. "]" end
  return host
end

--- scheme://host:port
function M.authority(scheme, host, port)
  return ("%s://%s:%s"):format(type(scheme) == "string" and safe(scheme) or M.UNKNOWN, M.host(host), tostring(port or M.UNKNOWN))
end

local function segment(text)
  if #text >= OPAQUE_AT and text:find("%d") and text:find("%a") then return "*" end
  return (text:gsub(";.*", ";*"))
end

local function parameters(query)
  local names = {}
  for part in query:gmatch("[^&]+") do
    if #names == MAX_PARAMETERS then
      names[#names + 1] = "..."
      break
    end
    local name = part:match("^([^=]+)=")
    names[#names + 1] = name and safe(name) .. "=*" or "*"
  end
  return "?" .. (#names > 0 and table.concat(names, "&") or "*")
end

--- The path and the names in the query; values are "*".
---@param path_and_query string?
---@return string
function M.target(path_and_query)
  if type(path_and_query) ~= "string" or path_and_query == "" then return M.UNKNOWN end
  local path, query = path_and_query:match("^([^?#]*)%??([^#]*)")
  path = safe(cut(path, M.MAX_PATH)):gsub("[^/]+", segment)
  if query == "" then return path end
  return path .. parameters(cut(query, M.MAX_PATH))
end

--- A whole URL, or what there is of one: "/next?page=*", "https://host:1/next".
---@param url string?
---@return string
function M.url(url)
  if type(url) ~= "string" or url == "" then return M.UNKNOWN end
  local scheme, authority, rest = url:match("^(%a[%w+.-]*)://([^/?#]*)(.*)$")
  if not scheme then return M.target(url) end
  local host = authority:match("([^@]*)$")
  return ("%s://%s%s"):format(scheme, safe(cut(host, M.MAX_HOST)), rest == "" and "" or M.target(rest))
end

--- The text of an exception: URLs in it as M.url has them, and no more than a sentence or two of it.
---@param message string?
---@return string?
function M.message(message)
  if type(message) ~= "string" or message == "" then return nil end
  message = message:gsub("%a[%w+.-]*://[^%s'\"<>)]+", M.url)
  return cut(safe(message), M.MAX_MESSAGE)
end

return M
