-- SPDX-License-Identifier: MIT
-- jit-snapshot/reJIT: the methods that were compiled again or replaced while they ran, by compile time.
local snapshot = require("collectors.jit.snapshot")
local view = require("lunette.view")

local function again(m) return m.rejit > 0 or m.osr > 0 end

return view {
  kind = "jit-snapshot", name = "reJIT",
  project = function(artifact, opts)
    local rows, n = snapshot.methods(artifact, opts.topN, again)
    return { reJitCount = artifact.rejit, osrCount = artifact.osr, returned = #rows, methods = rows },
      { summary = ("%d of %d methods that were compiled again; %d of the compilations replaced a running loop (OSR)."):format(#rows, n,
        artifact.osr) }
  end,
}
