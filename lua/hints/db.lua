-- SPDX-License-Identifier: MIT
-- What to call after a window of database commands.
local hint_rule = require("lunette.hint_rule")

local SLOW_MS <const> = 50 -- of the 95th percentile of a statement

local function slowest(artifact)
  local ms = 0
  for _, c in ipairs(artifact.commands) do ms = math.max(ms, c.p95_ms) end
  return ms
end

local function exhausted(artifact)
  local n = 0
  for _, pool in ipairs(artifact.pools) do n = n + (pool.exhausted > 0 and 1 or 0) end
  return n
end

local REPEATED <const> = { field = "incidents", count = true, above = 0 }
local SLOW <const> = { of = slowest, above = SLOW_MS }

return hint_rule {
  handle = "db-snapshot", order = 100,
  hints = {
    {
      when = { REPEATED }, tool = "query_snapshot", arguments = { view = "n+1", topN = 25 }, priority = "high",
      reason = "The same command was repeated under one parent: see which, and under which.",
    },
    {
      when = { { field = "incidents", count = true, equals = 0 } }, tool = "query_snapshot", arguments = { view = "n+1", topN = 25 },
      reason = "See whether a command was repeated under one parent.",
    },
    {
      when = { SLOW }, tool = "query_snapshot", arguments = { view = "byCommand", topN = 25 },
      reason = "Statements are slow: see which take the time.",
    },
    {
      when = { { of = slowest, at_most = SLOW_MS } }, tool = "query_snapshot", arguments = { view = "byCommand", topN = 25 },
      reason = "See the statements by the time they took.",
    },
    {
      when = { { of = exhausted, above = 0 } }, tool = "query_snapshot", arguments = { view = "connectionPool" }, priority = "high",
      reason = "The connection pool ran out: see its numbers.",
    },
    {
      when = { { any = { REPEATED, SLOW } } }, live = true, tool = "collect_sample", arguments = { kind = "cpu", durationSeconds = 10 },
      reason = "See which code sends these commands.",
    },
    {
      when = { { of = slowest, at_most = SLOW_MS }, { field = "incidents", count = true, equals = 0 } }, live = true,
      tool = "collect_sample", arguments = { kind = "cpu", durationSeconds = 10 },
      reason = "The database is not slow: see where the time goes.",
    },
  },
}
