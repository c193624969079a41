-- SPDX-License-Identifier: MIT
-- native-alloc and native-lock-contention over a made-up session of the kernel: their numbers, what they say of what is missing, and their
-- errors.
local hits = require("lunette.hits")
local json = require("lunette.json")
local process = require("lunette.process")

local function stats(changes)
  local given = {
    functions = { { name = "malloc", library = "libc.so.6", calls = 7, samples = 7 },
      { name = "calloc", library = "libc.so.6", calls = 9, samples = 9 } },
    way = "tracefs-uprobe", left_out = 0, calls = 16, samples = 16, broken = 0, dropped = 0, lost = 0, threads_missing = 0, throttled = 0,
    descriptors = 4, target_ended = false, elapsed_ms = 1000, open_ms = 1, close_ms = 1,
  }
  for name, value in pairs(changes or {}) do given[name] = value end
  return given
end

-- The payload of a window that has such stats, or nil and the error with which it did not open; and what was asked of the session.
local function run(kind, changes, fault)
  local open, found, asked = hits.open, process.without_socket, nil
  local _ <close> = setmetatable({}, { __close = function() hits.open, process.without_socket = open, found end })
  hits.open = function(options)
    asked = options
    if fault then return nil, fault end
    return setmetatable({ run = function() return true end, stats = function() return stats(changes) end },
      { __close = function() end })
  end
  process.without_socket = function() return { pid = 42, digest = { runtime = "NativeAot" } } end
  local sampler = require(kind == "native-alloc" and "samplers.native_alloc" or "samplers.native_lock")
  local data, err = sampler.run({ progress = function() end }, { durationSeconds = 1, topN = 5, depth = "Detail",
    nativeAllocSamplePeriod = 1, nativeLockContentionSamplePeriod = 1 })
  return data, err, asked
end

local KINDS <const> = { "native-alloc", "native-lock-contention" }

describe("calls of native functions", function()
  it("are exact by function, most first, and claim no bytes", function()
    local data, _, asked = run("native-alloc")
    assert.same({ 16, 1, "linux-uprobe" }, { data.totalHits, data.samplePeriod, data.backend })
    assert.same({ "calloc", 9, "malloc", 7 }, { data.byFunction[1]["function"], data.byFunction[1].hits, data.byFunction[2]["function"],
      data.byFunction[2].hits })
    for name, value in pairs(data) do -- the cost has the bytes that the runtime sent
      if name ~= "cost" then assert.is_nil((name .. json.encode(value)):lower():find("bytes", 1, true)) end
    end
    assert.same({ 42, 1, "malloc" }, { asked.pid, asked.period, asked.functions[1] })
  end)

  it("of mutexes are activity, whatever their number, with the way that they were seen by", function()
    for _, n in ipairs { 0, 16, 1000000 } do
      local data = run("native-lock-contention", { calls = n })
      assert.same({ "activity", n, { "native-lock-contention:uprobe" } },
        { data.contentionEvidence.level, data.contentionEvidence.sampledLockCallCount, data.contentionEvidence.evidenceSources })
    end
    local data = run("native-lock-contention", { way = "hardware-breakpoint" })
    assert.same({ "native-lock-contention:breakpoint" }, data.contentionEvidence.evidenceSources)
  end)

  it("say what is missing, each in a note", function()
    for _, kind in ipairs(KINDS) do
      local text = table.concat(run(kind, { lost = 3, throttled = 2, dropped = 5, threads_missing = 4, broken = 6, target_ended = true,
        way = "perf-uprobe" }).notes, "\n")
      for _, word in ipairs { "RecordsLost: .* 3 ", "Throttled: .* 2 ", "SamplesDropped: .* 5 ", "ThreadsMissing: 4 ",
        "StacksIncomplete: 6 ", "EndedEarly", "LaterThreads" } do assert.matches(word, text) end
      assert.matches("Breakpoints: .*: 2 functions", run(kind, { way = "hardware-breakpoint", left_out = 2 }).notes[1])
      assert.matches("Breakpoints: uprobes are not to be had", run(kind, { way = "hardware-breakpoint" }).notes[1])
      assert.matches("Breakpoints: .* too many threads", run(kind, { way = "hardware-breakpoint", crowded = true }).notes[1])
      assert.same({}, { table.unpack(run(kind).notes) })
    end
  end)

  it("call a remainder what had no stack by the period, and not what was lost", function()
    assert.matches("Remainder: 6 of 16", run("native-alloc", { samples = 10 }).notes[1])
    local text = table.concat(run("native-alloc", { samples = 10, lost = 6 }).notes, "\n")
    assert.matches("RecordsLost", text)
    assert.is_nil(text:find("Remainder", 1, true))
  end)

  it("without a way are NotSupported, without privilege PermissionDenied, each with its cure and whom to ask", function()
    for _, kind in ipairs(KINDS) do
      for _, refused in ipairs { "PermissionDenied", "NotSupported" } do
        local data, err = run(kind, {}, { kind = refused, message = "the kernel says no", hint = "say please", detail = "perf_event_open" })
        assert.is_nil(data)
        assert.same({ refused, "perf_event_open", "inspect_process" }, { err.kind, err.detail, err.hints[1].nextTool })
        assert.matches(kind, err.message, 1, true)
        assert.matches("say please", err.message)
      end
    end
  end)
end)
