-- SPDX-License-Identifier: MIT
-- Exceptions in an interval as a headline metric.
local rule = require("lunette.rule")

return rule {
  name = "exception-count", order = 120, input = "exceptions",
  indicator = {
    name = "exception-count", order = 70, unit = "exceptions", from = { elevated = 1, high = 10, critical = 50 }, span = 50, quiet = true,
    above_zero = true,
  },
}
