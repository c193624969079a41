-- SPDX-License-Identifier: MIT
-- declare: what all declarations have in common. A kind of declaration (tool, collector, view, signal, rule, …) has a schema, which is data
-- in lunette/declare/KIND.lua; its constructor checks the table, makes its value, and remembers what was declared and where.
--
-- A schema: { room = "views", title = "a view", note = "…", fields = { FIELD, … }, check? = function(declared, report) }.
-- A field: { "name", "type", required =, note =, … }. Types: string integer number boolean function table list map record any, several with
-- "|"; enum (words, or a function that gives them), min, max, pattern and pattern_note, max_bytes, non_empty; of (the field that each item
-- of a list or value of a map is; a word for a plain type); keys (words that a map may have); fields and open (of a record; a number as the
-- name of a field is a place: { 1, "string" }); check = function(value) -> what is wrong, or nil; signature (of a function, for editors).
local places = require("lunette.declare.places")
local validator = require("lunette.declare.validator")
local fs = require("lunette.fs")
local sys = require("lunette.sys")
local text = require("lunette.text")

local M = {}

local OURS <const> = "^lua/"
local MAX_SOURCE <const> = 1024 * 1024
local FRAMEWORK <const> = { -- frames of these are not where a declaration stands
  ["@lua/lunette/declare.lua"] = true, ["@lua/lunette/tool.lua"] = true, ["@lua/lunette/view.lua"] = true,
  ["@lua/lunette/collector.lua"] = true, ["@lua/lunette/sandbox.lua"] = true,
}

--- Whether the declarations of the product are checked, too: by lunette check and in the tests. At every start it would be time lost.
M.strict = false

--- The words of a declaration: the kind, and the module whose call makes one. The order is that of the reference.
M.KINDS = { "tool", "collector", "view", "signal", "rule", "hint_rule", "redaction", "event_sources",
  "waits" }

---@class Declared
---@field kind string
---@field declared table    the table as it was written
---@field at { file: string, line: integer }

local known = setmetatable({}, { __mode = "k" }) -- value -> Declared
local pending = setmetatable({}, { __mode = "k" }) -- table that is about to be declared -> where, when that is known already
local watched = {}                               -- file -> { source, problems }

--- The schemas by kind, read when first asked for.
M.SCHEMAS = setmetatable({}, { __index = function(self, kind)
  local found, schema = pcall(require, "lunette.declare." .. kind)
  if not found then return nil end
  self[kind] = schema
  return schema
end })

-- ---- places -------------------------------------------------------------------------------------------------------------------------

local source_of -- file -> its text

-- A place whose line is looked up in the source when somebody asks.
local Tail = {}
function Tail.__index(at, key)
  if key ~= "line" then return nil end
  local source = source_of(at.file)
  local line = source and places.tail(source, at.word) or 1
  rawset(at, "line", line)
  return line
end

-- `return tool { … }` is a tail call: the frame of the file is gone. Then the module that is being required tells.
local function required_at(level)
  local name = select(2, debug.getlocal(level, 1))
  return setmetatable({ file = type(name) == "string" and "lua/" .. name:gsub("%.", "/") .. ".lua" or "?" }, Tail)
end

--- Where the script of the product stands that called the framework.
---@return { file: string, line: integer }
function M.here()
  local tail = false
  for level = 2, 40 do
    local info = debug.getinfo(level, "Slft")
    if not info then break end
    if info.what == "C" then
      if tail and info.func == require then return required_at(level) end -- a tail call itself: the levels stay
    elseif not tail and not FRAMEWORK[info.source] then
      return { file = info.source:gsub("^@", ""), line = info.currentline }
    end
    tail = tail or info.istailcall
  end
  return { file = "?", line = 0 }
end

--- Where a site file calls a word of its environment; to be called by the function that is that word.
---@param file string
---@param word string
function M.place(file, word)
  local me, caller = debug.getinfo(2, "t"), debug.getinfo(3, "Sl")
  if not me.istailcall and caller and caller.source == "@" .. file then return { file = file, line = caller.currentline, word = word } end
  return setmetatable({ file = file, word = word }, Tail)
end

