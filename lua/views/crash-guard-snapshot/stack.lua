-- SPDX-License-Identifier: MIT
-- crash-guard-snapshot/stack: where the final exception was thrown; empty when there was none, or its stack has no names.
local json = require("lunette.json")
local rows = require("collectors.exceptions.rows")
local view = require("lunette.view")

local function summary_of(final)
  if not final then return "No final exception was seen, so there is no stack." end
  if not final.frames then return ("The stack of the final exception (%s) has no names."):format(final.type) end
  local named = 1
  while final.frames[named]:find("^0x%x+$") do named = named + 1 end -- one of them has a name
  if named == 1 then return ("%s, thrown in %s."):format(final.type, final.frames[1]) end
  return ("%s, thrown in %s or in what it called: the %s above it %s no name."):format(final.type, final.frames[named],
    named == 2 and "frame" or ("%d frames"):format(named - 1), named == 2 and "has" or "have")
end

return view {
  kind = "crash-guard-snapshot", name = "stack",
  project = function(artifact)
    local final = artifact.final
    return {
      finalException = rows.wire_row(final, rows.ROW),
      stack = final and final.frames and json.array({ table.unpack(final.frames) }),
    }, { summary = summary_of(final) }
  end,
}
