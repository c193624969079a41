-- SPDX-License-Identifier: MIT
-- off-cpu-snapshot/topStacks: the stacks at which threads waited, most time first.
local view = require("lunette.view")
local wire = require("samplers.offcpu_wire")

return view {
  kind = "off-cpu-snapshot", name = "topStacks",
  project = function(artifact, opts)
    local rows = wire.stacks(artifact, opts.topN)
    return rows, {
      fields = { totalOffCpuMicros = artifact.info.micros },
      summary = ("%d of %d stacks; most time in %s."):format(#rows, artifact.info.stacks, rows[1] and rows[1].leafFrame or "none"),
    }
  end,
}
