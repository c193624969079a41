-- SPDX-License-Identifier: MIT
-- gc-events/summary: totals of both streams, each with what is known of its quality.
local snapshot = require("collectors.gc.snapshot")
local view = require("lunette.view")

return view {
  kind = "gc-events", name = "summary",
  project = function(artifact)
    return snapshot.measurement(artifact, {
      generations = snapshot.generations(artifact), reasons = next(artifact.collections.reasons) and artifact.collections.reasons or nil,
      induced = artifact.induced, notes = snapshot.notes(artifact),
    }), { summary = snapshot.sentence(artifact) }
  end,
}
