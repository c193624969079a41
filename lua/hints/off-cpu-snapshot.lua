-- SPDX-License-Identifier: MIT
-- What to call after a window of the scheduler's switches.
local hint_rule = require("lunette.hint_rule")

local LOCKED <const> = 0.2 -- of the blocked time, in waits of a mutex's kind

local function locked(artifact)
  local info = artifact.info
  return info.micros > 0 and info.sync.locks_micros >= LOCKED * info.micros
end

return hint_rule {
  handle = "off-cpu-snapshot", order = 100,
  hints = {
    { tool = "query_snapshot", arguments = { view = "byThread" }, priority = "high", reason = "See which threads wait, and where." },
    {
      when = locked, tool = "collect_sample", arguments = { kind = "native-lock-contention", durationSeconds = 5 },
      reason = "Threads wait for mutexes: see who takes them.",
    },
    { tool = "collect_sample", arguments = { kind = "cpu", durationSeconds = 10 }, reason = "See what runs while others wait." },
  },
}
