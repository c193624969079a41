-- SPDX-License-Identifier: MIT
-- collect_events kind=threadpool over recordings whose contents are known.
local recorded = require("support.recorded")

local HANDLE <const> = "threadpool-snapshot"

describe("collect_events kind=threadpool, recorded", function()
  it("counts 40 work items in and out, who queued them and how long they waited", function()
    local envelope = recorded.collect("threadpool", "pool")
    local pool = envelope.data.threadPool
    assert.same({ 40, 40 }, { pool.totalEnqueueEvents, pool.totalDequeueEvents })
    assert.equal(1, #pool.workItemOrigins)
    assert.matches("^Lunette%.Target%.BlockedPool%.QueueBlockers", pool.workItemOrigins[1].method)
    assert.equal(40, pool.workItemOrigins[1].count)
    assert.same({ 40, 0 }, { pool.queueWait.matched, pool.queueWait.notDequeued })
    assert.is_true(pool.queueWait.maxMs > 4150 and pool.queueWait.maxMs < 4250) -- fourteen rounds of 300 ms
    assert.same({ workerMinThreads = 2, workerMaxThreads = 32767, iocpMinThreads = 1, iocpMaxThreads = 1000 }, pool.effectiveSettings)
    assert.same({ "threadpool.queue-wait", 1 }, { envelope.signals[1].signal, #envelope.signals })
  end)

  it("has the adjustments that the runtime reported, to the millisecond", function()
    local samples = recorded.view(recorded.collect("threadpool", "pool"), HANDLE, "hillClimbing").samples
    local shown = {}
    for i, s in ipairs(samples) do shown[i] = ("%s %s>%d %s"):format(s.reason, s.oldCount or "", s.newCount, s.timestamp:sub(18, 23)) end
    assert.same({ "Initializing >2 41.687", "Warmup 2>3 42.889", "Warmup 3>2 45.892" }, shown)
  end)

  it("has a timeline that begins with the first known count", function()
    local rows = recorded.view(recorded.collect("threadpool", "pool"), HANDLE, "timeline").workerThreads
    local shown = {}
    for i, row in ipairs(rows) do shown[i] = row.count .. (row.countProvenance == "runtime-observed" and "!" or "") end
    assert.equal("2! 3! 3 3 3!", table.concat(shown, " "))
  end)

  it("keeps the stack of an origin", function()
    local origin = recorded.view(recorded.collect("threadpool", "pool"), HANDLE, "workItemOrigins").origins[1]
    local stack = table.concat(origin.stack, "\n")
    assert.matches("FrameworkEventSource%.ThreadPoolEnqueueWork", stack)
    assert.matches("Lunette%.Target%.BlockedPool%.Do", stack)
  end)

  it("calls a starved pool starved, because the runtime does", function()
    local envelope = recorded.collect("threadpool", "starve", { depth = "Detail" })
    local pool = envelope.data.threadPool
    assert.same({ 5, 0 }, { pool.evidence.confirmedStarvationCount, pool.evidence.confirmedCooperativeBlockingCount })
    for i, s in ipairs(pool.hillClimbing) do assert.same({ "Starvation", i + 2 }, { s.reason, s.newCount }) end
    assert.same({ "threadpool.starvation", 1, 5 }, {
      envelope.signals[1].signal, envelope.signals[1].salience, envelope.signals[1].buckets[1].magnitude })
    assert.same({ 0, 0 }, { pool.totalEnqueueEvents, #pool.workItemOrigins }) -- the queue was not recorded
    assert.is_true(table.concat(pool.notes, "\n"):find("NoWorkItems", 1, true) ~= nil)
    assert.same({ "iocp-thread-counts", "work-item-events" }, pool.quality.unavailableMechanisms)
  end)

  it("leaves the series out of Summary and keeps evidence and quality", function()
    local pool = recorded.collect("threadpool", "starve").data.threadPool
    assert.is_nil(pool.workerThreadTimeline)
    assert.is_nil(pool.hillClimbing)
    assert.equal(5, pool.evidence.confirmedStarvationCount)
    assert.is_true(pool.quality.responseProjectionOnly)
  end)

  it("makes nothing up where nothing was recorded", function()
    local envelope = recorded.collect("threadpool", "gcs", { depth = "Detail" })
    local pool = envelope.data.threadPool
    assert.same({ 0, 0, 0, 0 }, { pool.totalEnqueueEvents, #pool.workerThreadTimeline, #pool.hillClimbing, #pool.workItemOrigins })
    assert.is_nil(pool.effectiveSettings)
    assert.is_nil(recorded.view(envelope, HANDLE, "summary").peakWorkerThreadCount)
    assert.is_nil(envelope.signals)
    assert.is_false(pool.quality.supportsAbsence) -- the keyword may not have been on
    assert.matches('recorded without the runtime.s keyword Threading %(0x10000%): "none" proves nothing', table.concat(pool.notes, "\n"))
    assert.is_true(recorded.collect("threadpool", "starve").data.threadPool.quality.supportsAbsence)
  end)
end)
