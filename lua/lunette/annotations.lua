-- SPDX-License-Identifier: MIT
-- annotations: files for the Lua language server (LuaLS): the words of site scripts from their schemas, the modules that a site script may
-- require from the comments in their sources. So an editor completes and checks what a site writes against what is installed.
local declare = require("lunette.declare")
local fs = require("lunette.fs")
local grants = require("lunette.sandbox.grants")
local sys = require("lunette.sys")

local M = {}

local MAX_SOURCE <const> = 1024 * 1024
local PRIMITIVE <const> = { boolean = true, number = true, integer = true, string = true, any = true, table = true }
-- Modules whose interface is annotated by hand, in lua/meta/.
local META <const> = "lua/meta/%s.lua"

-- ---- the words ------------------------------------------------------------------------------------------------------------------

local function resolve(value)
  if type(value) == "function" then return value() end
  return value
end

local function class_name(path) return "Lunette" .. path:gsub("^%l", string.upper):gsub("[_%.](%l)", function(c) return c:upper() end) end

local function enum_type(enum)
  local words = {}
  for i, word in ipairs(enum) do words[i] = ("%q"):format(word) end
  return table.concat(words, "|")
end

local type_of

-- The LuaLS type of one alternative of a field's type.
local function alternative(word, field, path, classes)
  if word == "string" and field.enum then return enum_type(resolve(field.enum)) end
  if word == "record" and field.fields then return type_of.record(field.fields, path, classes) end
  if word == "function" then return field.signature and "(" .. field.signature .. ")" or "function" end
  if word == "list" or word == "map" then
    local of = field.of
    local inner = type(of) == "string" and of or type(of) == "table" and type_of.field(of, path, classes) or "any"
    if inner:find("|", 1, true) then inner = "(" .. inner .. ")" end
    return word == "list" and inner .. "[]" or ("table<string, %s>"):format(inner)
  end
  return PRIMITIVE[word] and word or "table"
end

type_of = {}

function type_of.field(field, path, classes)
  local parts = {}
  for word in tostring(field.type or field[2] or "any"):gmatch("[^|]+") do parts[#parts + 1] = alternative(word, field, path, classes) end
  return table.concat(parts, "|")
end

-- A record becomes a class of its own, made once for each list of fields.
function type_of.record(fields, path, classes)
  if classes.by_fields[fields] then return classes.by_fields[fields] end
  local list, name = resolve(fields), class_name(path)
  classes.by_fields[fields] = name -- by the list or the function that gives it: conditions hold conditions
  local lines = { "---@class (exact) " .. name }
  classes[#classes + 1] = lines
  for _, field in ipairs(list) do
    local key = field.name or field[1]
    local typ = type_of.field(field, path .. "." .. tostring(key), classes)
    local shown = type(key) == "number" and ("[%d]"):format(key) or key .. (field.required and "" or "?")
    lines[#lines + 1] = ("---@field %s %s%s"):format(shown, typ, field.note and "  " .. field.note:gsub("\n", " ") or "")
  end
  return name
end

local HEAD <const> = [[
---@meta
-- The words of site files of lunette. Made by `lunette docs --annotations`; do not edit.
]]

local COMMON <const> = [[

--- A copy of the declaration beneath with other fields: tables are merged, lists replaced; a function for a field that is none gets the old
--- value. `local base = ...` is the declaration beneath.
---@generic T
---@param base T
---@param changes table
---@return T
function extend(base, changes) end

--- Takes out what lies beneath, with the reason.
---@param reason string
function disable(reason) end
]]

--- The annotations of the words, from the schemas.
---@return string
function M.words()
  local classes, functions = { by_fields = {} }, {}
  for _, kind in ipairs(declare.kinds()) do
    local schema = declare.SCHEMAS[kind]
    local name = type_of.record(schema.fields, kind, classes)
    local note = schema.note and " " .. schema.note:gsub("\n", " ") or ""
    functions[#functions + 1] = ("\n--- Declares %s.%s\n---@param declared %s\n---@return %s\nfunction %s(declared) end\n")
      :format(schema.title, note, name, name, kind)
  end
  local out = { HEAD }
  for _, lines in ipairs(classes) do out[#out + 1] = "\n" .. table.concat(lines, "\n") .. "\n" end
  return table.concat(out) .. table.concat(functions) .. COMMON
end

-- ---- the modules ----------------------------------------------------------------------------------------------------------------

local function source_of(path) return fs.read(sys.home .. "/" .. path, MAX_SOURCE) end

-- Where the interface of a module is annotated: by hand, or in its own source.
local function annotated(name)
  local short = name:match("^lunette%.(%w+)$")
  local by_hand = short and source_of(META:format(short))
  if by_hand then return by_hand, true end
  return source_of("lua/" .. name:gsub("%.", "/") .. ".lua"), false
end

--- The public face of a module of ours: its classes, and its functions with their comments, without bodies.
---@param name string
---@param source string
---@param granted? table<string, any>   only these functions
---@return string
function M.face(name, source, granted)
  local out, block, var = { ("---@meta %s\n\n---@class %s\nlocal M = {}\n"):format(name, name) }, {}, "M"
  var = source:match("\nreturn setmetatable%((%a+),") or source:match("\nreturn (%a+)%s*$") or var
  local function flush_class()
    for _, line in ipairs(block) do
      if line:find("^%-%-%-@class") or line:find("^%-%-%-@alias") then
        out[#out + 1] = table.concat(block, "\n") .. "\n"
        return
      end
    end
  end
  for line in (source .. "\n"):gmatch("(.-)\n") do
    local fn, arguments = line:match("^function " .. var .. "%.([%w_]+)(%b())")
    local constant, value = line:match("^" .. var .. "%.([%u%d_]+) = ([%d%.]+)")
    if line:find("^%-%-%-") then
      block[#block + 1] = line
    else
      if fn and (not granted or granted[fn]) then
        out[#out + 1] = table.concat(block, "\n") .. (#block > 0 and "\n" or "") .. ("function M.%s%s end\n"):format(fn, arguments)
      elseif constant then
        out[#out + 1] = ("M.%s = %s\n"):format(constant, value)
      elseif #block > 0 then
        flush_class()
      end
      block = {}
    end
  end
  out[#out + 1] = "return M\n"
  return table.concat(out, "\n")
end

--- The names of the modules that site scripts may require.
---@return string[]
function M.modules() return grants.names() end

local LUARC <const> = [[
{
  "runtime.version": "Lua 5.4",
  "workspace.library": ["."],
  "diagnostics.disable": ["lowercase-global"]
}
]]

--- All files: name -> text. luarc.json is an example of the settings that a site folder needs.
---@return table<string, string>
function M.files()
  local files = { ["words.lua"] = M.words(), ["luarc.json"] = LUARC }
  for _, name in ipairs(M.modules()) do
    local source, by_hand = annotated(name)
    if source then files[name:gsub("%.", "/") .. ".lua"] = by_hand and source or M.face(name, source, grants.MODULES[name]) end
  end
  return files
end

return M
