-- SPDX-License-Identifier: MIT
-- What to call after a counter window: rules over the last values, all that match in this order.
local hints = require("lunette.hints")
local snapshot = require("collectors.counters.snapshot")

local M = {}

local WINDOW_S <const> = 10
local RUNTIME <const> = "System.Runtime"

-- when(v): v holds the values below, nil where the counter did not come. Comparisons: CPU inclusive, the others strict.
local RULES <const> = {
  {
    when = function(v) return v.cpu and v.cpu >= 70 end,
    tool = "collect_sample", arguments = { kind = "cpu", durationSeconds = WINDOW_S, topN = 25 },
    reason = "CPU usage is at 70 % or more: see which methods run.",
  },
  {
    when = function(v) return v.queue and v.queue > 50 end,
    tool = "collect_events", arguments = { kind = "threadpool", durationSeconds = WINDOW_S },
    reason = "More than 50 work items wait for a pool thread: see how the pool grows and who queues.",
  },
  {
    when = function(v) return v.gc_time and v.gc_time > 15 end,
    tool = "collect_events", arguments = { kind = "gc", durationSeconds = WINDOW_S },
    reason = "More than 15 % of time in GC: see the collections and their pauses.",
  },
  {
    when = function(v) return v.gc_time and v.gc_time > 15 end,
    tool = "inspect_heap", arguments = { source = "live" }, reason = "More than 15 % of time in GC: see what the heap holds.",
  },
  {
    when = function(v) return v.alloc_per_s and v.alloc_per_s > 50000000 and v.gen2 and v.gen2 > 0 end,
    tool = "collect_sample", arguments = { kind = "allocation", durationSeconds = WINDOW_S },
    reason = "Over 50 MB/s are allocated and Gen2 is collected: see who allocates.",
  },
  {
    when = function(v) return v.contentions and v.contentions > 10 end,
    tool = "collect_events", arguments = { kind = "contention", durationSeconds = WINDOW_S },
    reason = "Monitors are contended: see where threads wait and for how long.",
  },
  {
    when = function(v) return v.cpu and v.queue and v.cpu < 30 and v.queue > 10 end,
    tool = "collect_thread_snapshot",
    reason = "Little CPU with a ThreadPool queue is inconclusive: see what the threads do.",
  },
  {
    when = function(v) return v.cpu and v.queue and v.cpu < 30 and v.queue > 10 end,
    tool = "collect_events", arguments = { kind = "activities", durationSeconds = WINDOW_S },
    reason = "Little CPU with a ThreadPool queue is inconclusive unless requests are slow in the same window: see the activities.",
  },
}

local function values_of(artifact)
  local function last(name)
    local c = snapshot.find(artifact, RUNTIME, name)
    return c and c.series.last, c and c.interval_s or artifact.interval_s
  end
  local alloc, seconds = last("alloc-rate")
  return {
    cpu = last("cpu-usage"), queue = last("threadpool-queue-length"), gc_time = last("time-in-gc"), gen2 = last("gen-2-gc-count"),
    contentions = last("monitor-lock-contention-count"), alloc_per_s = alloc and seconds > 0 and alloc / seconds or nil,
  }
end

local function with_process(arguments, process_id)
  local copy = { processId = process_id }
  for name, value in pairs(arguments or {}) do copy[name] = value end
  return copy
end

--- Hints for a window, best first.
---@param artifact CounterArtifact
---@param handle_id string?
---@param process_id integer?   nil for a recording: its process is gone
---@return table[]
function M.of(artifact, handle_id, process_id)
  local values, list = values_of(artifact), {}
  for _, rule in ipairs(RULES) do
    if rule.when(values) then
      list[#list + 1] = hints.new(rule.tool, rule.reason, with_process(rule.arguments, process_id), #list == 0 and "high" or "normal")
    end
  end
  if #list == 0 then
    list[1] = hints.new("collect_events", "No headline counter stands out: look at the garbage collector next.",
      with_process({ kind = "gc", durationSeconds = WINDOW_S }, process_id))
  end
  list[#list + 1] = hints.new("query_snapshot", "See every counter of this window, by provider.",
    { handle = handle_id, view = "byProvider" }, "low")
  return list
end

return M
