-- SPDX-License-Identifier: MIT
-- What to call after a window of stack samples.
local hint_rule = require("lunette.hint_rule")

local WAIT_HEAVY <const> = 0.5 -- share of samples at known waits

local function wait_heavy(artifact)
  local info = artifact.info
  return info.samples > 0 and artifact.evidence.kind ~= "OsOnCpuSamples" and info.waiting >= WAIT_HEAVY * info.samples
end

return hint_rule {
  handle = "cpu-sample", order = 100,
  hints = {
    {
      tool = "query_snapshot", arguments = { view = "call-tree", maxDepth = 8, maxNodes = 200 }, priority = "high",
      reason = "See the merged call tree.",
    },
    { tool = "query_snapshot", arguments = { view = "triage" }, reason = "See leaders, waits and the hot path in one small answer." },
    {
      when = wait_heavy, tool = "collect_sample", arguments = { kind = "off_cpu", durationSeconds = 10 },
      reason = "Most samples are known waits: blocked time tells where threads wait and for how long.",
    },
    {
      tool = "collect_events", arguments = { kind = "exceptions", durationSeconds = 10 },
      reason = "See whether exceptions take part of it.",
    },
  },
}
