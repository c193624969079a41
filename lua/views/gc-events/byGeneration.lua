-- SPDX-License-Identifier: MIT
-- gc-events/byGeneration: how often and how long each generation was collected, background collections apart from blocking ones of gen2.
local collections = require("collectors.gc.collections")
local json = require("lunette.json")
local snapshot = require("collectors.gc.snapshot")
local view = require("lunette.view")

local ORDER <const> = { __order = { "bucket", "count", "totalElapsed", "meanElapsed", "maxElapsed", "concurrentElapsed" } }

return view {
  kind = "gc-events", name = "byGeneration",
  project = function(artifact)
    local c, rows = artifact.collections, json.array({})
    for i, name in ipairs(collections.BUCKETS) do
      local d = c.buckets[name]
      local concurrent = name == "background" and d.n > 0 and artifact.suspensions.status ~= "unavailable"
      rows[i] = setmetatable({
        bucket = name, count = d.n, totalElapsed = snapshot.span(d.sum_ns), meanElapsed = snapshot.span(d.n > 0 and d.sum_ns / d.n or 0),
        maxElapsed = snapshot.span(d.max_ns), concurrentElapsed = concurrent and snapshot.span(c.concurrent_ns) or nil,
      }, ORDER)
    end
    return snapshot.measurement(artifact, { byGeneration = rows }), { summary = ("%d collections by generation."):format(c.total) }
  end,
}
