-- SPDX-License-Identifier: MIT
-- gc-events/pauseHistogram: how many suspensions were how long. No buckets at all when that is not known.
local json = require("lunette.json")
local snapshot = require("collectors.gc.snapshot")
local view = require("lunette.view")

return view {
  kind = "gc-events", name = "pauseHistogram",
  project = function(artifact)
    local s = artifact.suspensions
    if s.status == "unavailable" then
      return snapshot.measurement(artifact, {}), { summary = "Suspensions are not known: " .. table.concat(s.quality, ", ") .. "." }
    end
    local buckets = json.array({})
    for i, label in ipairs(snapshot.LABELS) do
      buckets[i] = setmetatable({ label = label, upperBoundMs = snapshot.BOUNDS[i], count = s.buckets[i] },
        { __order = { "label", "upperBoundMs", "count" } })
    end
    return snapshot.measurement(artifact, { buckets = buckets }), { summary = ("%d suspensions by length."):format(s.pause.n) }
  end,
}
