-- SPDX-License-Identifier: MIT
-- The verdicts of the views named diff: several captures side by side.
local rule = require("lunette.rule")

return rule {
  name = "journey", note = "dispersed_at: coefficient of variation from which replicas are not alike. moved_percent: a smaller change "
    .. "from first to last is flat, unless minDeltaPct says otherwise.",
  numbers = { dispersed_at = 0.25, moved_percent = 5 },
}
