-- SPDX-License-Identifier: MIT
-- gc-datas/gen2: the decisions after full collections, in order of time.
local snapshot = require("collectors.datas.snapshot")
local view = require("lunette.view")

return view {
  kind = "gc-datas", name = "gen2",
  project = function(artifact, opts)
    local rows, more = snapshot.gen2(artifact, opts.topN)
    return { returned = #rows, gen2 = rows }, { summary = ("%d of %d decisions after full collections."):format(#rows, #rows + more) }
  end,
}
