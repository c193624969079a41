-- SPDX-License-Identifier: MIT
-- Counter windows for the triage specs: an artifact from a few named readings.
local series = require("collectors.counters.series")

local M = {}

local UNITS <const> = {
  ["cpu-usage"] = "%", ["time-in-gc"] = "%", ["gc-heap-size"] = "MB", ["working-set"] = "MB", ["loh-size"] = "B", ["alloc-rate"] = "B",
}
local SUMS <const> = {
  ["alloc-rate"] = true, ["exception-count"] = true, ["monitor-lock-contention-count"] = true, ["gen-0-gc-count"] = true,
  ["gen-2-gc-count"] = true,
}

--- A healthy .NET process at rest.
M.IDLE = {
  ["cpu-usage"] = { 0.1, 0.1, 0.2, 0.1 }, ["working-set"] = { 40, 40, 40, 40 }, ["gc-heap-size"] = { 0.30, 0.33, 0.36, 0.39 },
  ["time-in-gc"] = { 0, 0, 0, 0 }, ["gen-0-gc-count"] = { 0, 0, 0, 0 }, ["gen-2-gc-count"] = { 0, 0, 0, 0 },
  ["alloc-rate"] = { 30000, 30000, 30000, 30000 }, ["threadpool-queue-length"] = { 0, 0, 0, 0 },
  ["threadpool-thread-count"] = { 0, 0, 0, 0 }, ["exception-count"] = { 0, 0, 0, 0 }, ["monitor-lock-contention-count"] = { 0, 0, 0, 0 },
  ["loh-size"] = { 98384, 98384, 98384, 98384 },
}

--- An idle window with some readings replaced. `p95_s` adds a request duration histogram.
---@param readings table<string, number[]>?
---@param more { processors: integer?, p95_s: number?, silent_s: number?, empty: boolean? }?
function M.of(readings, more)
  more = more or {}
  local artifact = {
    process_id = 42, started_unix_ms = 1700000000000, duration_ms = 5000, interval_s = 1, processor_count = more.processors or 2,
    counters = {}, meters = {}, provider_order = { "System.Runtime" }, notes = {}, origin = "live", silent_s = more.silent_s,
  }
  if more.processors == false then artifact.processor_count = nil end
  local all = {}
  for name, values in pairs(more.empty and {} or M.IDLE) do all[name] = values end
  for name, values in pairs(readings or {}) do all[name] = values end
  for name, values in pairs(all) do
    local c = {
      provider = "System.Runtime", name = name, display_name = name, unit = UNITS[name], kind = SUMS[name] and "Sum" or "Mean",
      series = series.new(), interval_s = 1,
    }
    for _, value in ipairs(values) do series.add(c.series, value) end
    artifact.counters[#artifact.counters + 1] = c
  end
  table.sort(artifact.counters, function(a, b) return a.name < b.name end)
  if more.p95_s then
    artifact.meters[1] = {
      meter = "Microsoft.AspNetCore.Hosting", instrument = "http.server.request.duration", unit = "s", kind = "Histogram", tags = {},
      tags_text = "", values = series.new(), histogram = { count = 40, sum = 30, p50 = more.p95_s / 2, p95 = more.p95_s, p99 = more.p95_s },
    }
  end
  return artifact
end

return M
