-- SPDX-License-Identifier: MIT
-- gc-datas/samples: what was measured at each collection, in order of time.
local snapshot = require("collectors.datas.snapshot")
local view = require("lunette.view")

return view {
  kind = "gc-datas", name = "samples",
  project = function(artifact, opts)
    local rows, more = snapshot.samples(artifact, opts.topN)
    return { returned = #rows, samples = rows }, { summary = ("%d of %d samples."):format(#rows, #rows + more) }
  end,
}
