-- SPDX-License-Identifier: MIT
-- counters.trend: which counter moved most between the first and the last value of one window. A grouping, never a diagnosis.
local hints = require("lunette.hints")

local M = {}

M.ID = "counters.trend"
M.EMIT_AT = 0.5 -- relative change from which a counter stands out
M.BUCKETS = 5
M.MIN_OBSERVATIONS = 3 -- two values are a step, not a movement

-- Below these sizes a counter stays near zero and its relative change is noise; by unit, as the runtime writes it.
local NEAR_ZERO <const> = { ["%"] = 5, MB = 1, B = 1000000, ms = 10, count = 10 }
-- What being looked at makes an idle process compile: some 250 methods, in 30 to 200 ms, on a busy machine 330 (8.0 to 10.0). Below these
-- sizes it is not its own.
local OWN_TRACE <const> = { ["methods-jitted-count"] = 500, ["time-in-jit"] = 750 }

--- (last - first) / max(|first|, |last|): between -1 and 1 whatever the unit; 0 while both stay near zero.
---@param first number
---@param last number
---@param unit string?
---@param name string?   of the counter
---@return number
function M.relative_change(first, last, unit, name)
  local size = math.max(math.abs(first), math.abs(last))
  if size < (OWN_TRACE[name or false] or NEAR_ZERO[unit or "count"] or NEAR_ZERO.count) then return 0 end
  return (last - first) / size
end

--- The counters that moved, the largest change first (ties by name).
---@param counters table[]   see collectors.counters.snapshot
function M.movers(counters)
  local list = {}
  for _, c in ipairs(counters) do
    local s = c.series
    local change = s.n >= M.MIN_OBSERVATIONS and M.relative_change(s.first, s.last, c.unit, c.name) or 0
    if math.abs(change) >= M.EMIT_AT then list[#list + 1] = { counter = c, key = c.provider .. "/" .. c.name, change = change } end
  end
  table.sort(list, function(a, b)
    local x, y = math.abs(a.change), math.abs(b.change)
    if x ~= y then return x > y end
    return a.key < b.key
  end)
  return list
end

local function plain(value) return value == math.floor(value) and ("%d"):format(value) or ("%.2f"):format(value) end

--- The signal of a window as a list of none or one.
---@param artifact CounterArtifact
---@param handle_id string?
---@return table[]
function M.of(artifact, handle_id)
  local movers = M.movers(artifact.counters)
  if #movers == 0 then return {} end
  local buckets = {}
  for i = 1, math.min(M.BUCKETS, #movers) do
    buckets[i] = { key = movers[i].key, magnitude = movers[i].change, unit = "relative change", handle = handle_id }
  end
  local top = movers[1]
  local s, unit = top.counter.series, top.counter.unit and " " .. top.counter.unit or ""
  return { {
    signal = M.ID,
    summary = ("%s moved most: from %s to %s%s within the window%s."):format(top.key, plain(s.first), plain(s.last), unit,
      #movers > 1 and ("; %d counters moved by half or more"):format(#movers) or ""),
    salience = math.abs(top.change), buckets = buckets,
    nextAction = hints.new("query_snapshot", "See all counters of the window by provider.", { handle = handle_id, view = "byProvider" }),
  } }
end

return M
