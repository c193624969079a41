-- SPDX-License-Identifier: MIT
-- text: words for messages: the nearest spelling, lists in a sentence, sizes and times as people read them.
local json = require("lunette.json")

local M = {}

local MAX_WORD <const> = 64 -- longer words are not compared: the cost grows with the square

local function lower(word) return (word:lower():gsub("[_%-%s]", "")) end

--- Edit distance (insert, delete, replace, swap of neighbours), ignoring case and separators.
local function distance(a, b)
  a, b = lower(a), lower(b)
  local before, last = {}, {}
  for j = 0, #b do last[j] = j end
  for i = 1, #a do
    local row = { [0] = i }
    for j = 1, #b do
      local cost = a:byte(i) == b:byte(j) and 0 or 1
      local best = math.min(last[j] + 1, row[j - 1] + 1, last[j - 1] + cost)
      if i > 1 and j > 1 and a:byte(i) == b:byte(j - 1) and a:byte(i - 1) == b:byte(j) then best = math.min(best, before[j - 2] + 1) end
      row[j] = best
    end
    before, last = last, row
  end
  return last[#b]
end

--- The word of the list that was most likely meant, or nil when none is near.
---@param word string
---@param words string[]
---@return string?
function M.nearest(word, words)
  if type(word) ~= "string" or word == "" or #word > MAX_WORD then return nil end
  local best, best_distance
  local function begins(candidate) return candidate:byte(1) == word:byte(1) end
  for _, candidate in ipairs(words) do
    local d = #candidate <= MAX_WORD and distance(word, candidate) or math.huge
    -- "tp" is "top" rather than "op": letters are left out inside a word
    local is_nearer = not best_distance or d < best_distance or d == best_distance and begins(candidate) and not begins(best)
    if is_nearer then best, best_distance = candidate, d end
  end
  if best and best_distance <= math.max(1, math.min(#word, #best) // 2) then return best end
  -- "Diagnostics:HandelStore" is near the beginning of "Diagnostics:HandleStore:MaxEntries"
  for _, candidate in ipairs(words) do
    if #word >= 6 and #candidate > #word and distance(word, candidate:sub(1, #word)) <= #word // 4 then return candidate end
  end
  local short = lower(word)
  for _, candidate in ipairs(words) do
    if #short >= 3 and (lower(candidate):find(short, 1, true) or short:find(lower(candidate), 1, true)) then return candidate end
  end
  return nil
end

--- ` Did you mean "x"?`, or "": goes behind the full stop of a message.
function M.did_you_mean(word, words)
  local near = M.nearest(word, words)
  return near and (' Did you mean "%s"?'):format(near) or ""
end

--- A value as it is quoted in a message: short, one line, valid UTF-8.
function M.quote(value)
  if type(value) == "table" and value ~= json.null then return json.is_array(value) and "a list" or "an object" end
  local s = type(value) == "string" and value or value == json.null and "null" or tostring(value)
  s = s:gsub("%c", " ")
  if #s > 80 then
    local cut = 77
    while cut > 0 and (s:byte(cut + 1) & 0xC0) == 0x80 do cut = cut - 1 end
    s = s:sub(1, cut) .. "..."
  end
  return '"' .. s .. '"'
end

--- "a", "a or b", "a, b or c".
function M.join(words, conjunction)
  local n = #words
  if n < 2 then return words[1] or "" end
  return table.concat(words, ", ", 1, n - 1) .. " " .. (conjunction or "and") .. " " .. words[n]
end

--- 1, "caller" -> "1 caller"; 2, "caller" -> "2 callers".
---@param n integer
---@param noun string
---@param plural? string   where it is not the noun and an s
function M.count(n, noun, plural) return ("%d %s"):format(n, n == 1 and noun or plural or noun .. "s") end

--- "a cpu-sample", "an allocation-sample".
---@param noun string
---@return string
function M.with_article(noun) return (noun:find("^[aeiou]") and "an " or "a ") .. noun end

--- The keys of a map, sorted.
function M.keys(map)
  local list = {}
  for key in pairs(map) do list[#list + 1] = key end
  table.sort(list)
  return list
end

--- 1536 -> "1.5 KiB".
function M.bytes(n)
  local units = { "B", "KiB", "MiB", "GiB", "TiB" }
  local i, x = 1, n
  while math.abs(x) >= 1024 and i < #units do i, x = i + 1, x / 1024 end
  return i == 1 and ("%d B"):format(n) or ("%.1f %s"):format(x, units[i])
end

--- One line without control characters: what a target calls itself must not move the cursor or set a title.
---@param s string   valid UTF-8
---@return string
function M.printable(s)
  s = s:gsub("[%c]", "?"):gsub("\xC2[\x80-\x9F]", "?") -- C0 and, as UTF-8 has them, C1
  -- What turns the direction of text: U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069.
  return (s:gsub("\xD8\x9C", "?"):gsub("\xE2\x80[\x8E\x8F\xAA-\xAE]", "?"):gsub("\xE2\x81[\xA6-\xA9]", "?"))
end

return M
