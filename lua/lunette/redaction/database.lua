-- SPDX-License-Identifier: MIT
-- Error messages of databases that repeat a value of the statement or of a row: SQLite, SQL Server, PostgreSQL, MySQL.
local splice = require("lunette.redaction.splice")

local M = {}

local NEAR <const> = 96    -- bytes behind the head in which the value begins
local LONGEST <const> = 4096 -- bytes of a value

-- How the message goes on to the value, what stands before the value, what behind it.
local MESSAGES <const> = {
  { "no such column: ", '"', '"' }, { "unrecognized token: ", '"', '"\'' }, { "near ", '"', '": syntax error' },
  { "Incorrect syntax near ", "'", "'." }, { "Unclosed quotation mark after the character string ", "'", "'." },
  { "Conversion failed when converting the ", "'", "' to data type" }, { "The duplicate key value is ", "(", ")." },
  { "Invalid column name ", "'", "'." }, { "Truncated value: ", "'", "'." },
  { "at or near ", '"', '"' }, { "invalid input syntax for ", '"', '"' }, { "Failing row contains ", "(", ")." },
  { "invalid input value for enum ", '"', '"' },
  { "Duplicate entry ", "'", "' for key" }, { "the right syntax to use near ", "'", "' at line" },
  { "Incorrect integer value: ", "'", "' for column" }, { "Incorrect datetime value: ", "'", "' for column" },
  { "Key (", ")=(", ") " },
}

-- The value of a message whose head ends at `at`: its first and last byte; nil when none is there.
local function value_of(text, message, at)
  local _, found = text:sub(at + 1, at + NEAR):find(message[2], 1, true)
  if not found then return nil end
  local start = at + found + 1
  local stop = text:sub(start, start + LONGEST):find(message[3], 1, true)
  if not stop and message[1] == "near " then return nil end -- alone it is an ordinary word
  local last = stop and start + stop - 2 or (text:find("[\r\n]", start) or #text + 1) - 1
  if last < start or text:find("^<redacted:", start) then return nil end
  return start, last
end

local function one(text, message, mark)
  return splice.replace(text, mark, function(from)
    local _, at = text:find(message[1], from, true)
    if not at then return nil end
    local first, last = value_of(text, message, at)
    return (last or at) + 1, first, last
  end)
end

--- Text without the values that such messages repeat.
---@param text string
---@param mark string
function M.redact(text, mark)
  for _, message in ipairs(MESSAGES) do
    if text:find(message[1], 1, true) then text = one(text, message, mark) end
  end
  return text
end

return M
