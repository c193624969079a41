-- SPDX-License-Identifier: MIT
-- Wait chains: from a blocked thread over the owners of what it waits for to what the wait ends in: a circle, an owner that runs, async
-- work, or a pool that has no worker left for that work. From the stored snapshot only.
local locks = require("threads.locks")

local M = {}

local NO_OWNER <const> = "Async work has no owner thread: whoever completes it is not known from stacks."

--- Work is pending, no worker is idle, and the pool is at its maximum.
function M.starved(artifact)
  local pool = artifact.pool
  return pool ~= nil and pool.pending > 0 and pool.active >= pool.current and pool.max ~= nil and pool.current >= pool.max
end

local function monitor_hop(thread)
  local lock = thread.wants.lock
  return {
    edge = "monitor", reason = thread.reason or "Monitor.Enter (contended)", waiting = thread.id, owner = lock.owner_id,
    target = ("%s %s"):format(lock.type or "object", lock.object),
    note = ("Edge %s, confidence %s."):format(thread.wants.source, thread.wants.confidence),
  }
end

local function async_hop(thread)
  return {
    edge = "async", reason = thread.operation or thread.reason or thread.stall,
    waiting = thread.id, target = thread.waits_on[1] or thread.stall,
    note = NO_OWNER,
  }
end

local function pool_hop(artifact)
  local pool = artifact.pool
  return {
    edge = "threadpool", reason = "No free worker", target = "ThreadPool worker",
    note = ("%d work items are pending, %d of %d workers (the maximum) are busy."):format(pool.pending, pool.active, pool.max),
  }
end

local function finish(artifact, chain, thread)
  if thread.stall then
    chain.hops[#chain.hops + 1] = async_hop(thread)
    if M.starved(artifact) and thread.stall ~= "SemaphoreAwait" then
      chain.hops[#chain.hops + 1] = pool_hop(artifact)
      return "threadpool-starvation"
    end
    return "async-construct"
  end
  return "running-owner"
end

local function follow(artifact, start)
  local chain, at, thread = { hops = {}, start = start, threads = {} }, {}, start
  while thread and thread.wants and not at[thread] do
    at[thread] = #chain.hops + 1
    chain.hops[#chain.hops + 1], chain.threads[#chain.threads + 1] = monitor_hop(thread), thread
    local owner = thread.wants.lock.owner_id
    thread = owner and artifact.by_id[owner]
  end
  if thread and at[thread] then
    chain.terminal = "cycle" -- it leads into one
  elseif not thread then
    chain.terminal = "running-owner"
  else
    chain.terminal = finish(artifact, chain, thread)
  end
  return chain
end

--- All chains, circles first, then the longest; one that is the tail of another is left out.
function M.of(artifact)
  local list, owners, in_cycle = {}, {}, {}
  for _, cycle in ipairs(locks.cycles(artifact)) do
    local chain = { hops = {}, is_cycle = true, terminal = "cycle", start = cycle[1] }
    for i, thread in ipairs(cycle) do chain.hops[i], in_cycle[thread] = monitor_hop(thread), true end
    list[#list + 1] = chain
  end
  for _, thread in ipairs(artifact.threads) do
    if thread.wants and thread.wants.lock.owner_id then owners[thread.wants.lock.owner_id] = true end
  end
  for _, thread in ipairs(artifact.threads) do
    local is_start = (thread.wants or thread.stall) and not in_cycle[thread] and not owners[thread.id]
    if is_start then list[#list + 1] = follow(artifact, thread) end
  end
  table.sort(list, function(a, b)
    local a_own, b_own = a.is_cycle or false, b.is_cycle or false
    if a_own ~= b_own then return a_own end
    if #a.hops ~= #b.hops then return #a.hops > #b.hops end
    return a.start.id < b.start.id
  end)
  return list
end

return M
