-- SPDX-License-Identifier: MIT
-- What to call after a window of calls of the native allocator.
local hint_rule = require("lunette.hint_rule")

return hint_rule {
  handle = "native-alloc-sample", order = 100,
  hints = {
    { tool = "query_snapshot", arguments = { view = "call-tree" }, priority = "high", reason = "See who allocates, and who calls them." },
    { tool = "inspect_process", arguments = { view = "memory_trend" }, reason = "See whether memory grows at all." },
  },
}
