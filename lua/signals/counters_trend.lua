-- SPDX-License-Identifier: MIT
-- counters.trend: which counter moved most between the first and the last value of one window. A grouping, never a diagnosis.
local signal = require("lunette.signal")

local function size_of(series) return math.max(math.abs(series.first), math.abs(series.last)) end

--- From which size on a counter does not stay near zero. few: it compiles no more methods than being looked at makes it.
local function least_of(counter, limits, few)
  return few and limits.few_methods[counter.name] or limits.own_trace[counter.name] or limits.near_zero[counter.unit or "count"]
    or limits.near_zero.count
end

--- (last - first) / max(|first|, |last|): between -1 and 1 whatever the unit; 0 while both stay near zero.
local function relative_change(counter, limits, few)
  local s = counter.series
  local size = size_of(s)
  return size < least_of(counter, limits, few) and 0 or (s.last - s.first) / size
end

local function few_methods(artifact, limits)
  for _, c in ipairs(artifact.counters) do
    if c.name == "methods-jitted-count" then return size_of(c.series) < limits.own_trace[c.name] end
  end
  return false
end

--- The counters that moved, the largest change first (ties by name).
local function movers(artifact, self)
  local list, few = {}, few_methods(artifact, self.limits)
  for _, c in ipairs(artifact.counters) do
    local change = c.series.n >= self.limits.min_observations and relative_change(c, self.limits, few) or 0
    if math.abs(change) >= self.emit_at then list[#list + 1] = { counter = c, key = c.provider .. "/" .. c.name, change = change } end
  end
  table.sort(list, function(a, b)
    local x, y = math.abs(a.change), math.abs(b.change)
    if x ~= y then return x > y end
    return a.key < b.key
  end)
  return list
end

local function plain(value) return value == math.floor(value) and ("%d"):format(value) or ("%.2f"):format(value) end

return signal {
  id = "counters.trend", handle = "counters", order = 10,
  emit_at = 0.5, -- relative change from which a counter stands out
  buckets = 5,
  limits = {
    min_observations = 3, -- two values are a step, not a movement
    -- below these sizes a counter stays near zero and its relative change is noise; by unit, as the runtime writes it
    near_zero = { ["%"] = 5, MB = 1, B = 1000000, ms = 10, count = 10 },
    -- What being looked at makes an idle process compile: some 250 methods, in 30 to 200 ms, on a busy machine 330 (8.0 to 10.0). Below
    -- these sizes it is not its own.
    own_trace = { ["methods-jitted-count"] = 500, ["time-in-jit"] = 750 },
    -- Their time is what they wait for a processor, too: up to 1000 ms a second for each of the two threads that compile.
    few_methods = { ["time-in-jit"] = 2000 },
  },
  of = function(artifact, self)
    local list, buckets = movers(artifact, self), {}
    if #list == 0 then return nil end
    for i = 1, math.min(self.buckets, #list) do
      buckets[i] = { key = list[i].key, magnitude = list[i].change, unit = "relative change" }
    end
    local top = list[1]
    local s, unit = top.counter.series, top.counter.unit and " " .. top.counter.unit or ""
    return {
      summary = ("%s moved most: from %s to %s%s within the window%s."):format(top.key, plain(s.first), plain(s.last), unit,
        #list > 1 and ("; %d counters moved by half or more"):format(#list) or ""),
      salience = math.abs(top.change), buckets = buckets,
    }
  end,
  next = { view = "byProvider", reason = "See all counters of the window by provider." },
}
