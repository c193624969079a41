-- SPDX-License-Identifier: MIT
-- What to call after inspect_process(view="resources"): by the newest sample (last), how it moved since the first, and the report.
local hint_rule = require("lunette.hint_rule")

local HTTP <const> = { kind = "event_source", providerName = "System.Net.Http", durationSeconds = 10 }
local LEAK <const>, CHURN <const> = 100, 100 -- connections above which a leak, or connections that are not reused, are likely
local FLAT <const> = 5                       -- descriptors up or down that still count as flat

return hint_rule {
  handle = "resources", order = 100,
  hints = {
    {
      when = {
        { field = "last.sockets.closeWait", above = LEAK },
        {
          any = {
            { field = "samples", equals = 1 },
            { from = { { field = "last.sockets.closeWait" }, { field = "first.sockets.closeWait" } }, as = "difference", above = 0 },
          },
        },
      },
      tool = "collect_events", arguments = HTTP, priority = "high",
      reason = "{value} connections in CLOSE_WAIT: responses that nobody disposes?",
    },
    {
      when = { { field = "last.limits.noFileUsageFraction", above = 0.85 } }, tool = "collect_process_dump",
      arguments = { dumpType = "Mini" }, priority = "high", reason = "Descriptors are nearly used up: take a dump before it fails.",
    },
    {
      when = {
        { field = "last.sockets.timeWait", above = CHURN }, { field = "samples", above = 1 },
        {
          from = { { field = "last.fdCount" }, { field = "first.fdCount" } }, of = function(last, first) return math.abs(last - first) end,
          at_most = FLAT,
        },
      },
      tool = "collect_events", arguments = HTTP, priority = "high",
      reason = "Many connections in TIME_WAIT and no more descriptors: connections are not reused.",
    },
    {
      when = { { field = "report.managedVsNative.rssDominated", equals = true } }, tool = "inspect_heap", arguments = { source = "live" },
      reason = "Native memory dominates: rule out pinned or fragmented heap first.",
    },
    {
      otherwise = true, tool = "collect_events", arguments = { kind = "counters", durationSeconds = 5 },
      reason = "Nothing stands out: read the counters.",
    },
  },
}
