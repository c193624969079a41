-- SPDX-License-Identifier: MIT
-- environment: the globals of a box, from an allow-list; fresh tables for each box, so that a script can change only its own.
local lines = require("lunette.sandbox.lines")
local native = require("lunette.sandbox.native")
local readonly = require("lunette.sandbox.readonly")

local M = {}

local MAX_DATE_FORMAT <const> = 200 -- bytes: the C library formats unseen
local MAX_PRINT <const> = 1000      -- bytes of one line of print

local BASE <const> = { "_VERSION", "assert", "error", "ipairs", "pairs", "pcall", "rawequal", "rawget", "rawlen", "select",
  "tonumber", "tostring", "type", "xpcall" }
--- Library -> what of it is left out.
local LIBRARIES <const> = { string = { dump = true }, table = {}, math = { randomseed = true }, utf8 = {}, coroutine = {} }

local function library(name)
  local out = {}
  for key, value in pairs(_G[name]) do
    if not LIBRARIES[name][key] then out[key] = value end
  end
  return out
end

local function date(format, time)
  if format ~= nil and #tostring(format) > MAX_DATE_FORMAT then error("os.date: the format is too long", 2) end
  return os.date(format, time)
end

local function collectgarbage(what)
  if what ~= "count" then error('collectgarbage: only "count" is available to sandboxed scripts', 2) end
  return (native.usage() or 0) / 1024
end

-- print goes to the log.
local function printer(name)
  local write = lines.writer(name)
  return function(...)
    local out = {}
    for i = 1, select("#", ...) do out[i] = tostring((select(i, ...))) end
    write("info", "site", table.concat(out, "\t"):sub(1, MAX_PRINT), { script = name })
  end
end

-- The source of load, which may be a function that gives it in pieces.
local function whole(chunk)
  if type(chunk) ~= "function" then return chunk end
  local pieces = {}
  for piece in chunk do
    if piece == "" then break end
    pieces[#pieces + 1] = piece
  end
  return table.concat(pieces)
end

local function loader(env)
  return function(chunk, chunkname, _, given)
    local text = whole(chunk)
    if type(text) ~= "string" then error("load: a string or a function that gives strings", 2) end
    return native.load(text, chunkname or "=(load)", given or env)
  end
end

--- The environment of a box without `require`, and the set of the metatables that its scripts set.
---@param name string
---@param globals table<string, any>?
---@return table env, table own_metatables
function M.new(name, globals)
  local env = {}
  for _, key in ipairs(BASE) do env[key] = _G[key] end
  for key in pairs(LIBRARIES) do env[key] = library(key) end
  local own
  env.setmetatable, env.getmetatable, env.rawset, own = native.guards()
  env.os = { clock = os.clock, time = os.time, difftime = os.difftime, date = date }
  env.next = readonly.next
  env.collectgarbage, env.print, env.load = collectgarbage, printer(name), loader(env)
  for key, value in pairs(globals or {}) do env[key] = readonly.view(value) end
  env._G = env
  return env, own
end

return M
