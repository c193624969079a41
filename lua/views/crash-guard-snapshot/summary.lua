-- SPDX-License-Identifier: MIT
-- crash-guard-snapshot/summary: how the process ended, the final exception, the counts by type.
local snapshot = require("collectors.crash_guard.snapshot")
local view = require("lunette.view")

return view {
  kind = "crash-guard-snapshot", name = "summary",
  project = function(artifact) return snapshot.wire_summary(artifact), { summary = snapshot.sentence(artifact) } end,
}
