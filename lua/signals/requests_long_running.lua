-- SPDX-License-Identifier: MIT
-- requests.long-running: requests in flight that are older than the threshold, by path. A grouping, never a diagnosis.
local signal = require("lunette.signal")

local function by_path(rows)
  local known, list = {}, {}
  for _, row in ipairs(rows) do
    if row.long then
      local key = row.method .. " " .. row.path
      if not known[key] then
        known[key] = { key = key, magnitude = 0, unit = "requests", order = #list }
        list[#list + 1] = known[key]
      end
      known[key].magnitude = known[key].magnitude + 1
    end
  end
  table.sort(list, function(a, b)
    if a.magnitude ~= b.magnitude then return a.magnitude > b.magnitude end
    return a.order < b.order
  end)
  return list
end

return signal {
  id = "requests.long-running", handle = "in-flight-requests", order = 10,
  of = function(artifact)
    if artifact.long_running == 0 then return nil end
    local list = by_path(artifact.rows)
    return {
      summary = ("%d of %d requests in flight are older than %.0f ms, the oldest %.1f s; first of them by path: %s."):format(
        artifact.long_running, artifact.in_flight, artifact.threshold_ms, artifact.oldest_ms / 1000, list[1].key),
      salience = artifact.long_running / artifact.in_flight, buckets = list,
    }
  end,
  next = { view = "longRunning", reason = "See them one by one.", arguments = { topN = 25 } },
}
