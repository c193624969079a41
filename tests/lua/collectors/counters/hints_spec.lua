-- SPDX-License-Identifier: MIT
-- What is called next after a window of counters, at the very thresholds.
local index = require("lunette.rules.index")
local series = require("collectors.counters.series")

local CALM <const> = { ["cpu-usage"] = 50, ["threadpool-queue-length"] = 0, ["time-in-gc"] = 0, ["alloc-rate"] = 0, ["gen-2-gc-count"] = 0,
  ["monitor-lock-contention-count"] = 0 }

-- "tool kind" of each hint, and the hints, of a window in which the counters had these values.
local function hints_of(values)
  local counters = {}
  for name, calm in pairs(CALM) do
    local s = series.new()
    for _ = 1, 3 do series.add(s, values[name] or calm) end
    counters[#counters + 1] = { provider = "System.Runtime", name = name, display_name = name, kind = "Mean", series = s, interval_s = 1 }
  end
  local artifact = { process_id = 42, started_unix_ms = 1764484800000, duration_ms = 5000, interval_s = 1, counters = counters,
    meters = {}, notes = {}, provider_order = { "System.Runtime" } }
  local list, names = index.hints("counters", { artifact = artifact, handle_id = "H", process_id = 42 }), {}
  for i, hint in ipairs(list) do
    local arguments = hint.suggestedArguments or {}
    names[i] = hint.nextTool .. " " .. (arguments.kind or arguments.source or arguments.view or "")
    if hint.nextTool ~= "query_snapshot" then assert.equal(42, arguments.processId, names[i]) end
  end
  return names, list
end

local function has(values, wanted)
  for _, name in ipairs((hints_of(values))) do
    if name == wanted then return true end
  end
  return false
end

describe("hints for counters", function()
  for _, case in ipairs {
    { "CPU", { ["cpu-usage"] = 70 }, { ["cpu-usage"] = 69.9 }, "collect_sample cpu" },
    { "a backlog", { ["threadpool-queue-length"] = 51 }, { ["threadpool-queue-length"] = 50 }, "collect_events threadpool" },
    { "time in GC", { ["time-in-gc"] = 15.1 }, { ["time-in-gc"] = 15 }, "inspect_heap live" },
    { "allocation with Gen2", { ["alloc-rate"] = 51e6, ["gen-2-gc-count"] = 1 }, { ["alloc-rate"] = 51e6 }, "collect_sample allocation" },
    { "Gen2 with allocation", { ["alloc-rate"] = 51e6, ["gen-2-gc-count"] = 1 }, { ["alloc-rate"] = 49e6, ["gen-2-gc-count"] = 1 },
      "collect_sample allocation" },
    { "contention", { ["monitor-lock-contention-count"] = 11 }, { ["monitor-lock-contention-count"] = 10 }, "collect_events contention" },
    { "a queue with little CPU", { ["cpu-usage"] = 29, ["threadpool-queue-length"] = 11 },
      { ["cpu-usage"] = 30, ["threadpool-queue-length"] = 11 }, "collect_thread_snapshot " },
  } do
    local what, above, below, wanted = table.unpack(case)
    it("follow " .. what, function()
      assert.is_true(has(above, wanted))
      assert.is_false(has(below, wanted))
    end)
  end

  it("lead to the collections when the time in GC is high", function()
    assert.is_true((hints_of { ["time-in-gc"] = 40 })[1] == "collect_events gc")
  end)

  it("call little CPU with a queue inconclusive, and never I/O", function()
    local _, list = hints_of { ["cpu-usage"] = 3, ["threadpool-queue-length"] = 200 }
    local said = 0
    for _, hint in ipairs(list) do
      assert.is_nil(hint.reason:find("I/O", 1, true) or hint.reason:lower():find("io-bound", 1, true))
      if hint.reason:find("inconclusive", 1, true) then said = said + 1 end
    end
    assert.equal(2, said)
  end)

  it("go on with the collector when nothing stands out, and end with all counters by provider", function()
    local names, list = hints_of {}
    assert.same({ "collect_events gc", "query_snapshot byProvider" }, names)
    assert.same({ "H", "normal", "low" }, { list[2].suggestedArguments.handle, list[1].priority, list[2].priority })
    names = hints_of { ["cpu-usage"] = 99 }
    assert.same({ "collect_sample cpu", "query_snapshot byProvider" }, names)
  end)
end)
