-- SPDX-License-Identifier: MIT
---@meta
-- luacheck: ignore 212
-- lunette.stdio: lines in on stdin, lines out on stdout, and nothing else there.

---@class lunette.stdio
local stdio = {}

---@class LunetteStdioOptions
---@field on_line fun(line: string?)  nil: a line over the limit
---@field on_eof fun()
---@field max_line? integer           bytes

---@param opts LunetteStdioOptions
---@return true?
---@return LunetteErr? err
function stdio.serve(opts) end

---@param line string
---@return true?
---@return LunetteErr? err
function stdio.write(line) end

--- Gives what is still to be written this much time.
---@param ms integer
function stdio.flush(ms) end

return stdio
