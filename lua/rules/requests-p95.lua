-- SPDX-License-Identifier: MIT
-- requests.p95: one request in twenty is slow.
local rule = require("lunette.rule")

return rule {
  name = "requests.p95", order = 70, input = "p95_ms", evidence = "http.server.request.duration", unit = "ms",
  levels = { elevated = 500 },
  summary = "The slowest request series had a p95 of {value} ms.",
  rationale = "One request in twenty takes half a second or longer.",
  next = {
    tool = "collect_events", arguments = { kind = "activities", durationSeconds = 10 },
    reason = "See where slow requests spend their time.",
  },
  indicator = {
    name = "request-duration-p95", order = 80, from = { elevated = 100, high = 500, critical = 2000 }, span = 3000, above_zero = true,
  },
}
