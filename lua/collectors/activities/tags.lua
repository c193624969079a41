-- SPDX-License-Identifier: MIT
-- The tags of a span. The bridge sends them as one text, "[key, value],[key, value]", without escapes: a value that holds "],[" and looks
-- like the begin of another tag cannot be told from one.
local events = require("lunette.events")
local payload = require("collectors.event_source.payload")
local redaction = require("lunette.redaction")
local sys = require("lunette.sys")
local untrusted = require("collectors.untrusted")

local M = {}

-- Tags that hold a statement: it loses its values as in kind=db. And what begins the name of one that holds a value of a statement.
local STATEMENTS <const> = { ["db.statement"] = true, ["db.query.text"] = true }
local PARAMETER <const> = "^db%.query%.parameter%."

M.MAX = 64         -- tags of a span
M.MAX_KEY = 128    -- bytes
M.MAX_VALUE = 1024 -- bytes
M.MAX_BYTES = 8192 -- of all together

-- Where the value that begins at `from` ends: before the next "],[key, ", or at the last bracket.
local function value_end(text, from)
  local at = from
  while true do
    local close = text:find("],[", at, true)
    if not close then break end
    if text:find("^[^%s,%[%]]+, ", close + 3) then return close - 1, close + 3 end
    at = close + 1
  end
  return text:sub(-1) == "]" and #text - 1 or #text, nil
end

local function without_values(key, value)
  if STATEMENTS[key] then return events.sql(value) end
  return key:find(PARAMETER) and redaction.SQL_LITERAL or value
end

local MEMO_VALUE <const> = 64 -- bytes: longer values seldom come again

-- A name and a value without secrets. `memo` holds what was seen in the same capture: values repeat, and looking for secrets takes time.
local function cleaned(key, value, memo)
  local text = #value <= MEMO_VALUE and key .. "\0" .. value or nil
  local known = text and memo:get(text)
  if known then return known[1], known[2] end
  known = { untrusted.cut(redaction.redact(key), M.MAX_KEY), untrusted.cut(payload.text(without_values(key, value), key), M.MAX_VALUE) }
  if text then memo:put(text, known) end
  return known[1], known[2]
end

--- The tags as a map from key to text, without secrets, with the order in which they were set.
---@param text string?       as the bridge sends it
---@param row_max integer    text_max of the program
---@param memo table         collectors.memo
---@return table<string, string> tags
function M.parse(text, row_max, memo)
  local tags, order, left = {}, {}, M.MAX_BYTES
  if type(text) ~= "string" then return setmetatable(tags, { __order = order }) end
  text = sys.utf8_sanitize(text)
  local at = text:sub(1, 1) == "[" and 2 or nil
  while at and #order < M.MAX and left > 0 do
    local key, from = text:match("^([^,]+), ()", at)
    if not key then break end
    local last, following = value_end(text, from)
    local value = text:sub(from, last)
    if not following and #text >= row_max // 2 then value = untrusted.clean(value, M.MAX_VALUE, 0) end -- cut by the engine
    local name
    name, value = cleaned(key, value, memo)
    if not tags[name] then order[#order + 1] = name end
    tags[name] = value
    left = left - #name - #value
    at = following
  end
  return setmetatable(tags, { __order = order })
end

return M
