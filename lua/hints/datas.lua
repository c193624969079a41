-- SPDX-License-Identifier: MIT
-- What to call after a window of the collector's tuning.
local hint_rule = require("lunette.hint_rule")

return hint_rule {
  handle = "gc-datas", order = 100,
  hints = {
    {
      when = function(artifact) return artifact.history:seen() == 0 end,
      tool = "collect_events", arguments = { kind = "gc", durationSeconds = 10 },
      reason = "See the collections themselves.",
    },
    { tool = "query_snapshot", arguments = { view = "overview" }, reason = "See the range of heaps and what it cost." },
    {
      when = { { field = "history.stats.changes", above = 0 } }, tool = "query_snapshot",
      arguments = { view = "tuning", changesOnly = true }, reason = "See when the number of heaps changed.",
    },
  },
}
