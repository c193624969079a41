-- SPDX-License-Identifier: MIT
-- startup-snapshot/modules: the modules that were loaded in the window, in order of time.
local rows = require("collectors.startup.rows")
local view = require("lunette.view")

return view {
  kind = "startup-snapshot", name = "modules",
  project = function(artifact, opts)
    local list = rows.modules(artifact, opts.topN)
    return { returned = #list, modules = list }, { summary = ("%d of %d module loads."):format(#list, #artifact.modules) }
  end,
}
