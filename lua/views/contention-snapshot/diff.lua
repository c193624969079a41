-- SPDX-License-Identifier: MIT
-- contention-snapshot/diff: lock contention of several windows side by side, as rates, since windows differ in length. Windows whose events
-- were lost give lower bounds: their counts are absent there, so that they drive no verdict.
local journey = require("lunette.journey")
local view = require("lunette.view")

local NS_PER_MS <const> = 1e6

-- Amounts by call site: milliseconds waited a second of the window.
local function keys_of(artifact, seconds)
  local keys = {}
  for _, site in ipairs(artifact.sites) do
    keys[site.site.method] = (keys[site.site.method] or 0) + site.total_ns / NS_PER_MS / seconds
  end
  return keys
end

local function comparable(artifact)
  local a, seconds = artifact, artifact.duration_ms / 1000
  local lossless = not a.cost or (a.cost.eventsLost or 0) == 0
  local function whole(x) return lossless and x or nil end
  local function rate(x) return seconds > 0 and whole(x) and x / seconds or nil end
  local function ms(ns) return ns and ns / NS_PER_MS or nil end
  return {
    keys = seconds > 0 and keys_of(a, seconds) or {},
    metrics = {
      { name = "contentionsPerSecond", unit = "1/s", value = rate(a.total), worse = "up" },
      { name = "waitMsPerSecond", unit = "ms/s", value = rate(ms(a.total_ns)), worse = "up" },
      { name = "waitP50Ms", unit = "ms", value = a.total > 0 and ms(a.time.p50) or nil },
      { name = "waitP95Ms", unit = "ms", value = a.total > 0 and ms(a.time.p95) or nil, worse = "up" },
      { name = "waitMaxMs", unit = "ms", value = a.total > 0 and ms(a.time.max) or nil },
      { name = "locks", value = whole(a.monitors) },
      { name = "stillWaiting", value = a.still.n, worse = "up" },
      { name = "windowSeconds", unit = "s", value = seconds },
    },
  }
end

return view {
  kind = "contention-snapshot", name = "diff",
  project = function(_, opts, entry) return journey.view(entry, opts, comparable) end,
}
