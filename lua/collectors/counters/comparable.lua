-- SPDX-License-Identifier: MIT
-- A counters artifact as lunette.journey compares it: the last value of each counter, and of each Meter series by statistic. Only names
-- whose direction is known drive a verdict; all others are listed.
local M = {}

-- Which way is a regression; names without punctuation, in lower case.
local WORSE <const> = {
  threadpoolqueuelength = "up", threadpoolpendingworkitems = "up", threadpoolthreadcount = "up", requestp95milliseconds = "up",
  requestp95seconds = "up", requestlatencyp95 = "up", httpserverrequestdurationp95 = "up",
  requestscompleted = "down", requestthroughput = "down", requestspersecond = "down", throughput = "down",
}

--- Which way a metric gets worse, by the name of its counter, or of its instrument and statistic; nil when that is not known.
---@param name string
---@return "up"|"down"|nil
function M.worse(name)
  return WORSE[(name:lower():gsub("^dotnet%.", ""):gsub("%p", ""))]
end

local function identity(m)
  return m.tags_text ~= "" and ("%s/%s{%s}"):format(m.meter, m.instrument, m.tags_text) or m.meter .. "/" .. m.instrument
end

local function add_meter(metrics, m)
  local name, h = identity(m), m.histogram
  if h then
    for _, statistic in ipairs { "p50", "p95", "p99" } do
      metrics[#metrics + 1] = {
        name = name .. "." .. statistic, unit = m.unit, value = h[statistic], worse = M.worse(m.instrument .. "." .. statistic),
      }
    end
  elseif m.rate then
    metrics[#metrics + 1] = { name = name .. ".rate", unit = m.unit and m.unit .. "/s", value = m.rate, worse = M.worse(m.instrument) }
  else
    metrics[#metrics + 1] = { name = name, unit = m.unit, value = m.values.last, worse = M.worse(m.instrument) }
  end
end

--- Comparable of an artifact.
---@param artifact CounterArtifact
---@return Comparable
function M.of(artifact)
  local metrics = {}
  for _, c in ipairs(artifact.counters) do
    metrics[#metrics + 1] = { name = c.provider .. "/" .. c.name, unit = c.unit, value = c.series.last, worse = M.worse(c.name) }
  end
  for _, m in ipairs(artifact.meters) do add_meter(metrics, m) end
  return { metrics = metrics }
end

return M
