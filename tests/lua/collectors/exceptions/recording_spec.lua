-- SPDX-License-Identifier: MIT
-- collect_events(kind="exceptions") over recorded sessions of a target that threw a known number of known things.
local fs = require("lunette.fs")
local handles = require("lunette.handles")
local json = require("lunette.json")
local kit = require("support.framework_kit")
local sys = require("lunette.sys")
local asked = require("support.asked")
local collect_events = require("tools.collect_events")

local DATA <const> = sys.home .. "/tests/data/recordings/"
-- Of each type: the method that throws, the HRESULT, what the flags say, and its rows in order.
local THROWN <const> = {
  { "System.InvalidOperationException", "Lunette.Target.Throwing.ThrowInvalid(int32)", "0x80131509", nil, 1, "invalid" },
  { "System.ArgumentException", "Lunette.Target.Throwing.ThrowArgument(int32)", "0x80070057", nil, 2, "argument" },
  { "Lunette.Target.OrderException", "Lunette.Target.Throwing.ThrowOrder(int32)", "0x80131500", "hasInner", 3, "order" },
}

local function collect(name, more, options)
  local arguments = { kind = "exceptions", traceFilePath = DATA .. name .. ".nettrace" }
  for k, v in pairs(more or {}) do arguments[k] = v end
  local ctx = kit.ctx(options)
  ctx.transport = "cli"
  local envelope = kit.call(collect_events, arguments, ctx)
  if envelope.data then assert(kit.conforms(envelope, collect_events)) end
  return envelope
end

local function by_type(n)
  local list = {}
  for i, t in ipairs(THROWN) do list[#THROWN + 1 - i] = { exceptionType = t[1], count = t[5] * n } end
  return list
end

local function check_rows(recent, times)
  local i = 0
  for _, t in ipairs(THROWN) do
    for n = 1, t[5] * times do
      i = i + 1
      local row = recent[i]
      assert.same({ t[1], t[6] .. " " .. n, t[3], t[2], t[4] },
        { row.exceptionType, row.exceptionMessage, row.exceptionHResult, row.stack[1], row.flags and row.flags[1] })
      assert.equal("Lunette.Target.Throwing.Do()", row.stack[3])
      assert.equal(recent[1].threadId, row.threadId)
    end
  end
  assert.equal(i, #recent)
end

describe("collect_events exceptions, recorded", function()
  for name, n in pairs { throw = 10, ["net8-throw"] = 2 } do
    it("counts by type, and keeps each throw with its message, HRESULT and stack: " .. name, function()
      local e = collect(name, { depth = "Detail" }).data.exceptions
      assert.same({ 6 * n, by_type(n), 100 }, { e.totalExceptions, e.byType, e.recentCap })
      check_rows(e.recent, n)
      assert.same({}, e.notes)
    end)
  end

  it("with maxRecent 1 keeps totals and byType exact, and the first row", function()
    local e = collect("throw", { depth = "Detail", maxRecent = 1 }).data.exceptions
    assert.same({ 60, by_type(10), 1, 1, "invalid 1" },
      { e.totalExceptions, e.byType, e.recentCap, #e.recent, e.recent[1].exceptionMessage })
  end)

  it("drops the rows at Summary, and keeps them behind the handle", function()
    local envelope = collect("throw")
    local e = envelope.data.exceptions
    assert.same({ 60, by_type(10), 0 }, { e.totalExceptions, e.byType, #e.recent })
    check_rows(asked.view("exception-snapshot", assert(handles.get(envelope.handle)).artifact, "recent", { topN = 100 }).recent, 10)
    assert.is_true(#json.encode(envelope) <= 16384)
  end)

  it("says which type leads, never which site", function()
    local envelope = collect("throw")
    assert.matches("^60 exceptions %(3 types%) of the recording over .* s, most often Lunette%.Target%.OrderException %(30%)%.$",
      envelope.summary)
    assert.equal(1, #envelope.signals)
    local s = envelope.signals[1]
    assert.same({ "exceptions.by-type", 0.5, "Lunette.Target.OrderException", 30 },
      { s.signal, s.salience, s.buckets[1].key, s.buckets[1].magnitude })
  end)

  it("hints at the methods that throw and outgoing HTTP after exceptions, at the collector after none, and always at byType", function()
    local list = collect("throw").hints
    local second, last = list[2].suggestedArguments, list[#list].suggestedArguments
    assert.same({ "byThrowSite", 20 }, { list[1].suggestedArguments.view, list[1].suggestedArguments.topN })
    assert.same({ "event_source", "System.Net.Http" }, { second.kind, second.providerName })
    assert.matches("throw.nettrace$", second.traceFilePath)
    assert.same({ "byType", 20 }, { last.view, last.topN })
    local envelope = collect("gcs")
    assert.equal("gc", envelope.hints[1].suggestedArguments.kind)
    assert.equal("No exception was seen: look at the garbage collector next. (If the recording has it.)", envelope.hints[1].reason)
  end)

  it("gives zero, no signal and no row for a window without exceptions", function()
    local envelope = collect("gcs", { depth = "Detail" })
    local e = envelope.data.exceptions
    assert.same({ 0, {}, {} }, { e.totalExceptions, e.byType, e.recent })
    assert.is_nil(envelope.signals)
    assert.matches("^0 exceptions", envelope.summary)
    assert.matches("^NotInRecording: the recording has no exception: none came, or .*keyword Exception %(0x8000%)", e.notes[1])
  end)

  it("says that a recording stops before its end", function()
    local envelope = collect("crash")
    local e = envelope.data.exceptions
    assert.equal(4, e.totalExceptions)
    assert.matches("%. The recording stops before its end: what came before is counted%.$", envelope.summary)
    assert.matches("Incomplete", table.concat(e.notes, "\n"))
  end)

  it("refuses a recording that holds nothing, as the guard does", function()
    local path = os.tmpname()
    local f = assert(io.open(path, "wb"))
    f:write(assert(fs.read(DATA .. "throw.nettrace", 1 << 20)):sub(1, 90))
    f:close()
    for _, kind in ipairs { "exceptions", "crash-guard" } do
      local why = assert.is_table(collect("throw", { kind = kind, traceFilePath = path }).error)
      assert.same({ "InvalidArgument", "traceFilePath" }, { why.kind, why.detail })
    end
    os.remove(path)
  end)

  it("refuses maxRecent 0", function()
    local envelope = collect("throw", { maxRecent = 0 })
    assert.same({ "InvalidArgument", "maxRecent" }, { envelope.error.kind, envelope.error.detail })
  end)

  it("cuts a maxRecent that would cost all memory, and says so", function()
    local e = collect("throw", { maxRecent = 2000000000 }).data.exceptions
    assert.equal(100000, e.recentCap)
    assert.matches("RowLimit", table.concat(e.notes, "\n"))
  end)

  it("is moderate: messages are content of the target", function()
    local safety = collect("throw").safety
    assert.same({ "moderate", "content" }, { safety.riskLevel, safety.dataExposure })
  end)
end)
