-- SPDX-License-Identifier: MIT
-- What to call after a window of log messages.
local hint_rule = require("lunette.hint_rule")

local function warnings_and_errors(artifact) return artifact.levels[3] + artifact.levels[4] + artifact.levels[5] end

local function carries_trace(artifact)
  for _, entry in ipairs(artifact.errors) do
    if entry.trace_id then return true end
  end
  return false
end

return hint_rule {
  handle = "log-snapshot", order = 100,
  hints = {
    {
      when = { { of = warnings_and_errors, above = 0 } }, tool = "query_snapshot", arguments = { view = "errors", topN = 25 },
      reason = "See the newest of {value} warnings and errors.",
    },
    {
      otherwise = true, tool = "query_snapshot", arguments = { view = "errors", topN = 25 },
      reason = "See whether a warning or an error is among the messages kept.",
    },
    {
      when = carries_trace, tool = "collect_events", arguments = { kind = "activities", durationSeconds = 10 },
      reason = "Messages carry trace ids: see the spans around them while they come.",
    },
    {
      tool = "collect_sample", arguments = { kind = "cpu", durationSeconds = 10 }, reason = "See what the program runs meanwhile.",
    },
  },
}
