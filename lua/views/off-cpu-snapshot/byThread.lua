-- SPDX-License-Identifier: MIT
-- off-cpu-snapshot/byThread: how long each thread waited, and where most.
local view = require("lunette.view")
local wire = require("samplers.offcpu_wire")

return view {
  kind = "off-cpu-snapshot", name = "byThread",
  project = function(artifact, opts)
    local rows = wire.threads(artifact, opts.topN)
    local first = rows[1]
    return rows, {
      fields = { totalOffCpuMicros = artifact.info.micros },
      summary = first and ("%d of %d threads; longest %s (%d): %.3f s, most in %s."):format(#rows, artifact.info.threads, first.threadName,
        first.tid, first.offCpuMicros / 1e6, first.topBlockingLeaf) or "No thread.",
    }
  end,
}
