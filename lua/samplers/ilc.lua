-- SPDX-License-Identifier: MIT
-- Names of NativeAOT: the map file of its compiler (IlcGenerateMapFile) tells which symbols are methods, a symbol's text which one it was.
-- Every sign that is no letter or digit was made a '_', so a name with '_' in it comes back with '.' there: an identity by name is for
-- finding a method, not a key. Format: the XML of ILCompiler's ObjectDumper, <MethodCode Name="…" Length="…" Hash="…"/>.
local errors = require("lunette.errors")
local fs = require("lunette.fs")

local M = {}

M.PARAMETER = "nativeAotMapFile"
M.MAX_BYTES = 128 << 20
M.MAX_METHODS = 1000000
local CORELIB <const> = { "S_P_CoreLib_", "System.Private.CoreLib" }
local ENTITIES <const> = { lt = "<", gt = ">", amp = "&", quot = '"', apos = "'" }

--- The symbols of methods in a map file.
---@param path string
---@return table<string, true>? methods, table? err
function M.read(path)
  local text, err = fs.read(path, M.MAX_BYTES)
  if not text then
    return nil, errors.invalid(M.PARAMETER, ("nativeAotMapFile cannot be read: %s."):format(tostring(err and err.message or err)))
  end
  local methods, n = {}, 0
  for name in text:gmatch('<MethodCode Name="([^"]*)"') do
    if name:find("&", 1, true) then name = name:gsub("&(%a+);", ENTITIES) end
    methods[name] = true
    n = n + 1
    if n >= M.MAX_METHODS then break end
  end
  if n == 0 then
    return nil, errors.invalid(M.PARAMETER, "nativeAotMapFile names no method: it is no *.map.xml that <IlcGenerateMapFile> makes.")
  end
  return methods
end

-- "List_1" -> "List`1", "A_B" -> "A.B"; what stands in angle brackets is left out.
local function type_name(text)
  local bare = text:gsub("%b<>", "")
  bare = bare:gsub("_(%d+)$", "`%1"):gsub("_(%d+)_", "`%1_")
  return (bare:gsub("_", "."))
end

-- The assembly that a symbol begins with, and the rest: the core library, the program itself, or a name that stands there twice, as the
-- namespaces of most libraries begin with their assembly's name.
local function split_assembly(symbol, program)
  if symbol:sub(1, #CORELIB[1]) == CORELIB[1] then return CORELIB[2], symbol:sub(#CORELIB[1] + 1) end
  local own = program:gsub("%.dll$", ""):gsub("[^%w]", "_") .. "_"
  if symbol:sub(1, #own) == own then return program, symbol:sub(#own + 1) end
  for at = 1, #symbol - 1 do
    if symbol:byte(at) == 0x5f then
      local name = symbol:sub(1, at)
      if symbol:sub(at + 1, 2 * at) == name then return (name:sub(1, -2):gsub("_", ".")), symbol:sub(at + 1) end
    end
  end
  return nil, symbol
end

-- What the C# compiler made of a method with parts of its own: a state machine, a lambda, a local function.
local MADE <const> = {
  { "^(.-)__([%w_]-)_d__(%d+)(%b<>)__([%w_]+)$", function(o, n, i, _, m) return type_name(o) .. "+<" .. n .. ">d__" .. i, m end },
  { "^(.-)__([%w_]-)_d__(%d+)__([%w_]+)$", function(o, n, i, m) return type_name(o) .. "+<" .. n .. ">d__" .. i, m end },
  { "^(.-)___c(__DisplayClass%d+_%d+)[^_]*___([%w_]-)_b__([%d_]+)$",
    function(o, c, n, i) return type_name(o) .. "+<>c" .. c, "<" .. n .. ">b__" .. i end },
  { "^(.-)___c[^_]*___([%w_]-)_b__([%d_]+)$", function(o, n, i) return type_name(o) .. "+<>c", "<" .. n .. ">b__" .. i end },
  { "^(.-)___([%w_]-)_g__([%w_]-)_(%d+_%d+)$", function(o, n, l, i) return type_name(o), "<" .. n .. ">g__" .. l .. "|" .. i end },
}

local function split_method(text)
  for _, made in ipairs(MADE) do
    local parts = { text:match(made[1]) }
    if parts[1] then return made[2](table.unpack(parts)) end
  end
  local bare = text:gsub("%b<>", function(x) return ("\1"):rep(#x) end) -- no "__" inside of arguments
  local owner, at
  for from in bare:gmatch("()__") do at = from end
  if not at then return nil, text end
  while at > 1 and bare:byte(at - 1) == 0x5f do at = at - 1 end -- "___ctor": the method's own '_' comes last
  owner = text:sub(1, at - 1)
  local name = text:sub(at + 2):gsub("%b<>", "")
  return type_name(owner), (name:gsub("^_(c?ctor)$", ".%1"))
end

--- Of the native frames of a profile those that are methods, by their symbols.
---@param profile LunetteProfile
---@param methods table<string, true>
---@return table<string, true>
function M.seen(profile, methods)
  local seen = {}
  for _, frame in ipairs(profile:frames {}) do
    if frame.kind == "native" and methods[frame.method] then seen[frame.method] = true end
  end
  return seen
end

---@class IlcName
---@field assembly string?
---@field type_name string?
---@field method string
---@field arity integer      of the method

--- The method of a symbol.
---@param symbol string
---@param program string    name of the program's file
---@return IlcName
function M.parse(symbol, program)
  local assembly, rest = split_assembly(symbol, program)
  local owner, method = split_method(rest)
  local arguments = rest:match("%b<>$")
  local arity = 0
  if arguments and owner then
    arity = 1
    local inside = arguments:sub(2, -2):gsub("%b<>", ""):gsub("System___Canon", "System.Canon")
    for _ in inside:gmatch("__") do arity = arity + 1 end
  end
  return { assembly = assembly, type_name = owner, method = method, arity = arity }
end

return M
