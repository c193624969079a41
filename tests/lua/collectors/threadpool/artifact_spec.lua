-- SPDX-License-Identifier: MIT
-- The threadpool artifact: provenance of every count and reason, origins of work, quality.
local adjustments = require("collectors.threadpool.adjustments")
local origins = require("collectors.threadpool.origins")
local window = require("support.pool_window")

local artifact = window.artifact

local function noted(a, pattern)
  for _, note in ipairs(a.notes) do
    if note:find(pattern) then return note end
  end
  return nil
end

local QUIET <const> = { counts = { { 0, 4 } }, limits = { worker_min = 2, worker_max = 32767, iocp_min = 1, iocp_max = 1000 },
  enqueued = 3, origins = { { 3, "App.Main" } } }

local function quiet(more)
  local given = {}
  for k, v in pairs(QUIET) do given[k] = v end
  for k, v in pairs(more or {}) do given[k] = v end
  return given
end

describe("collectors.threadpool: thread counts", function()
  local function series(counts, of)
    local list = {}
    for i, b in ipairs(artifact({ counts = counts }, of).workers.buckets) do
      list[i] = ("%d:%d%s"):format(b.at_ns // window.SECOND, b.count, b.provenance == "runtime-observed" and "!" or
        b.provenance == "carried-forward" and "" or "?")
    end
    return table.concat(list, " ")
  end

  it("begin with the first measurement", function()
    assert.equal("3:2! 4:2 5:2 6:5! 7:5 8:5 9:5", series { { 3, 2 }, { 6, 5 } })
  end)

  it("end with the window", function()
    assert.equal("0:1! 1:1", series({ { 0, 1 } }, { duration_ms = 2000 }))
    assert.equal("0:1! 1:1 2:1", series({ { 0, 1 } }, { duration_ms = 2001 }))
    assert.equal("0:1! 1:1 2:1 3:1 4:3!", series({ { 0, 1 }, { 4, 3 } }, { duration_ms = 4500 }))
  end)

  it("do not exist without a measurement, which is said", function()
    local a = artifact()
    assert.equal("", series {})
    assert.is_nil(a.workers.latest)
    assert.is_nil(a.workers.peak)
    assert.truthy(noted(a, "^NoMeasurement"))
  end)

  it("know the highest count within a second", function()
    local a = artifact { counts = { { 0, 2, 9 }, { 1, 4 } } }
    assert.same({ 4, 9 }, { a.workers.latest, a.workers.peak })
  end)
end)

describe("collectors.threadpool: adjustments", function()
  it("have the reason that the runtime gave; a missing one is Unknown, an unrecognized number is kept and marked", function()
    assert.same({ "Starvation", "runtime-observed" }, { adjustments.reason(6) })
    assert.same({ "CooperativeBlocking", "runtime-observed" }, { adjustments.reason(8) })
    assert.same({ "Warmup", "runtime-observed" }, { adjustments.reason(0) })
    assert.same({ "17", "runtime-unrecognized" }, { adjustments.reason(17) })
    assert.same({ "Unknown" }, { adjustments.reason(nil) })
  end)

  it("have their new count observed and their old one from the adjustment before, the first none", function()
    local a = artifact { adjustments = { { 1, 1, 2 }, { 2, 6, 3 }, { 3, 6, 4 } } }
    local first, last = a.adjustments[1], a.adjustments[3]
    assert.same({ 2, "runtime-observed" }, { first.new_count, first.new_provenance })
    assert.same({ nil, nil }, { first.old_count, first.old_provenance })
    assert.same({ 3, "inferred-from-neighbor", 4, "runtime-observed", "Starvation", "runtime-observed" }, {
      last.old_count, last.old_provenance, last.new_count, last.new_provenance, last.reason, last.reason_provenance })
  end)

  it("are no starvation however fast the pool grows", function()
    local a = artifact { counts = { { 0, 2 }, { 1, 200 } }, adjustments = { { 0.5, 3, 100 }, { 0.9, 3, 200 } }, enqueued = 5000 }
    assert.same({ 0, 0 }, { a.starvation, a.blocking })
  end)

  it("are counted by reason also when the list is not whole", function()
    local a = artifact { adjustments = { { 1, 6, 3 }, { 2, 6, 4 }, { 3, 8, 5 } }, n_adjustments = 5000 }
    assert.same({ 2, 1, 5000 }, { a.starvation, a.blocking, a.n_adjustments })
    assert.matches("last 3 of 5000", noted(a, "^AdjustmentLimitReached"))
    assert.is_true(a.quality.collector_eviction)
  end)
end)

