-- SPDX-License-Identifier: MIT
-- Addresses of outgoing requests, without what may be secret in them: user info and values of the query go, segments of the path that
-- look like a key go, and the rest passes the redactor.
local redaction = require("lunette.redaction")
local sys = require("lunette.sys")

local M = {}

M.UNKNOWN = "(unknown)"
M.MAX_HOST, M.MAX_PATH, M.MAX_MESSAGE, M.MAX_SCHEME = 255, 512, 300, 32
local OPAQUE_AT <const> = 20    -- a segment of letters and digits so long is a key or an id
local MAX_PARAMETERS <const> = 16
local MAX_SCAN <const> = 4096   -- bytes that are looked through; the engine keeps 2,048 characters of a text

-- Cuts to at most `bytes`, never inside a character. Always after the redactor: half a secret is none that it knows.
local function cut(text, bytes)
  if #text <= bytes then return text end
  return sys.utf8_cut(text, bytes) .. "..."
end

local function decoded(text)
  return (text:gsub("%%(%x%x)", function(hex) return string.char(tonumber(hex, 16)) end))
end

-- What the redactor leaves of a text; what it finds only behind the escapes of a URL counts, too.
local function safe(text)
  text = sys.utf8_sanitize(sys.utf8_cut(text, MAX_SCAN))
  local plain = decoded(text)
  if plain ~= text then
    plain = sys.utf8_sanitize(plain)
    local redacted = redaction.redact(plain)
    if redacted ~= plain then return redacted end
  end
  return redaction.redact(text)
end

--- A host without user info; an address of IPv6 in brackets.
---@param host string?
---@return string
function M.host(host)
  if type(host) ~= "string" or host == "" then return M.UNKNOWN end
  host = cut(safe(host:match("([^@]*)$")), M.MAX_HOST)
  if host:find(":", 1, true) and host:sub(1, 1) ~= "[" then host = "[" .. host .. "]" end
  return host
end

--- scheme://host:port
function M.authority(scheme, host, port)
  scheme = type(scheme) == "string" and cut(safe(scheme), M.MAX_SCHEME) or M.UNKNOWN
  return ("%s://%s:%s"):format(scheme, M.host(host), tostring(port or M.UNKNOWN))
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
  path = cut(safe(path):gsub("[^/]+", segment), M.MAX_PATH)
  if query == "" then return path end
  return path .. cut(parameters(query), M.MAX_PATH)
end

--- A whole URL, or what there is of one: "/next?page=*", "https://host:1/next".
---@param url string?
---@return string
function M.url(url)
  if type(url) ~= "string" or url == "" then return M.UNKNOWN end
  local scheme, authority, rest = url:match("^(%a[%w+.-]*)://([^/?#]*)(.*)$")
  if not scheme then return M.target(url) end
  local host = authority:match("([^@]*)$")
  return ("%s://%s%s"):format(scheme, cut(safe(host), M.MAX_HOST), rest == "" and "" or M.target(rest))
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
