-- SPDX-License-Identifier: MIT
-- crash-guard-snapshot/stack: where the final exception was thrown; empty when there was none, or its stack has no names.
local json = require("lunette.json")
local rows = require("collectors.exceptions.rows")
local view = require("lunette.view")

local function summary_of(final)
  if not final then return "No final exception was seen, so there is no stack." end
  if not final.frames then return ("The stack of the final exception (%s) has no names."):format(final.type) end
  return ("%s, thrown in %s."):format(final.type, final.frames[1])
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
