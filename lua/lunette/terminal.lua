-- SPDX-License-Identifier: MIT
-- terminal: text from elsewhere made safe to show on a terminal, and what the subcommands for people share.
local sys = require("lunette.sys")
local text = require("lunette.text")

local M = {}

local STDERR <const> = 2
local BAR <const> = 24

M.EXIT_OK, M.EXIT_FAILURE, M.EXIT_USAGE = 0, 1, 2

--- lunette.text's.
M.printable = text.printable

--- At most so many characters, with "…" where something is missing.
---@param s string
---@param max integer
function M.cut(s, max)
  local n = utf8.len(s)
  if not n or n <= max then return s end
  return s:sub(1, utf8.offset(s, max) - 1) .. "…"
end

--- Tells what is wrong with a command line; returns the exit code for it.
function M.usage(command, why)
  io.stderr:write("lunette ", command, ": ", M.printable(why), "\nlunette ", command, " --help tells more.\n")
  return M.EXIT_USAGE
end

--- Tells why a command failed; returns the exit code for it.
---@param err table
function M.fail(command, err)
  local said = tostring(err.message or err)
  if err.hint and err.hint ~= "" then
    local ended = said:find("[%.:;!%?]$") ~= nil -- a message of the native part lacks its full stop
    said = said .. (ended and " " or err.hint:find("^%u") and ". " or "; ") .. err.hint
  end
  io.stderr:write("lunette ", command, ": ", M.printable(said), "\n")
  return M.EXIT_FAILURE
end

--- Draws the progress of long work on the terminal, where there is one.
---@return fun(value: number, total: number?, message: string?)? draw   nil without a terminal
---@return fun() clear
function M.progress_bar()
  if not sys.isatty(STDERR) then return nil, function() end end
  local shown = false
  local function draw(value, total, message)
    shown = true
    local bar = total and ("#"):rep(math.floor(value * BAR / total)) or ("."):rep(value % BAR)
    io.stderr:write(("\r[%-" .. BAR .. "s] %s "):format(bar, message or ""))
  end
  local function clear()
    if shown then io.stderr:write("\r\27[K") end
  end
  return draw, clear
end

return M
