-- SPDX-License-Identifier: MIT
-- places: where the fields of a declaration stand in its source, so that a message can name the line. Reads tables as they are written:
-- what is computed (a variable, a call) has the place where it begins.
local M = {}

local MAX_TOKENS <const> = 200000
local OPENS <const> = { ["("] = ")", ["["] = "]" }
local BLOCKS <const> = { ["function"] = true, ["if"] = true, ["do"] = true, ["repeat"] = true }

-- The end of a long bracket that begins at i, or nil.
local function long_end(text, i)
  local level = text:match("^%[(=*)%[", i)
  if not level then return nil end
  local _, last = text:find("]" .. level .. "]", i, true)
  return last or #text
end

local function short_end(text, i, quote)
  local at = i + 1
  while at <= #text do
    local c = text:sub(at, at)
    if c == "\\" then
      at = at + 1
    elseif c == quote or c == "\n" then
      return at
    end
    at = at + 1
  end
  return #text
end

local function token_end(text, i)
  local c = text:sub(i, i)
  if c == '"' or c == "'" then return short_end(text, i, c), "string" end
  local last = c == "[" and long_end(text, i)
  if last then return last, "string" end
  last = text:match("^[%a_][%w_]*()", i)
  if last then return last - 1, "name" end
  last = text:match("^%.?%d[%w_.]*()", i)
  if last then return last - 1, "number" end
  last = text:match("^[=~<>]=()", i) or text:match("^%.%.%.?()", i)
  return last and last - 1 or i, "mark"
end

local function skip_comment(text, i)
  local long = long_end(text, i + 2)
  return (long or (text:find("\n", i, true) or #text + 1) - 1) + 1
end

-- The words of a source from a line on: { text, line, what }.
local function tokens_from(source, first_line)
  local list, line, i = {}, 1, 1
  while line < first_line do
    local nl = source:find("\n", i, true)
    if not nl then return list end
    i, line = nl + 1, line + 1
  end
  while i <= #source and #list < MAX_TOKENS do
    local blank = source:match("^[ \t\r]+()", i)
    if blank then
      i = blank
    elseif source:sub(i, i) == "\n" then
      i, line = i + 1, line + 1
    else
      local from = i
      if source:sub(i, i + 1) == "--" then
        i = skip_comment(source, i)
      else
        local last, what = token_end(source, i)
        list[#list + 1] = { source:sub(i, last), line, what }
        i = last + 1
      end
      if i > from + 1 then
        local _, more = source:sub(from, i - 1):gsub("\n", "")
        line = line + more
      end
    end
  end
  return list
end

local function word_at(tokens, i) return tokens[i] and tokens[i][1] end

local function key_of(token)
  if token[3] == "string" then return token[1]:match("^[\"'](.*)[\"']$") end
  return token[3] == "number" and tostring(math.tointeger(tonumber(token[1])) or token[1]) or nil
end

local function join(path, key)
  if key:find("^%d+$") then return path .. "[" .. key .. "]" end
  return path == "" and key or path .. "." .. key
end

local read_table

-- One value, from i on: to the comma or the brace that ends it. Tables that it is made of, also as the argument of a call, are read.
local function read_value(tokens, i, path, lines)
  local depth, blocks = 0, 0
  while tokens[i] do
    local word, what = tokens[i][1], tokens[i][3]
    if depth == 0 and blocks == 0 and (word == "," or word == ";" or word == "}") and what == "mark" then return i end
    if what == "mark" then
      if OPENS[word] then depth = depth + 1 elseif word == ")" or word == "]" then depth = depth - 1 end
      if word == "{" then i = read_table(tokens, i, blocks == 0 and path or nil, lines) - 1 end
    elseif what == "name" then
      if BLOCKS[word] then blocks = blocks + 1 elseif word == "end" or word == "until" then blocks = blocks - 1 end
    end
    i = i + 1
  end
  return i
end

-- A table constructor at its brace; the index behind it. path nil: only skipped.
function read_table(tokens, i, path, lines)
  local n = 0
  i = i + 1
  while tokens[i] and word_at(tokens, i) ~= "}" do
    local token, key = tokens[i], nil
    if token[3] == "name" and word_at(tokens, i + 1) == "=" then
      key, i = token[1], i + 2
    elseif token[1] == "[" and token[3] == "mark" and word_at(tokens, i + 2) == "]" and word_at(tokens, i + 3) == "=" then
      key, i = key_of(tokens[i + 1]), i + 4
    elseif token[1] ~= "[" or token[3] ~= "mark" then
      n = n + 1
      key = tostring(n)
    end
    local inner = path and key and join(path, key) or nil
    if inner and not lines[inner] then lines[inner] = token[2] end
    i = read_value(tokens, i, inner, lines)
    if word_at(tokens, i) == "," or word_at(tokens, i) == ";" then i = i + 1 end
  end
  return i + 1
end

local MAX_BEFORE <const> = 16 -- words between the function's name and its table: extend(base, { … })

-- The brace that opens the table of a call.
local function brace_after(tokens, i)
  for k = i + 1, math.min(#tokens, i + MAX_BEFORE) do
    if tokens[k][1] == "{" and tokens[k][3] == "mark" then return k end
    if tokens[k][1] == "}" or tokens[k][1] == "=" then return nil end
  end
  return nil
end

--- The lines of the fields of the table that is written in a source from a line on.
---@param source string
---@param line integer      of the call whose argument the table is
---@param word? string      the function that is called
---@return table<string, integer> lines   by path: "levels[1]", "params[2].default"
function M.of(source, line, word)
  local tokens, lines = tokens_from(source, line), {}
  for i, token in ipairs(tokens) do
    if token[2] > line then break end
    local brace = (not word or (token[1] == word and token[3] == "name")) and brace_after(tokens, i)
    if brace then
      read_table(tokens, brace, "", lines)
      break
    end
  end
  return lines
end

-- The line of the one place where `return WORD` is written; nil when there is none or several, of which some may be in comments.
local function only_return(source, word)
  local first, at = nil, 1
  while true do
    local from, last = source:find("%f[%w_]return%s+" .. word .. "%f[^%w_]", at)
    if not from then break end
    if first then return nil end
    first, at = last, last + 1
  end
  if not first then return nil end
  local _, newlines = source:sub(1, first):gsub("\n", "")
  return newlines + 1
end

--- The line of `return WORD …`, the last one; nil when there is none.
---@param source string
---@param word? string
function M.tail(source, word)
  local found = word and only_return(source, word)
  if found then return found end
  local tokens = tokens_from(source, 1)
  for i, token in ipairs(tokens) do
    if token[1] == "return" and token[3] == "name" then
      local next_one = tokens[i + 1]
      if next_one and (not word or next_one[1] == word) then found = next_one[2] end
    end
  end
  return found
end

--- The line of a field, or of the nearest thing around it that has one; nil when the source tells of none.
---@param lines table<string, integer>
---@param path string
function M.line(lines, path)
  while path ~= "" do
    if lines[path] then return lines[path] end
    path = path:match("^(.*)%[%d+%]$") or path:match("^(.*)%.[^.]+$") or ""
  end
  return nil
end

return M
