-- SPDX-License-Identifier: MIT
-- What to call after a guard window.
local hint_rule = require("lunette.hint_rule")

return hint_rule {
  handle = "crash-guard-snapshot", order = 100,
  hints = {
    {
      when = { { field = "unhandled", measured = true }, { field = "unhandled", is_not = false } },
      tool = "collect_process_dump", arguments = { dumpType = "Mini" }, priority = "high",
      reason = "An unhandled exception was seen: a small dump of the process, while it is still there, or of its successor at the next "
        .. "crash, shows the state of its threads. It asks for its own approval.",
    },
    {
      when = { { field = "final.frames", measured = true } }, tool = "query_snapshot", arguments = { view = "stack" },
      reason = "See where the final exception was thrown.",
    },
    {
      tool = "query_snapshot", arguments = { view = "summary" }, priority = "low",
      reason = "See the final exception and the counts of all types.",
    },
  },
}
