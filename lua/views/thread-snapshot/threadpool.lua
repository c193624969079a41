-- SPDX-License-Identifier: MIT
-- thread-snapshot/threadpool: workers, limits, queues and the last adjustment of the managed pool.
local answer = require("threads.answer")
local errors = require("lunette.errors")
local json = require("lunette.json")
local view = require("lunette.view")

local ORDER <const> = { __order = {
  "initialized", "usingPortableThreadPool", "usingWindowsThreadPool", "workers", "iocp", "queues", "pendingWorkItems", "cpuUtilization",
  "hillClimbing", "notes",
} }

local function queues_of(pool)
  local global, per_thread = json.array({}), json.array({})
  for i, queue in ipairs(pool.queues) do
    global[i] = { name = queue.name, queueLength = queue.length, queueIndex = queue.index, queueAddress = queue.address }
  end
  local list = table.move(pool.local_queues, 1, #pool.local_queues, 1, {})
  table.sort(list, function(a, b)
    if a.length ~= b.length then return a.length > b.length end
    return a.index < b.index
  end)
  for i, queue in ipairs(list) do
    per_thread[i] = { queueAddress = queue.address, queueLength = queue.length, queueIndex = queue.index }
  end
  return setmetatable({ globalQueueLength = pool.global or 0, globalQueues = global, localQueues = per_thread },
    { __order = { "globalQueueLength", "globalQueues", "localQueues" } })
end

local function climbing_of(c)
  if not c then return nil end
  return setmetatable({
    tickCount = c.tick, sampleCount = c.samples, newThreadCount = c.threads, throughput = c.throughput, stateOrTransition = c.transition,
    adjustmentIntervalMs = c.interval_ms,
  }, { __order = { "tickCount", "sampleCount", "newThreadCount", "throughput", "stateOrTransition", "adjustmentIntervalMs" } })
end

return view {
  kind = "thread-snapshot", name = "threadpool",
  project = function(artifact, _, entry)
    local pool = artifact.pool
    if not pool then
      return nil, errors.new("ViewNotCaptured", "The snapshot holds nothing of a managed thread pool: the process has not used it, or its "
        .. "memory was not to be had.", { detail = entry.id, hints = {} })
    end
    local notes = json.array({ "I/O completions run on the workers of the portable pool; its iocp counts are limits only." })
    return setmetatable({
      initialized = true, usingPortableThreadPool = true, usingWindowsThreadPool = false,
      workers = { current = pool.current, active = pool.active, idle = math.max(0, pool.current - pool.active), retired = 0,
        min = pool.min or 0, max = pool.max or 0 },
      iocp = { current = 0, idle = 0, min = pool.min_io or 0, max = pool.max_io or 0 }, queues = queues_of(pool),
      pendingWorkItems = pool.pending, cpuUtilization = pool.cpu, hillClimbing = climbing_of(pool.climbing), notes = notes,
    }, ORDER), {
      fields = answer.fields(artifact),
      summary = ("%d workers, %d busy, goal %d, limits %d to %d; %d work items pending."):format(pool.current, pool.active, pool.goal,
        pool.min or 0, pool.max or 0, pool.pending),
    }
  end,
}
