-- SPDX-License-Identifier: MIT
-- What collect_events(kind="db") counts as an incident of the view n+1.
local rule = require("lunette.rule")

return rule {
  name = "db.repeats", note = "The same command more often than this under one parent is an incident of the view n+1.",
  numbers = { more_than = 10 },
}