describe("collectors.threadpool: origins", function()
  local function method(...)
    local frames = {}
    for i, name in ipairs { ... } do frames[i] = { name = name or nil, address = i } end
    return origins.method_of(frames)
  end

  it("are the first method that is no part of the machinery", function()
    assert.equal("App.Feeder.Push", method("System.Diagnostics.Tracing.FrameworkEventSource.ThreadPoolEnqueueWork",
      "System.Threading.ThreadPoolWorkQueue.Enqueue", "System.Threading.ThreadPool.QueueUserWorkItem", "App.Feeder.Push", "App.Main"))
    assert.equal("App.Job.Begin",
      method("System.Threading.ThreadPoolWorkQueue.Enqueue", "System.Threading.Tasks.Task.Run", "App.Job.Begin"))
    assert.equal("System.Threading.TimerQueue.FireNextTimers", method("System.Threading.ThreadPoolWorkQueue.Enqueue",
      "System.Threading.TimerQueue.FireNextTimers"))
  end)

  it("are the machinery itself when nothing else is there, and nothing without names", function()
    assert.equal("System.Threading.ThreadPoolWorkQueue.Dispatch",
      method("System.Diagnostics.Tracing.EventSource.WriteEvent", "System.Threading.ThreadPoolWorkQueue.Dispatch"))
    assert.is_nil(method(false, false))
    assert.is_nil(method())
  end)

  it("merge stacks of one method, most first, and keep the most frequent stack", function()
    local a = artifact { enqueued = 60, origins = {
      { 30, "System.Threading.ThreadPool.Queue", "App.B" }, { 20, "System.Threading.Tasks.Task.Run", "App.A" }, { 10, "App.A", "App.Main" },
    } }
    assert.same({ "App.A", 30, "App.B", 30 }, {
      a.origins[1].method, a.origins[1].count, a.origins[2].method, a.origins[2].count })
    assert.same({ "System.Threading.Tasks.Task.Run", "App.A" }, a.origins[1].stack)
  end)

  it("are empty with a note when no stacks came, or none with a name", function()
    local without, unnamed = artifact { enqueued = 5, origins = { { 5 } } }, artifact { enqueued = 5, origins = { { 5, false, false } } }
    assert.same({ {}, {} }, { without.origins, unnamed.origins })
    assert.truthy(noted(without, "^NoStacks"))
    assert.truthy(noted(unnamed, "^OriginsUnnamed"))
    assert.same("enqueue-stacks", without.quality.unavailable[#without.quality.unavailable])
  end)

  it("own up to stacks without names beside those with", function()
    local a = artifact { enqueued = 9, origins = { { 6, "App.A" }, { 2, false }, { 1 } } }
    assert.same({ { "App.A", 6 }, { "[no method names]", 2 }, { "[no stack]", 1 } }, {
      { a.origins[1].method, a.origins[1].count }, { a.origins[2].method, a.origins[2].count },
      { a.origins[3].method, a.origins[3].count } })
  end)

  it("tell how many events were of stacks that were too many", function()
    local a = artifact { enqueued = 70, origins = { { 10, "App.A" } }, other = { keys = 20, n = 60 } }
    assert.matches("60 enqueue events", noted(a, "^OriginLimitReached"))
    assert.is_true(a.quality.collector_eviction)
  end)

  it("tell of a window without work items", function()
    local a = artifact {}
    assert.truthy(noted(a, "^NoWorkItems"))
    assert.equal("work-item-events", a.quality.unavailable[#a.quality.unavailable])
  end)
end)

describe("collectors.threadpool: settings and queue", function()
  it("has the limits that the runtime sent, and a note when it did not", function()
    assert.same({ worker_min = 2, worker_max = 32767, iocp_min = 1, iocp_max = 1000 }, artifact(quiet()).settings)
    local a = artifact()
    assert.is_nil(a.settings)
    assert.matches("collect_thread_snapshot.*view=\"threadpool\"", noted(a, "^SettingsNotSent"))
  end)

  it("says that a busy pool was slowed by being watched", function()
    local function note(n) return noted(artifact { enqueued = n, origins = { { n, "App.Feed" } } }, "^TargetSlowed") end
    assert.is_nil(note(99999))
    assert.matches("10000 work items a second", note(100000))
  end)

  it("has the time in the queue of the items that were seen entering and leaving it", function()
    assert.is_nil(artifact().queue_wait)
    local waits = { pairs = 3, unmatched = 1, dropped = 0, open = 7, ms = { p50 = 1.5, p95 = 90, max = 100 } }
    assert.same({ n = 3, p50_ms = 1.5, p95_ms = 90, max_ms = 100, not_dequeued = 7 }, artifact({ waits = waits }).queue_wait)
  end)
end)

describe("collectors.threadpool: quality", function()
  local function quality(more, of) return artifact(quiet(more), of).quality end
  local function supports(q) return { q.supports_positive, q.supports_absence, q.supports_regression } end

  it("supports everything when nothing went wrong", function()
    local q = quality({ counts = { { 0, 4 } } }, { duration_ms = 1000 })
    assert.same({ false, false, false, false, false }, {
      q.transport_loss, q.processing_failure, q.collector_eviction, q.inference_used, q.window_limited })
    assert.same({ true, true, true }, supports(q))
    assert.same({ "iocp-thread-counts" }, q.unavailable)
  end)

  it("tells loss: what came is real, what did not come proves nothing", function()
    local q = quality(nil, { lost = 3 })
    assert.is_true(q.transport_loss)
    assert.same({ true, false, false }, supports(q))
  end)

  it("does not take unknown loss for none", function()
    local q = quality(nil, { lost = false })
    assert.is_nil(q.transport_loss)
    assert.same({ true, false, false }, supports(q))
  end)

  it("tells events that could not be read", function()
    local q = quality { meta = { errors = 2 } }
    assert.is_true(q.processing_failure)
    assert.same({ false, false, false }, supports(q))
  end)

  it("tells our own caps, also those on stacks", function()
    assert.is_true(quality({ meta = { errors = 0, stacks_dropped = 1 } }).collector_eviction)
    local q = quality { other = { keys = 1, n = 1 } }
    assert.is_true(q.collector_eviction)
    assert.same({ true, false, false }, supports(q))
  end)

  it("tells inference: carried counts and old counts of adjustments", function()
    assert.is_true(quality().inference_used) -- nine seconds after the only measurement
    assert.is_true(quality({ adjustments = { { 0.1, 0, 2 }, { 0.2, 0, 3 } } }, { duration_ms = 1000 }).inference_used)
  end)

  it("tells a window that ended early, and one whose first measurement came late", function()
    local early = quality(nil, { ended_early = true })
    assert.is_true(early.window_limited)
    assert.same({ true, false, false }, supports(early))
    local late = quality { counts = { { 4, 2 } } }
    assert.is_true(late.window_limited)
    assert.same({ true, true, false }, supports(late))
  end)
end)
