-- SPDX-License-Identifier: MIT
-- Error messages of databases that repeat a value of the statement or of a row: SQLite, SQL Server, PostgreSQL, MySQL.
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

local function one(text, message, mark)
  local head, open, close = message[1], message[2], message[3]
  local out, kept, from = {}, 1, 1
  while true do
    local _, at = text:find(head, from, true)
    if not at then break end
    from = at + 1
    local _, start = text:sub(from, at + NEAR):find(open, 1, true)
    if start then
      start = at + start + 1
      local stop = text:sub(start, start + LONGEST):find(close, 1, true)
      -- "near" alone is an ordinary word
      if stop or head ~= "near " then
        local last = stop and start + stop - 2 or (text:find("[\r\n]", start) or #text + 1) - 1
        if last >= start and not text:find("^<redacted:", start) then
          out[#out + 1] = text:sub(kept, start - 1) .. mark
          kept, from = last + 1, last + 1
        end
      end
    end
  end
  out[#out + 1] = text:sub(kept)
  return table.concat(out)
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
