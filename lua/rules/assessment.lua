-- SPDX-License-Identifier: MIT
-- The one word of a triage: the first row from above that holds. Without a measurement nothing is healthy; with a signal neither.
local rule = require("lunette.rule")

return rule {
  name = "assessment", note = "How signals and hypotheses become the assessment.",
  assessment = {
    { word = "critical", signal = "critical", severity = "Critical" },
    { word = "degraded", signal = "high", severity = "Degraded" },
    { word = "degraded", hypothesis = "medium", severity = "Degraded" },
    { word = "inconclusive", signal = "elevated" },
    { word = "inconclusive", unmeasured = { "cpu", "queue", "heap_mb" } },
    { word = "healthy", verdict = "healthy" },
  },
}
