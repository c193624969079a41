-- SPDX-License-Identifier: MIT
-- jit-snapshot/tierDistribution: compilations by tier, and what ReadyToRun code spared.
local snapshot = require("collectors.jit.snapshot")
local view = require("lunette.view")

return view {
  kind = "jit-snapshot", name = "tierDistribution",
  project = function(artifact)
    local all = snapshot.totals(artifact)
    return {
      distribution = all.distribution, tier1Percent = all.tier1Percent, r2rHitRatePercent = all.r2rHitRatePercent,
      healthCheck = all.healthCheck,
    }, {
      summary = ("%d compilations at tier 0, %d optimised; %d of %d ReadyToRun lookups found code."):format(artifact.tiers.tier0,
        artifact.tiers.tier1, artifact.tiers.r2r_hit, artifact.r2r_lookups),
    }
  end,
}