function source_of(file)
  local w = watched[file]
  if w and w.source then return w.source end
  return fs.read(file:sub(1, 1) == "/" and file or sys.home .. "/" .. file, MAX_SOURCE)
end

--- The line of a field of a declaration.
---@param at { file: string, line: integer, word?: string }
---@param path string   "levels[1]"
function M.line_of(at, path)
  if not at.lines then
    local source = source_of(at.file)
    at.lines = source and places.of(source, at.line, at.word) or {}
  end
  return places.line(at.lines, path) or at.line
end

--- The first line from a line on in which a name stands; the line itself when there is none.
---@param at { file: string }
---@param line integer
---@param name string
---@return integer
function M.line_with(at, line, name)
  local n, whole = 0, "%f[%w_]" .. name:gsub("%p", "%%%0") .. "%f[^%w_]"
  for line_text in ((source_of(at.file) or "") .. "\n"):gmatch("(.-)\n") do
    n = n + 1
    if n >= line and line_text:find(whole) then return n end
  end
  return line
end

--- Begins to collect the problems of a file that is about to run.
---@param file string      its name in messages
---@param source string
---@return { problems: table[] }
function M.watch(file, source)
  watched[file] = { source = source, problems = {} }
  return watched[file]
end

--- Whether a file of a layer is being run.
function M.is_watched(file) return watched[file] ~= nil end

function M.unwatch(file) watched[file] = nil end

-- ---- problems -----------------------------------------------------------------------------------------------------------------------

---@class Problem
---@field file string
---@field line integer
---@field path? string      the field
---@field message string    what is wrong, what was expected, what was probably meant
---@field key? boolean      the message names the field itself

--- "file:line: field: message".
---@param p Problem
function M.format(p)
  local prefix = p.path and p.path ~= "" and not p.key and not p.message:find(p.path, 1, true) and p.path .. ": " or ""
  return ("%s:%d: %s%s"):format(p.file, p.line, prefix, p.message)
end

