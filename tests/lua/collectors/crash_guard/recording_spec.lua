-- SPDX-License-Identifier: MIT
-- collect_events(kind="crash-guard") over recorded sessions: one of a process that died of an exception, one of a process that did not.
local handles = require("lunette.handles")
local json = require("lunette.json")
local kit = require("support.framework_kit")
local sys = require("lunette.sys")
local asked = require("support.asked")
local collect_events = require("tools.collect_events")
local snapshot = require("collectors.crash_guard.snapshot")

local DATA <const> = sys.home .. "/tests/data/recordings/"

local function collect(name, more)
  local arguments = { kind = "crash-guard", traceFilePath = DATA .. name .. ".nettrace" }
  for k, v in pairs(more or {}) do arguments[k] = v end
  local ctx = kit.ctx()
  ctx.transport = "cli"
  local envelope = kit.call(collect_events, arguments, ctx)
  assert(kit.conforms(envelope, collect_events))
  return envelope, envelope.data.crashGuard
end

describe("crash-guard's short answer", function()
  it("stays small whatever the target threw", function()
    local frames, by_type = {}, {}
    for i = 1, 100 do frames[i] = ("F%d"):format(i):rep(2000) end
    for i = 1, 4096 do by_type[i] = { type = ("App.Type%d"):format(i):rep(8), n = 1 } end
    local e = { at_ms = 0, type = "T", message = ("m"):rep(4096), hresult = 0, thread = 1, frames = frames }
    local artifact = {
      process_id = 1, started_unix_ms = 0, duration_ms = 1, exited = true, exit_code = 134, unhandled = true, final = e, total = 4096,
      by_type = by_type, recent = { e }, recent_cap = 1, notes = {}, observation = { stream_completed = false, drain_completed = true,
      marker = false, exit_in_window = true, last = e },
    }
    local wire = snapshot.wire(artifact, true)
    assert.is_true(#json.encode(wire) < 14000)
    assert.same({ 50, 9 }, { #wire.byType, #wire.finalException.stack })
    assert.matches("4046 more types are behind the handle", wire.notes[1])
    assert.equal(4096, #snapshot.wire(artifact, false).byType)
  end)
end)

describe("collect_events crash-guard, recorded", function()
  it("fills the final exception and the flag for an unhandled one", function()
    local envelope, c = collect("crash", { depth = "Detail" })
    assert.is_true(c.unhandledExceptionObserved)
    local f = c.finalException
    assert.same({ "System.InvalidOperationException", "the last straw", "0x80131509", { "hasInner" } },
      { f.exceptionType, f.exceptionMessage, f.exceptionHResult, f.flags })
    assert.equal("Lunette.Target.Crashing.CrashNow()", f.stack[3])
    assert.same({ 4, { { exceptionType = "System.InvalidOperationException", count = 4 } } }, { c.totalExceptions, c.byType })
    local messages = {}
    for i, row in ipairs(c.exceptions) do messages[i] = row.exceptionMessage end
    assert.same({ "invalid 1", "invalid 2", "invalid 3", "the last straw" }, messages)
    assert.matches("unhandled System.InvalidOperationException", envelope.summary)
  end)

  it("tells a recording from a process: no exit is claimed", function()
    local _, c = collect("crash")
    assert.is_false(c.processExited)
    assert.is_nil(c.exitCode)
    assert.matches("Recording", c.notes[1])
  end)

  it("tells stream completion, loss, drain and marker separately", function()
    local _, c = collect("crash")
    local o = c.observation
    assert.same({ false, "TruncatedInput", true, true, false, "the last straw" }, {
      o.streamCompleted, o.parserErrorType, o.drainCompleted, o.crashMarkerObserved, o.exitObservedInWindow,
      o.lastObservedException.exceptionMessage })
    assert.is_nil(o.transportLoss) -- what a broken stream lost is not known
    _, c = collect("throw")
    o = c.observation
    assert.same({ true, 0, true, false }, { o.streamCompleted, o.transportLoss, o.drainCompleted, o.crashMarkerObserved })
    assert.is_nil(o.parserErrorType)
  end)

  it("leaves the flag false for exceptions that were handled", function()
    local _, c = collect("throw", { depth = "Detail" })
    assert.is_false(c.unhandledExceptionObserved)
    assert.is_nil(c.finalException)
    assert.equal(60, c.totalExceptions)
    assert.equal("order 30", c.observation.lastObservedException.exceptionMessage)
  end)

  it("says of a recording without exceptions that they may not have been recorded", function()
    local _, c = collect("gcs")
    assert.is_false(c.unhandledExceptionObserved)
    assert.matches("NotInRecording: the recording has no exception", table.concat(c.notes, "\n"), 1, true)
  end)

  it("keeps the last rows, and exact counts", function()
    local _, c = collect("throw", { depth = "Detail", maxRecent = 2 })
    assert.same({ 60, 2, 2, "order 29", "order 30" },
      { c.totalExceptions, c.recentCap, #c.exceptions, c.exceptions[1].exceptionMessage, c.exceptions[2].exceptionMessage })
    assert.matches("Retained: the last 2 of 60", table.concat(c.notes, "\n"))
  end)

  it("drops the rows at Summary and keeps the final exception, the exit, byType and the notes", function()
    local envelope, c = collect("crash")
    assert.same({ 0, "the last straw", 1 }, { #c.exceptions, c.finalException.exceptionMessage, #c.byType })
    assert.is_true(#c.notes > 0 and #json.encode(envelope) <= 16384)
    local artifact = assert(handles.get(envelope.handle)).artifact
    assert.equal(4, asked.view("crash-guard-snapshot", artifact, "exceptions").returned)
  end)

  it("hints at a small dump after a crash, and at the summary always", function()
    local list = collect("crash").hints
    local dump, summary
    for _, hint in ipairs(list) do
      if hint.nextTool == "collect_process_dump" then dump = hint end
      if hint.suggestedArguments.view == "summary" then summary = hint end
    end
    assert.equal("Mini", dump.suggestedArguments.dumpType)
    assert.matches("approval", dump.reason)
    assert.is_table(summary)
    for _, hint in ipairs(collect("throw").hints) do assert.not_equal("collect_process_dump", hint.nextTool) end
  end)

  it("says which type and which site lead, where the stacks have names", function()
    local keys = {}
    for _, s in ipairs(collect("throw").signals) do keys[s.signal] = s.buckets[1].key end
    assert.same({
      ["exceptions.by-type"] = "Lunette.Target.OrderException",
      ["exceptions.by-throw-site"] = "Lunette.Target.OrderException @ Lunette.Target.Throwing.ThrowOrder(int32)",
    }, keys)
    assert.is_nil(collect("crash").signals) -- four exceptions are no crowd, and their innermost frames have no names
  end)
end)
