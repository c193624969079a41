-- SPDX-License-Identifier: MIT
-- What to call after a jit window.
local hint_rule = require("lunette.hint_rule")

return hint_rule {
  handle = "jit-snapshot", order = 100,
  hints = {
    { tool = "query_snapshot", arguments = { view = "topMethods", topN = 25 }, reason = "See the methods by compile time." },
    {
      when = { { any = { { field = "rejit", above = 0 }, { field = "osr", above = 0 } } } },
      tool = "query_snapshot", arguments = { view = "reJIT" },
      reason = "See which methods were compiled again or replaced while they ran.",
    },
    {
      live = true, tool = "collect_sample", arguments = { kind = "cpu", durationSeconds = 10 },
      reason = "See whether the compiled methods or the compiler take the CPU.",
    },
  },
}
