-- SPDX-License-Identifier: MIT
-- words: which modules a Lua source requires and what it takes from them, read from its words. Nothing is run.
local M = {}

local MAX_WORDS <const> = 500000

-- The end of a long bracket that opens at i, or nil when none does.
local function long_end(source, i)
  local level = source:match("^%[(=*)%[", i)
  if not level then return nil end
  local _, last = source:find("]" .. level .. "]", i, true)
  return last or #source
end

local function quoted_end(source, i)
  local quote, at = source:sub(i, i), i + 1
  while at <= #source do
    local c = source:sub(at, at)
    if c == "\\" then
      at = at + 1
    elseif c == quote or c == "\n" then
      return at
    end
    at = at + 1
  end
  return #source
end

-- The words: { text, kind = "name" | "string" | "sign", line }.
local function split(source)
  local list, i, line = {}, 1, 1
  local function skip(last)
    for _ in source:sub(i, last):gmatch("\n") do line = line + 1 end
    i = last + 1
  end
  local function add(kind, text, last)
    list[#list + 1] = { kind = kind, text = text, line = line }
    skip(last)
  end
  while i <= #source and #list < MAX_WORDS do
    local c = source:sub(i, i)
    local _, blank = source:find("^%s+", i)
    if blank then
      skip(blank)
    elseif source:find("^%-%-", i) then
      skip(long_end(source, i + 2) or (source:find("\n", i, true) or #source + 1) - 1)
    elseif c == '"' or c == "'" then
      local last = quoted_end(source, i)
      add("string", source:sub(i + 1, last - 1), last)
    elseif c == "[" and long_end(source, i) then
      local last = long_end(source, i)
      add("string", source:sub(i, last):match("^%[=*%[(.-)%]=*%]$") or "", last)
    elseif source:find("^[%a_]", i) then
      local _, last = source:find("^[%w_]+", i)
      add("name", source:sub(i, last), last)
    else
      add("sign", c, i)
    end
  end
  return list
end

-- The module of a `require` at word i, and the word after it: require "m", require("m").
local function required_at(list, i)
  if list[i].text ~= "require" or list[i].kind ~= "name" then return nil end
  local at = i + 1
  local paren = list[at] and list[at].text == "(" and list[at].kind == "sign"
  if paren then at = at + 1 end
  if not (list[at] and list[at].kind == "string") then return nil end
  return list[at].text, at + (paren and 2 or 1)
end

-- The function that is taken from the module at word i: .name or :name.
local function member_at(list, i)
  local sign, name = list[i], list[i + 1]
  if sign and sign.kind == "sign" and (sign.text == "." or sign.text == ":") and name and name.kind == "name" then return name.text end
  return nil
end

-- `local NAME [<const>] = require …`: the name.
local function name_before(list, i)
  local at = i - 1
  if not (list[at] and list[at].text == "=") then return nil end
  at = at - 1
  if list[at] and list[at].text == ">" then at = at - 3 end
  local name = list[at]
  return name and name.kind == "name" and list[at - 1] and list[at - 1].text == "local" and name.text or nil
end

--- What a source takes from the modules that it requires.
---@param source string
---@return { module: string, name: string?, line: integer }[]
function M.uses(source)
  local list, found, alias, i = split(source), {}, {}, 1
  local function note(module, name, line) found[#found + 1] = { module = module, name = name, line = line } end
  while i <= #list do
    local module, after = required_at(list, i)
    local word = list[i]
    if module then
      local taken, name = member_at(list, after), name_before(list, i)
      if taken then
        note(module, taken, word.line)
      elseif name then
        alias[name] = module
      else
        note(module, nil, word.line)
      end
      i = after
    else
      local before = list[i - 1]
      local is_field = before and before.kind == "sign" and (before.text == "." or before.text == ":")
        and not (list[i - 2] and list[i - 2].text == "." and before.text == ".")
      local is_key = list[i + 1] and list[i + 1].text == "=" and not (list[i + 2] and list[i + 2].text == "=")
      if word.kind == "name" and alias[word.text] and not is_field and not is_key then
        note(alias[word.text], member_at(list, i + 1), word.line)
      end
      i = i + 1
    end
  end
  return found
end

return M
