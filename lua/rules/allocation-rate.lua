-- SPDX-License-Identifier: MIT
-- The rate of allocation as a headline metric. A high one alone is no finding.
local rule = require("lunette.rule")

return rule {
  name = "alloc-rate", order = 100, input = "alloc_bytes",
  indicator = {
    name = "alloc-rate", order = 50, scale = 1e-6, unit = "MB/s", from = { elevated = 10, high = 50, critical = 100 }, span = 100,
  },
}
