-- SPDX-License-Identifier: MIT
-- thread-snapshot/threads-summary: all threads in the order of the runtime's own list.
local answer = require("threads.answer")
local view = require("lunette.view")
local wire = require("threads.wire")

return view {
  kind = "thread-snapshot", name = "threads-summary",
  project = function(artifact, opts)
    return wire.threads(artifact.threads, opts.topN, 3, false), {
      fields = answer.fields(artifact),
      summary = ("%d threads, and %d without managed code."):format(#artifact.threads, artifact.native and 0
        or math.max(0, artifact.n_native)),
    }
  end,
}
