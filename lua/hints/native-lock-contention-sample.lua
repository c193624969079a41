-- SPDX-License-Identifier: MIT
-- What to call after a window of calls of native mutexes.
local hint_rule = require("lunette.hint_rule")

return hint_rule {
  handle = "native-lock-contention-sample", order = 100,
  hints = {
    { tool = "query_snapshot", arguments = { view = "call-tree" }, priority = "high", reason = "See who takes mutexes." },
    { tool = "collect_sample", arguments = { kind = "off_cpu" }, reason = "Only waits tell whether threads block: see where they do." },
  },
}
