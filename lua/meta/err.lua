-- SPDX-License-Identifier: MIT
---@meta
-- luacheck: ignore 212 241
-- What every native module returns after nil when something expected went wrong.

---@class LunetteErr
---@field kind string       one of the contract's error kinds: "NotFound", "Timeout", "Cancelled", …
---@field message string    what went wrong, one sentence
---@field detail? string    the parameter, path or value at fault
---@field hint? string      what to do next
---@field offset? integer   byte offset in the input
---@field sys? integer      errno
---@field hresult? integer  of a runtime's answer
local Err = {}

--- Puts "where: " before the message.
---@param where string
---@return LunetteErr self
function Err:at(where) end
