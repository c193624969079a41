-- SPDX-License-Identifier: MIT
-- The schema of redaction { … }.
local function compiles(pattern)
  local found, regex = pcall(require, "lunette.regex")
  if not found then return nil end
  local compiled, err = regex.compile(pattern)
  return not compiled and "is no POSIX extended regular expression: " .. tostring(err.message or err) or nil
end

return {
  room = "redaction", title = "a redaction", note = "Patterns of secrets: what matches is taken out of every text of a target.",
  fields = {
    {
      "patterns", "list", required = true, non_empty = true, of = { type = "string", max_bytes = 1024, check = compiles },
      note = "POSIX extended regular expressions",
    },
    { "note", "string", note = "one sentence for the reference" },
  },
}
