-- SPDX-License-Identifier: MIT
-- Gen2 collections of a batch of counters and gc, by each of the sources that count them. They count over different times: nothing is
-- derived from one for another.
local snapshot = require("collectors.counters.snapshot")

local M = {}

M.METER, M.INSTRUMENT = "System.Runtime", "dotnet.gc.collections"
M.MAX_SERIES = 8 -- enough for the generations, and what the meters of other sessions bring
local TAG <const>, GEN2 <const> = "gc.heap.generation", "gen2"
local ORDER <const> = { __order = {
  "eventCounterIntervalDelta", "meterRatePerSecond", "meterProcessCumulative", "gcCollectorWindowCount", "gcCollectorWindowSeconds" } }

--- Makes a counters entry ask for that one instrument.
---@param args table   the bound arguments of the entry
function M.subscribe(args)
  args.meters, args.implicit_meters, args.maxInstrumentTimeSeries = { M.METER .. "\\" .. M.INSTRUMENT }, true, M.MAX_SERIES
end

local function artifact_of(result) return result.extras.handle.artifact end

--- Gen2 collections that the gc entry saw: the exact aggregate, which goes on when rows are no longer kept.
---@param gc FanoutResult
function M.count(gc) return artifact_of(gc).collections.generations[2] or 0 end

local function meter_of(artifact)
  for _, m in ipairs(artifact.meters) do
    if m.instrument == M.INSTRUMENT and m.tags and m.tags[TAG] == GEN2 then return m end
  end
  return nil
end

--- Gen2Evidence.
---@param counters FanoutResult
---@param gc FanoutResult
function M.evidence(counters, gc)
  local interval = snapshot.find(artifact_of(counters), "System.Runtime", "gen-2-gc-count")
  local meter = meter_of(artifact_of(counters))
  return setmetatable({
    eventCounterIntervalDelta = interval and interval.series.last, meterRatePerSecond = meter and meter.rate,
    meterProcessCumulative = meter and meter.values and meter.values.last, gcCollectorWindowCount = M.count(gc),
    gcCollectorWindowSeconds = artifact_of(gc).duration_ms / 1000,
  }, ORDER)
end

return M
