-- SPDX-License-Identifier: MIT
-- words: which modules a Lua source requires and what it takes from them, read from its words. Nothing is run. Where the text does not say
-- plainly what is taken, all of the module counts as taken.
local M = {}

local LOOK_BACK <const> = 200 -- bytes before a `require` in which its `local NAME =` stands
local NAME <const> = "[%a_][%w_]*"
local LAZY <const> = "lunette.lazy" -- requires what it is called with, later

-- The end of a long bracket that opens at i, or nil when none does.
local function long_end(source, i)
  local level = source:match("^%[(=*)%[", i)
  if not level then return nil end
  local _, last = source:find("]" .. level .. "]", i, true)
  return last or #source
end

local function quoted_end(source, i)
  local quote, at = source:sub(i, i), i + 1
  while true do
    at = source:find('[\\\n"\']', at)
    if not at then return #source end
    local c = source:sub(at, at)
    if c == quote or c == "\n" then return at end
    at = at + (c == "\\" and 2 or 1)
  end
end

-- The end of what begins at i with a quote, - or [ and holds no words: a text, a comment; i itself for any other sign.
local function blind_end(source, i, c)
  if c == "[" then return long_end(source, i) or i end
  if c ~= "-" then return quoted_end(source, i) end
  if source:sub(i + 1, i + 1) ~= "-" then return i end
  return long_end(source, i + 2) or (source:find("\n", i, true) or #source + 1) - 1
end

-- fn(name, first, last) for each name in a source, keywords and all; it may give where to go on.
local function each_name(source, fn)
  local i = 1
  while true do
    i = source:find("[%a_\"'%[%-]", i)
    if not i then return end
    local after = source:match("^[%w_]+()", i)
    if after then
      i = fn(source:sub(i, after - 1), i, after - 1) or after
    else
      i = blind_end(source, i, source:sub(i, i)) + 1
    end
  end
end

-- The text of a string that begins at i, and what is behind it.
local function text_at(source, i)
  local c = source:sub(i, i)
  if c == '"' or c == "'" then
    local last = quoted_end(source, i)
    return source:sub(i + 1, last - 1), last + 1
  end
  local last = c == "[" and long_end(source, i)
  if last then return source:sub(i, last):match("^%[=*%[(.-)%]=*%]$") or "", last + 1 end
  return nil
end

-- The module of a `require` whose name ends at `last`, and what is behind it: require "m", require("m"). nil for a name that is made
-- of parts: the box looks at it when it is asked for.
local function required_at(source, last)
  local paren, at = source:match("^%s*(%(?)%s*()", last + 1)
  local module, after = text_at(source, at)
  if module and paren ~= "" then after = source:match("^%s*%)()", after) end
  return after and module, after
end

-- What is taken from the module at i: .name or :name.
local function member_at(source, i) return source:match("^%s*[.:]%s*(" .. NAME .. ")", i) end

-- `local NAME [<const>] = require …`: the name.
local function name_before(source, i)
  local before = source:sub(math.max(1, i - LOOK_BACK), i - 1)
  return before:match("%f[%w_]local%s+(" .. NAME .. ")%s*=%s*$") or before:match("%f[%w_]local%s+(" .. NAME .. ")%s*<%s*%a+%s*>%s*=%s*$")
end

-- Whether the name at first..last is a field (x.name) or a key (name = …), and so no variable that is read.
local function is_other(source, first, last)
  local before = source:sub(math.max(1, first - 20), first - 1)
  local dot = before:match("([.:]+)%s*$")
  return dot == "." or dot == ":" or source:find("^%s*=[^=]", last + 1) ~= nil
end

-- Counts lines from where it was asked last.
local function line_counter(source)
  local line, counted = 1, 1
  return function(i)
    for _ in source:sub(counted, i - 1):gmatch("\n") do line = line + 1 end
    counted = i
    return line
  end
end

--- What a source takes from the modules that it requires.
---@param source string
---@return { module: string, name: string?, line: integer }[]
function M.uses(source)
  local found, alias, line_of = {}, {}, line_counter(source)
  if not source:find("require", 1, true) then return found end
  local function note(module, name, at) found[#found + 1] = { module = module, name = name, line = line_of(at) } end
  each_name(source, function(name, first, last)
    if name == "require" or alias[name] == LAZY and not is_other(source, first, last) then
      local module, after = required_at(source, last)
      if not module then return nil end
      local taken, variable = member_at(source, after), name_before(source, first)
      if variable and not taken then alias[variable] = module else note(module, taken, first) end
      return after
    end
    if alias[name] and not is_other(source, first, last) then note(alias[name], member_at(source, last + 1), first) end
    return nil
  end)
  return found
end

return M
