-- SPDX-License-Identifier: MIT
-- kestrel-snapshot/config: the server's options as of the start of the window.
local json = require("lunette.json")
local view = require("lunette.view")

return view {
  kind = "kestrel-snapshot", name = "config",
  project = function(artifact)
    local notes = json.array({ table.unpack(artifact.notes) })
    if not artifact.options then notes[#notes + 1] = "No options were told when the window opened." end
    return { configurationJson = artifact.options, notes = notes },
      { summary = artifact.options and "The server's options." or "No options were told." }
  end,
}
