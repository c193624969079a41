-- SPDX-License-Identifier: MIT
-- startup-snapshot/di: the DependencyInjection events of the window, in order of time.
local rows = require("collectors.startup.rows")
local view = require("lunette.view")

return view {
  kind = "startup-snapshot", name = "di",
  project = function(artifact, opts)
    local list = rows.di(artifact, opts.topN)
    return { returned = #list, di = list }, { summary = ("%d of %d DI events."):format(#list, #artifact.di) }
  end,
}
