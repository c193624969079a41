-- SPDX-License-Identifier: MIT
-- startup-snapshot/assemblies: the assemblies that were loaded in the window, in order of time.
local rows = require("collectors.startup.rows")
local view = require("lunette.view")

return view {
  kind = "startup-snapshot", name = "assemblies",
  project = function(artifact, opts)
    local list = rows.assemblies(artifact, opts.topN)
    return { returned = #list, assemblies = list }, { summary = ("%d of %d assembly loads."):format(#list, #artifact.assemblies) }
  end,
}