--- Tells what is wrong with a declaration: to who loads its file, and as an error.
---@param problems { path: string, message: string, name: string? }[]   name: stands somewhere below the path, which is not known
---@param at { file: string, line: integer }
function M.fail(problems, at)
  local lines, w = {}, watched[at.file]
  for i, p in ipairs(problems) do
    local line = M.line_of(at, p.path or "")
    if p.name then line = M.line_with(at, line, p.name) end
    local found = { file = at.file, line = line, path = p.path, message = p.message, key = p.key }
    lines[i] = M.format(found)
    if w then w.problems[#w.problems + 1] = found end
  end
  error(table.concat(lines, "\n"), 0)
end

--- Checks a table against the schema of its kind; raises an error that names every problem.
---@param kind string
---@param declared any
---@param at { file: string, line: integer }
function M.check(kind, declared, at)
  local schema = M.SCHEMAS[kind]
  if not schema then error("declare: there is no schema for " .. kind, 0) end
  if not at.word then at.word = kind end
  local problems = validator.problems(declared, schema)
  if #problems > 0 then M.fail(problems, at) end
end

-- ---- declarations -------------------------------------------------------------------------------------------------------------------

--- Remembers what a value was declared as.
function M.mark(value, kind, declared, at)
  known[value] = { kind = kind, declared = declared, at = at }
  return value
end

--- What a value was declared as, or nil.
---@return Declared?
function M.of(value) return known[value] end

--- The constructor of a kind: checks a table, and gives what `finish` makes of it (the table itself without).
---@param kind string
---@param finish? fun(declared: table, at: table): table
---@return fun(declared: table): table
function M.constructor(kind, finish)
  return function(declared)
    local at = pending[declared] or M.here()
    if M.strict or not at.file:find(OURS) then M.check(kind, declared, at) end
    local value = finish and finish(declared, at) or declared
    return M.mark(value, kind, declared, at)
  end
end

local function is_list(t) return t[1] ~= nil or next(t) == nil end

local function copy(value)
  if type(value) ~= "table" or getmetatable(value) ~= nil then return value end
  local out = {}
  for k, v in pairs(value) do out[k] = copy(v) end
  return out
end

local REMOVE <const> = setmetatable({}, { __tostring = function() return "remove" end })
--- As the value of a field in extend: takes the field out.
M.remove = REMOVE

-- `callable`: the field may hold a function itself, so that one replaces what was there.
local function merge(old, new, callable)
  if new == REMOVE then return nil end
  if type(new) == "function" and not callable and type(old) ~= "function" then return new(copy(old)) end
  if type(new) ~= "table" or type(old) ~= "table" or is_list(new) or is_list(old) then return copy(new) end
  local out = {}
  for k, v in pairs(old) do out[k] = copy(v) end
  for k, v in pairs(new) do out[k] = merge(old[k], v, callable) end
  return out
end

local function fields_by_name(kind)
  local by_name, schema = {}, M.SCHEMAS[kind]
  for _, f in ipairs(schema and schema.fields or {}) do by_name[f.name or f[1]] = f.type or f[2] end
  return by_name
end

-- Numbers that the code of the declaration beneath reads by name: another name changes nothing.
local NUMBERS <const> = { rule = "numbers", signal = "limits" }

-- A name that an extension gives a number which there is not beneath is a slip, unless the extension brings its own code.
local function check_numbers(kind, base, changes, at)
  local field = NUMBERS[kind]
  local old, new = base[field], field and changes[field]
  if type(old) ~= "table" or type(new) ~= "table" or changes.of ~= nil then return end
  local names, problems = {}, {}
  for name in pairs(old) do names[#names + 1] = tostring(name) end
  table.sort(names)
  for name in pairs(new) do
    if old[name] == nil then
      local message = ("the %s beneath has no %s in %s; it has %s.%s"):format(kind, text.quote(tostring(name)), field,
        table.concat(names, ", "), text.did_you_mean(tostring(name), names))
      problems[#problems + 1] = { path = field .. "." .. tostring(name), key = true, message = message }
    end
  end
  table.sort(problems, function(a, b) return a.path < b.path end)
  if #problems > 0 then M.fail(problems, at) end
end

--- A copy of a declaration with other fields: tables are merged, lists replaced; a function for a field that is none gets the old value.
---@param base table       what the file was given, or a value of a constructor
---@param changes table
---@param at? table
function M.extend(base, changes, at)
  local before = known[base]
  if not before then error("extend: the first argument must be the declaration beneath; there is none at this path", 2) end
  if type(changes) ~= "table" then error("extend: the second argument must be a table of fields", 2) end
  at = at or M.here()
  at.word = "extend"
  check_numbers(before.kind, before.declared, changes, at)
  local types, out = fields_by_name(before.kind), {}
  for k, v in pairs(before.declared) do out[k] = v end
  for k, v in pairs(changes) do out[k] = merge(out[k], v, (types[k] or ""):find("function", 1, true) ~= nil) end
  return M.construct(before.kind, out, at)
end

--- A value of a kind from a table, as its constructor makes it, and where it stands.
function M.construct(kind, declared, at)
  if type(declared) == "table" then pending[declared] = at end
  return M.word(kind)(declared)
end

--- What a site file is given as the declaration beneath: a copy, so that nothing of ours can be changed through it.
function M.beneath(value)
  local entry = known[value]
  if not entry then return nil end
  return M.mark(copy(entry.declared), entry.kind, entry.declared, entry.at)
end

local Disabled = {}
Disabled.__index = Disabled

--- Takes out what lies beneath.
---@param reason string
function M.disable(reason)
  if type(reason) ~= "string" or reason == "" then error("disable: say why, as a text", 2) end
  return setmetatable({ reason = reason }, Disabled)
end

function M.is_disabled(value) return getmetatable(value) == Disabled end

local SELF <const> = { redaction = true, event_sources = true } -- what is declared is the value

local words = {}

--- The constructor that a word of a declaration calls.
---@param kind string
---@return fun(declared: table): table
function M.word(kind)
  if not words[kind] then words[kind] = SELF[kind] and M.constructor(kind) or require("lunette." .. kind) end
  return words[kind]
end

--- The kinds that there are in this build: those with a schema.
function M.kinds()
  local list = {}
  for _, kind in ipairs(M.KINDS) do
    if M.SCHEMAS[kind] then list[#list + 1] = kind end
  end
  return list
end

return M
