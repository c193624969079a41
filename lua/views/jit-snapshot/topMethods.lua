-- SPDX-License-Identifier: MIT
-- jit-snapshot/topMethods: the methods by inclusive compile time, longest first.
local snapshot = require("collectors.jit.snapshot")
local view = require("lunette.view")

return view {
  kind = "jit-snapshot", name = "topMethods",
  project = function(artifact, opts)
    local rows = snapshot.methods(artifact, opts.topN)
    local summary = ("%d of %d compiled methods, by JIT time."):format(#rows, artifact.unique_methods)
    return { uniqueMethods = artifact.unique_methods, returned = #rows, methods = rows }, { summary = summary }
  end,
}
