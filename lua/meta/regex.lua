-- SPDX-License-Identifier: MIT
---@meta
-- luacheck: ignore 212 241
-- lunette.regex: regular expressions in time that grows with the text only (docs/configuration.md has the syntax).

---@class lunette.regex
local regex = {}

---@class lunette.regex.expression
local expression = {}

--- Compiles a pattern. The err names the byte at fault.
---@param pattern string
---@return lunette.regex.expression?
---@return table? err
function regex.compile(pattern) end

--- The leftmost-longest match that is not empty, at or behind init: first and last byte, as string.find; or nil.
---@param text string
---@param init integer?
---@return integer? first
---@return integer? last
function expression:find(text, init) end

--- All matches replaced; the replacement is taken as it is.
---@param text string
---@param replacement string
---@return string
---@return integer n_matches
function expression:gsub(text, replacement) end

return regex
