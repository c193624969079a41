-- SPDX-License-Identifier: MIT
---@meta
-- luacheck: ignore 212 241
-- lunette.sys: this process, its environment, its output; UTF-8.

---@class lunette.sys
---@field pid integer
---@field version string
---@field home string    the folder that holds lua/, playbooks/ and schemas/
---@field args string[]  after the subcommand
local sys = {}

---@param name string
---@return string?
function sys.getenv(name) end

---@return table<string, string>
function sys.environ() end

---@param fd integer
---@return boolean
function sys.isatty(fd) end

--- As load for text, but for our own unchanged scripts, which come compiled with the program.
---@param text string
---@param chunkname string  "@lua/NAME.lua" for ours
---@return function?
---@return string? message
function sys.load(text, chunkname) end

--- All of it to stdout, at once.
---@param text string
---@return true?
---@return LunetteErr? err
function sys.write(text) end

--- The first failure to write to standard output, or nil; a reader that went away is none.
---@return LunetteErr?
function sys.stdout_error() end

--- The longest prefix of valid UTF-8 of at most max bytes that splits no character.
---@param s string
---@param max integer
---@return string
function sys.utf8_cut(s, max) end

--- Every invalid sequence becomes U+FFFD.
---@param s string
---@return string
function sys.utf8_sanitize(s) end

return sys
