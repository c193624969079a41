-- SPDX-License-Identifier: MIT
-- Full collections in an interval as a headline metric.
local rule = require("lunette.rule")

return rule {
  name = "gen-2-gc-count", order = 110, input = "gen2",
  indicator = {
    name = "gen-2-gc-count", order = 60, unit = "collections", from = { elevated = 1, high = 3, critical = 10 }, span = 10, quiet = true,
  },
}
