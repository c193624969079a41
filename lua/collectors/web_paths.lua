-- SPDX-License-Identifier: MIT
-- Paths and methods of requests that a server was asked: text that anybody can send. Secrets go out, segments that look like a key or an id
-- become "*", and the rest is cut to a size.
local redaction = require("lunette.redaction")
local sys = require("lunette.sys")

local M = {}

M.UNKNOWN = "(unknown)"
M.MAX_PATH = 300
M.MAX_METHOD = 32
local OPAQUE_AT <const> = 20 -- a segment of letters and digits so long is a key or an id

local function decoded(text)
  return (text:gsub("%%(%x%x)", function(hex) return string.char(tonumber(hex, 16)) end))
end

-- What the redactor finds only behind the escapes of a URL counts, too.
local function safe(text)
  local plain = decoded(text)
  if plain ~= text then
    plain = sys.utf8_sanitize(plain)
    local redacted = redaction.redact(plain)
    if redacted ~= plain then return redacted end
  end
  return redaction.redact(text)
end

local function segment(text)
  if #text >= OPAQUE_AT and text:find("%d") and text:find("%a") and not text:find("redacted:", 1, true) then return "*" end
  return nil
end

local function cut(text, max) return #text <= max and text or sys.utf8_cut(text, max - 3) .. "..." end

--- A path as it may be kept.
---@param path any
---@return string
function M.path(path)
  if type(path) ~= "string" or path == "" then return M.UNKNOWN end
  path = safe(sys.utf8_sanitize(path)):gsub("%?.*", "?*")
  return cut(path:gsub("[^/]+", segment), M.MAX_PATH)
end

--- A method: anything that a client puts there.
---@param method any
---@return string
function M.method(method)
  if type(method) ~= "string" or method == "" then return M.UNKNOWN end
  return cut(redaction.redact(sys.utf8_sanitize(method)), M.MAX_METHOD)
end

return M
