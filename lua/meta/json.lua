-- SPDX-License-Identifier: MIT
---@meta
-- luacheck: ignore 212 241
-- lunette.json: Lua values to compact JSON with exact integers, and back.

---@class lunette.json
---@field null lightuserdata  what JSON null is in Lua: a value of its own, and true in a condition
local json = {}

--- Throws, with the path, for what JSON cannot hold: functions, cycles, lists that have other keys too.
---@param value any
---@return string
---@nodiscard
function json.encode(value) end

---@param text string
---@param ordered? boolean  true: objects keep the order of their keys, in `__order` of a metatable
---@return any value
---@return LunetteErr? err  MalformedInput with the offset, LimitExceeded
---@nodiscard
function json.decode(text, ordered) end

--- Marks a table (a new one if none is given) as an array, so that it is written as one even when it is empty.
---@param t? table
---@return table t
function json.array(t) end

---@param value any
---@return boolean  # marked as an array, or a table with [1]
function json.is_array(value) end

--- A value that is written as this text, which must be one JSON value. A site script gets what the text says, as a plain value.
---@param text string
---@return table
function json.raw(text) end

return json
