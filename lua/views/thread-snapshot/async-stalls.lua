-- SPDX-License-Identifier: MIT
-- thread-snapshot/async-stalls: threads that stand still for async work, by what kind of work it is. Thread state only.
local answer = require("threads.answer")
local json = require("lunette.json")
local recognise = require("threads.recognise")
local view = require("lunette.view")

local SAMPLES <const>, FRAMES <const> = 5, 5

local function frames_of(thread)
  local list = json.array({})
  for i = 1, math.min(FRAMES, #thread.frames) do list[i] = thread.frames[i].name end
  return list
end

return view {
  kind = "thread-snapshot", name = "async-stalls",
  project = function(artifact, opts)
    local by_bucket, rank, threads = {}, {}, {}
    for i, bucket in ipairs(recognise.ORDER) do by_bucket[bucket], rank[bucket] = {}, i end
    for _, thread in ipairs(artifact.threads) do
      if thread.stall then
        table.insert(by_bucket[thread.stall], thread)
        threads[#threads + 1] = thread
      end
    end
    table.sort(threads, function(a, b)
      if (a.blocked or false) ~= (b.blocked or false) then return a.blocked end
      if rank[a.stall] ~= rank[b.stall] then return rank[a.stall] < rank[b.stall] end
      return a.id < b.id
    end)
    local buckets, rows = json.array({}), json.array({})
    for _, bucket in ipairs(recognise.ORDER) do
      local samples = json.array({})
      for i = 1, math.min(SAMPLES, #by_bucket[bucket]) do samples[i] = by_bucket[bucket][i].id end
      if #by_bucket[bucket] > 0 then
        buckets[#buckets + 1] = setmetatable({ bucket = bucket, count = #by_bucket[bucket], sampleThreadIds = samples },
          { __order = { "bucket", "count", "sampleThreadIds" } })
      end
    end
    for i = 1, math.min(opts.topN, #threads) do
      rows[i] = setmetatable({ threadId = threads[i].id, bucket = threads[i].stall, topFrames = frames_of(threads[i]) },
        { __order = { "threadId", "bucket", "durationMs", "topFrames" } })
    end
    return setmetatable({ view = "async-stalls", classifiedThreads = #threads, byBucket = buckets, topBlockedAsync = rows },
      { __order = { "view", "classifiedThreads", "byBucket", "topBlockedAsync" } }), {
      fields = answer.fields(artifact),
      summary = #threads == 0 and "No thread stands still for async work." or ("%d threads stand still for async work; most: %s."):format(
        #threads, buckets[1].bucket),
    }
  end,
}
