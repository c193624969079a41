-- SPDX-License-Identifier: MIT
-- terminal: text from elsewhere made safe to show on a terminal, and what the subcommands for people share.
local M = {}

M.EXIT_OK, M.EXIT_FAILURE, M.EXIT_USAGE = 0, 1, 2

--- One line without control characters: what a target calls itself must not move the cursor or set a title.
---@param s string   valid UTF-8
---@return string
function M.printable(s)
  s = s:gsub("[%c]", "?"):gsub("\xC2[\x80-\x9F]", "?") -- C0 and, as UTF-8 has them, C1
  -- What turns the direction of text: U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069.
  return (s:gsub("\xD8\x9C", "?"):gsub("\xE2\x80[\x8E\x8F\xAA-\xAE]", "?"):gsub("\xE2\x81[\xA6-\xA9]", "?"))
end

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
  local text = tostring(err.message or err)
  if err.hint and err.hint ~= "" then text = text .. " " .. err.hint end
  io.stderr:write("lunette ", command, ": ", M.printable(text), "\n")
  return M.EXIT_FAILURE
end

return M
