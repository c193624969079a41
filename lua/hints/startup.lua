-- SPDX-License-Identifier: MIT
-- What to call after a window of a start.
local hint_rule = require("lunette.hint_rule")

return hint_rule {
  handle = "startup-snapshot", order = 100,
  hints = {
    { tool = "query_snapshot", arguments = { view = "timeline" }, reason = "See loads and resolves in order of time." },
    { tool = "collect_events", arguments = { kind = "jit" }, live = true, reason = "See what the JIT compiles." },
  },
}
