-- SPDX-License-Identifier: MIT
-- Text that a target wrote, made fit to be kept: valid UTF-8, secrets out, then cut to a size at a character. What it says stays as it is:
-- it is data, never an order.
local redaction = require("lunette.redaction")
local sys = require("lunette.sys")

local M = {}

local MARK <const> = "..."
local LAST_WORD <const> = 200 -- bytes: of a text that was cut, an end without a blank that is longer is no word

--- Cuts a text to so many bytes; what was cut ends in "...".
---@param text string
---@param max integer   at least 3
---@return string
function M.cut(text, max)
  if #text <= max then return text end
  return sys.utf8_cut(text, max - #MARK) .. MARK
end

-- The engine cut this text: its last word may be half a secret, which nobody recognises any more.
local function without_half_a_word(text)
  local kept = text:sub(1, -#MARK - 1)
  local from = kept:sub(-LAST_WORD):match(".*%s()%S*$")
  if from then return kept:sub(1, math.max(0, #kept - LAST_WORD) + from - 1) .. MARK end
  return sys.utf8_cut(kept, math.max(0, #kept - LAST_WORD)) .. MARK
end

--- The text without secrets, in at most `max` bytes.
---@param text any          nil and what is no text give ""
---@param max integer
---@param row_max integer?  text_max of the program that it comes from: where the engine cut it
---@return string
function M.clean(text, max, row_max)
  if type(text) ~= "string" or text == "" then return "" end
  text = sys.utf8_sanitize(text)
  if row_max and #text >= row_max // 2 and text:sub(-#MARK) == MARK then text = without_half_a_word(text) end
  return M.cut(redaction.redact(text), max)
end

return M
