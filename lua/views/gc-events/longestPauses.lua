-- SPDX-License-Identifier: MIT
-- gc-events/longestPauses: the longest fully suspended phases. They belong to no generation, and are no collections.
local json = require("lunette.json")
local snapshot = require("collectors.gc.snapshot")
local view = require("lunette.view")

return view {
  kind = "gc-events", name = "longestPauses",
  project = function(artifact, opts)
    local s = artifact.suspensions
    if s.status == "unavailable" then
      return snapshot.measurement(artifact, { returned = 0 }),
        { summary = "Suspensions are not known: " .. table.concat(s.quality, ", ") .. "." }
    end
    local rows = json.array({})
    for i, row in ipairs(snapshot.longest(artifact, opts.topN)) do rows[i] = snapshot.interval(artifact, row) end
    return snapshot.measurement(artifact, { longestPauses = rows, returned = #rows }),
      { summary = ("The longest %d of %d suspensions."):format(#rows, s.pause.n) }
  end,
}
