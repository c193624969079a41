-- SPDX-License-Identifier: MIT
-- annotations: files for the Lua language server (LuaLS): the words of site scripts from their schemas, the modules that a site script may
-- require from the comments in their sources. So an editor completes and checks what a site writes against what is installed.
local declare = require("lunette.declare")
local fs = require("lunette.fs")
local grants = require("lunette.sandbox.grants")
local beside = require("lunette.generation.files").BESIDE
local sys = require("lunette.sys")
local text = require("lunette.text")

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
  local written = {} -- a tool without branches has the fields of a branch, too
  for _, field in ipairs(list) do
    local key = field.name or field[1]
    if written[key] then goto next_field end
    written[key] = true
    local typ = type_of.field(field, path .. "." .. tostring(key), classes)
    local shown = type(key) == "number" and ("[%d]"):format(key) or key .. (field.required and "" or "?")
    lines[#lines + 1] = ("---@field %s %s%s"):format(shown, typ, field.note and "  " .. field.note:gsub("\n", " ") or "")
    ::next_field::
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

-- What a module has of these names and its source does not tell in one line: by what it is.
local function by_value(name, granted, told, out)
  for _, member in ipairs(text.keys(granted or {})) do
    if not told[member] then
      local value = require(name)[member]
      local shape = type(value) == "function" and ("function M.%s(...) end\n") or ("---@type %s\nM.%%s = nil\n"):format(type(value))
      out[#out + 1] = shape:format(member)
    end
  end
end

-- What a line of a source adds to the face: kind, name, and how it is written.
local function shown(line, var, classes)
  local fn, arguments = line:match("^function " .. var .. "%.([%w_]+)(%b())")
  if fn then return "member", fn, ("function M.%s%s end"):format(fn, arguments) end
  local constant, value = line:match("^" .. var .. "%.([%u%d_]+) = ([%d%.]+)")
  if constant then return "constant", constant, ("M.%s = %s"):format(constant, value) end
  local member = line:match("^" .. var .. "%.([%a_][%w_]*) = ")
  if member then return "assigned", member, ("M.%s = nil"):format(member) end
  local class = line:match("^local (%u%w*) = {}")
  if class then return "class", class, line end
  local of, method, given = line:match("^function (%u%w*):([%w_]+)(%b())")
  if of and classes[of] then return "method", method, ("function %s:%s%s end"):format(of, method, given) end
  return nil
end

local function declares_class(block)
  for _, line in ipairs(block) do
    if line:find("^%-%-%-@class") or line:find("^%-%-%-@alias") then return true end
  end
  return false
end

--- The public face of a module of ours: its classes, and its functions with their comments, without bodies.
---@param name string
---@param source string
---@param granted? table<string, any>   only these functions
---@param elsewhere? table<string, true> and of them not these
---@return string
function M.face(name, source, granted, elsewhere)
  local out, block, classes, told = { ("---@meta %s\n\n---@class %s\nlocal M = {}\n"):format(name, name) }, {}, {}, elsewhere or {}
  local var = source:match("\nreturn setmetatable%((%a+),") or source:match("\nreturn (%a+)%s*$") or "M"
  for line in (source .. "\n"):gmatch("(.-)\n") do
    if line:find("^%-%-%-") then
      block[#block + 1] = line
    else
      local kind, word, written = shown(line, var, classes)
      local is_class = declares_class(block)
      local fits = kind == "method" or kind == "constant" or (kind == "class" and is_class)
        or ((kind == "member" or kind == "assigned" and #block > 0) and (not granted or granted[word] ~= nil) and not told[word])
      if fits then
        out[#out + 1] = table.concat(block, "\n") .. (#block > 0 and "\n" or "") .. written .. "\n"
        if kind == "class" then classes[word] = true elseif kind ~= "method" then told[word] = true end
      elseif is_class then
        out[#out + 1] = table.concat(block, "\n") .. "\n"
      end
      block = {}
    end
  end
  by_value(name, granted, told, out)
  out[#out + 1] = "return M\n"
  return table.concat(out, "\n")
end

-- A face that was written by hand, without the functions that are not granted.
local function granted_of(name, source, granted)
  local var, out, block, told = source:match("\nreturn ([%a_]+)%s*$") or "?", {}, {}, {}
  local function flush()
    table.move(block, 1, #block, #out + 1, out)
    block = {}
  end
  for line in source:gmatch("(.-)\n") do
    local fn = line:match("^function " .. var .. "%.([%w_]+)") or line:match("^" .. var .. "%.([%w_]+) = ")
    if fn and not granted[fn] then
      block = {}
    else
      if fn then told[fn] = true end
      block[#block + 1] = line
      if not line:find("^%-%-%-") then flush() end
    end
  end
  local more = {}
  by_value(name, granted, told, more)
  for i, line in ipairs(more) do more[i] = line:gsub("M%.", var .. ".") end
  table.insert(out, #out, table.concat(more, "\n")) -- before the last line, which returns it
  return table.concat(out, "\n") .. "\n"
end

-- Types that the modules speak of and that stand elsewhere.
local TYPES <const> = {
  { "Principal", "lua/lunette/scopes.lua" }, { "Bound", "lua/lunette/args.lua" }, { "HintCapture", "lua/lunette/rules/hinting.lua" },
}
local OPAQUE <const> = "---@alias Tool table\n---@alias LunetteProfileBuilder userdata\n"

-- The comment that declares a class.
local function class_in(source, name)
  local block = {}
  for line in source:gmatch("(.-)\n") do
    block[#block + 1] = line:match("^%-%-%-.*")
    if not line:find("^%-%-%-") then
      if block[1] and table.concat(block, "\n"):find("%-%-%-@class " .. name .. "%f[^%w]") then return table.concat(block, "\n") end
      block = {}
    end
  end
  return nil
end

local function types()
  local out = { assert(source_of(META:format("err"))), OPAQUE }
  for _, of in ipairs(TYPES) do out[#out + 1] = assert(class_in(source_of(of[2]) or "", of[1]), of[1]) .. "\n" end
  return table.concat(out, "\n")
end

-- A module that is a function.
local FUNCTION <const> = "---@meta %s\n\n%s\nlocal function M(...) end\nreturn M\n"
local NOTES <const> = {
  ["lunette.atomic"] = "--- Makes a function run in one step: until it returns no other task runs. It may not wait.\n"
    .. "---@generic F: function\n"
    .. "---@param fn F\n---@return F",
  ["lunette.lazy"] = "--- What require gives, loaded when something of it is first used.\n---@param name string\n---@return table",
}
local TESTING <const> = "lunette.testing"

--- The names of the modules that site scripts may require.
---@return string[]
function M.modules() return grants.names() end

local LUARC <const> = [[
{
  "runtime.version": "Lua 5.4",
  "workspace.library": [".", "${3rd}/busted/library"],
  "diagnostics.disable": ["lowercase-global"]
}
]]

local function functions_of(name)
  local set = {}
  for member, value in pairs(require(name)) do set[member] = type(value) == "function" and {} or nil end
  return set
end

--- All files: name -> text. luarc.json is an example of the settings that a site folder needs.
---@return table<string, string>
function M.files()
  local files = { ["words.lua"] = M.words(), ["types.lua"] = types(), ["luarc.json"] = LUARC }
  for _, name in ipairs(M.modules()) do
    local source, by_hand = annotated(name)
    local granted, path = grants.MODULES[name], name:gsub("%.", "/") .. ".lua"
    if NOTES[name] then
      files[path] = FUNCTION:format(name, NOTES[name])
    elseif source then
      files[path] = by_hand and granted_of(name, source, granted) or M.face(name, source, granted)
    end
  end
  for _, kind in ipairs(declare.kinds()) do
    local name, members = "lunette." .. kind, { [kind] = {} }
    for member in pairs(grants.MODULES[name] or {}) do members[member] = {} end
    for _, member in ipairs(beside[kind] or {}) do members[member] = {} end
    local word = class_name(kind)
    local face = M.face(name, source_of("lua/lunette/" .. kind .. ".lua") or "", members, { [kind] = true })
    files["lunette/" .. kind .. ".lua"] = face:gsub("(%-%-%-@class lunette%.[%w_]+\n)",
      ("%%1---@overload fun(declared: %s): %s\n---@field %s fun(declared: %s): %s\n"):format(word, word, kind, word, word), 1)
  end
  files[TESTING:gsub("%.", "/") .. ".lua"] = M.face(TESTING, assert(source_of("lua/lunette/testing.lua")), functions_of(TESTING))
  return files
end

return M
