-- SPDX-License-Identifier: MIT
-- Counters as they are compared: identity, value, direction.
local asked = require("support.asked")
local comparable = require("collectors.counters.comparable")
local handles = require("lunette.handles")
local series = require("collectors.counters.series")

local function counter(name, value, unit)
  local s = series.new()
  series.add(s, value)
  return { provider = "System.Runtime", name = name, display_name = name, unit = unit, kind = "Mean", series = s }
end

local function artifact(counters, meters)
  return {
    process_id = 42, started_unix_ms = 1764484800000, duration_ms = 5000, counters = counters, meters = meters or {}, notes = {},
    provider_order = { "System.Runtime" },
  }
end

local function diff(before, after)
  local baseline = handles.put {
    kind = "counters", artifact = before, origin = "trace", process_id = 42, started_unix_ms = before.started_unix_ms, duration_ms = 5000,
  }
  return asked.view("counters", after, "diff", { baselineHandle = baseline.id })
end

describe("collectors.counters.comparable", function()
  it("knows which way the registered names get worse, in any case and punctuation, and no other", function()
    for _, name in ipairs { "threadpool-queue-length", "ThreadPool.Queue_Length", "dotnet.thread_pool.queue.length", "request-p95-seconds",
      "threadpool-thread-count", "http.server.request.duration.p95" } do
      assert.equal("up", comparable.worse(name), name)
    end
    for _, name in ipairs { "requests-per-second", "throughput", "Request.Throughput" } do
      assert.equal("down", comparable.worse(name), name)
    end
    for _, name in ipairs { "cpu-usage", "gc-heap-size", "queue-length", "" } do assert.is_nil(comparable.worse(name), name) end
  end)

  it("has the last value of each counter, and the statistics of a histogram, with the tags in the identity", function()
    local values = series.new()
    series.add(values, 5)
    local list = comparable.of(artifact({ counter("cpu-usage", 12.5, "%") }, {
      { meter = "M", instrument = "http.server.request.duration", unit = "s", tags_text = "route=/a", values = values,
        histogram = { count = 3, sum = 1, p50 = 0.1, p95 = 0.5, p99 = 0.9 } },
      { meter = "M", instrument = "done", unit = "{item}", tags_text = "", values = values, rate = 2.5 },
      { meter = "M", instrument = "level", tags_text = "", values = values },
    })).metrics
    local shown = {}
    for i, m in ipairs(list) do shown[i] = ("%s=%s %s %s"):format(m.name, m.value, m.unit or "", m.worse or "") end
    assert.same({
      "System.Runtime/cpu-usage=12.5 % ", "M/http.server.request.duration{route=/a}.p50=0.1 s ",
      "M/http.server.request.duration{route=/a}.p95=0.5 s up", "M/http.server.request.duration{route=/a}.p99=0.9 s ",
      "M/done.rate=2.5 {item}/s ", "M/level=5  ",
    }, shown)
  end)
end)

describe("views.counters.diff", function()
  it("judges by the registered names only", function()
    local function window(queue, cpu) return artifact { counter("threadpool-queue-length", queue), counter("cpu-usage", cpu, "%") } end
    assert.equal("regression", diff(window(10, 90), window(50, 10)).verdict)
    assert.equal("improvement", diff(window(50, 10), window(10, 90)).verdict)
    local payload = diff(window(10, 10), window(10, 90))
    assert.equal("no_change", payload.verdict) -- cpu-usage is listed and drives nothing
    assert.same({ 10, 90 }, payload.metrics[2].values)
    assert.equal("up", payload.metrics[2].direction)
  end)

  it("is inconclusive without such a name", function()
    assert.equal("inconclusive", diff(artifact { counter("cpu-usage", 1) }, artifact { counter("cpu-usage", 2) }).verdict)
  end)
end)
