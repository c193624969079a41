-- SPDX-License-Identifier: MIT
-- The views of a threadpool handle, and the snapshot inline: quality everywhere, no series at Summary.
local asked = require("support.asked")
local hints = require("support.hints_kit").for_kind("threadpool-snapshot")
local json = require("lunette.json")
local snapshot = require("collectors.threadpool.snapshot")
local window = require("support.pool_window")

local function starved()
  local origins = {}
  for i = 1, 8 do origins[i] = { 100 - i, "System.Threading.ThreadPool.Queue", "App.Feeder" .. i } end
  return window.artifact {
    counts = { { 1, 2 }, { 3, 4, 6 } }, adjustments = { { 1.5, 1, 2 }, { 2.25, 6, 3 }, { 3.5, 6, 4 } }, enqueued = 764, dequeued = 20,
    origins = origins, limits = { worker_min = 2, worker_max = 32767, iocp_min = 1, iocp_max = 1000 },
    waits = { pairs = 20, unmatched = 0, dropped = 0, open = 744, ms = { p50 = 12.5, p95 = 900, max = 1000.25 } },
  }
end

local function project(name, artifact, opts) return asked.view("threadpool-snapshot", artifact, name, opts) end

describe("views.threadpool-snapshot", function()
  it("summary has latest and peak, the causal counts, the limits and the top origins", function()
    local payload = project("summary", starved(), { topN = 2 })
    assert.same({ 4, 6, 3, 2, 764, 20 }, {
      payload.latestWorkerThreadCount, payload.peakWorkerThreadCount, payload.hillClimbingEvents, payload.starvationAdjustments,
      payload.totalEnqueueEvents, payload.totalDequeueEvents })
    assert.same({ { method = "App.Feeder1", count = 99 }, { method = "App.Feeder2", count = 98 } }, payload.topWorkItemOrigins)
    assert.same({ workerMinThreads = 2, workerMaxThreads = 32767, iocpMinThreads = 1, iocpMaxThreads = 1000 }, payload.effectiveSettings)
    assert.same({ confirmedStarvationCount = 2, confirmedCooperativeBlockingCount = 0 }, payload.evidence)
    assert.same({ matched = 20, p50Ms = 12.5, p95Ms = 900, maxMs = 1000.25, notDequeued = 744 }, payload.queueWait)
  end)

  it("summary has no number where nothing was measured", function()
    local payload = project("summary", window.artifact())
    for _, name in ipairs { "latestWorkerThreadCount", "peakWorkerThreadCount", "latestIocpThreadCount", "peakIocpThreadCount",
      "effectiveSettings", "queueWait" } do
      assert.is_nil(payload[name], name)
    end
  end)

  it("timeline has one row a second from the first measurement on, each with its provenance", function()
    local payload = project("timeline", starved())
    assert.equal(9, #payload.workerThreads)
    assert.same({ timestamp = "2025-11-30T06:40:01.000Z", count = 2, countProvenance = "runtime-observed" }, payload.workerThreads[1])
    assert.same({ timestamp = "2025-11-30T06:40:02.000Z", count = 2, countProvenance = "carried-forward" }, payload.workerThreads[2])
    assert.equal(0, #payload.iocpThreads)
  end)

  it("hillClimbing is in order of time, the last ones when there are more", function()
    local payload = project("hillClimbing", starved(), { topN = 2 })
    assert.same({ 2, "Starvation", 2, 3, "Starvation", 3, 4 }, {
      payload.returned, payload.samples[1].reason, payload.samples[1].oldCount, payload.samples[1].newCount, payload.samples[2].reason,
      payload.samples[2].oldCount, payload.samples[2].newCount })
    assert.equal("2025-11-30T06:40:02.250Z", payload.samples[1].timestamp)
    assert.is_true(payload.quality.responseProjectionOnly)
    assert.is_false(project("hillClimbing", starved()).quality.responseProjectionOnly)
  end)

  it("workItemOrigins is by count, with the stacks", function()
    local payload = project("workItemOrigins", starved(), { topN = 3 })
    assert.same({ 764, 3, "App.Feeder1", 99 }, {
      payload.totalEnqueueEvents, payload.returned, payload.origins[1].method, payload.origins[1].count })
    assert.same({ "System.Threading.ThreadPool.Queue", "App.Feeder1" }, payload.origins[1].stack)
  end)

  it("every view has the quality object: seven causes apart, and what they support", function()
    for _, name in ipairs { "summary", "timeline", "hillClimbing", "workItemOrigins" } do
      local q = project(name, starved()).quality
      for _, cause in ipairs { "transportLoss", "processingFailure", "collectorEviction", "inferenceUsed", "windowOrStartupLimited",
        "responseProjectionOnly", "supportsPositiveEvidence", "supportsAbsence", "supportsRegressionConclusions" } do
        assert.is_boolean(q[cause], name .. " " .. cause)
      end
      assert.same({ "iocp-thread-counts" }, q.unavailableMechanisms)
    end
  end)
end)

describe("collectors.threadpool.snapshot", function()
  it("has neither series nor adjustments at Summary, and five origins, the evidence and the quality", function()
    local brief = snapshot.wire(starved(), "Summary")
    asked.fits(brief, "ThreadPoolEventSnapshot")
    for _, name in ipairs { "workerThreadTimeline", "iocpThreadTimeline", "hillClimbing" } do assert.is_nil(brief[name], name) end
    assert.same({ 5, 2, true }, {
      #brief.workItemOrigins, brief.evidence.confirmedStarvationCount, brief.quality.responseProjectionOnly })
    assert.is_true(#json.encode(brief) < 16384)
  end)

  it("has them at Detail; a series of I/O threads only where the runtime has such", function()
    local detail = snapshot.wire(starved(), "Detail")
    asked.fits(detail, "ThreadPoolEventSnapshot")
    assert.same({ 9, 3, 8 }, { #detail.workerThreadTimeline, #detail.hillClimbing, #detail.workItemOrigins })
    assert.is_nil(detail.iocpThreadTimeline)
    assert.is_false(detail.quality.responseProjectionOnly)
    local with = snapshot.wire(window.artifact { iocp = { { 8, 3 } } }, "Detail")
    assert.equal(2, #with.iocpThreadTimeline)
  end)

  it("hints at the blocked threads of a live process when the runtime told of starvation", function()
    local function tools(list)
      local names = {}
      for i, hint in ipairs(list) do names[i] = hint.suggestedArguments.view or hint.nextTool end
      return names
    end
    local all = hints.of(starved(), "H", 7)
    assert.same({ "timeline", "hillClimbing", "workItemOrigins", "collect_events", "collect_thread_snapshot" }, tools(all))
    assert.same({ "wait-handles", 7 }, { all[4].suggestedArguments.kind, all[4].suggestedArguments.processId })
    assert.same({ "timeline", "hillClimbing", "workItemOrigins" }, tools(hints.of(window.artifact(), "H", 7)))
    assert.equal(3, #hints.of(starved(), "H"))
  end)
end)
