-- SPDX-License-Identifier: MIT
-- A window over a source: how it ends, what it owns, what it says. The source is played by the spec.
local kit = require("support.framework_kit")

local window, script, log

--- A source that plays `script`: a list of batches; "timeout" waits, anything with kind is an error. Then what came while it stopped.
local function play(options)
  log = { closed = 0, stopped = 0 }
  script = table.move(options, 1, #options, 1, {})
  local source = setmetatable({}, { __close = function() log.closed = log.closed + 1 end })
  function source.next(_, wait)
    local step = table.remove(script, 1)
    if step == nil then return nil, { kind = log.stopped > 0 and "NotFound" or "Timeout" } end
    if step == "timeout" then
      assert(require("lunette.loop").sleep_ms(math.min(wait, 20)))
      return nil, { kind = "Timeout" }
    end
    if step.kind then return nil, step end
    return step
  end
  function source.stop()
    log.stopped = log.stopped + 1
    script = { options.at_stop }
    return options.summary or { complete = true, events = 1, lost = 0, dropped = 0 }
  end
  return source
end

local function run(options, spec)
  local source = play(options)
  package.loaded["lunette.events"].open = function() return source end
  spec.open, spec.message = spec.open or {}, "spec"
  spec.seen = {}
  spec.on_event = function(event) spec.seen[#spec.seen + 1] = event end
  return window.run(kit.ctx(), spec)
end

describe("collectors.window", function()
  local real
  setup(function()
    real = { package.loaded["lunette.events"], package.loaded["collectors.window"] }
    package.loaded["lunette.events"], package.loaded["collectors.window"] = {}, nil
    window = require("collectors.window")
  end)
  teardown(function() package.loaded["lunette.events"], package.loaded["collectors.window"] = real[1], real[2] end)

  it("ends at the deadline, stops once, takes what came meanwhile, and closes", function()
    local spec = { duration_ms = 60 }
    local result = run({ { 1, 2 }, "timeout", "timeout", "timeout", "timeout", at_stop = { 3 } }, spec)
    assert.equal("deadline", result.ended)
    assert.is_true(result.elapsed_ms >= 60)
    assert.same({ 1, 2, 3 }, spec.seen)
    assert.same({ 1, 1 }, { log.stopped, log.closed })
  end)

  it("goes on into the grace while something is due, no longer", function()
    local due = 3
    local spec = { duration_ms = 20, grace_ms = 2000, complete = function()
      due = due - 1
      return due == 0
    end }
    local result = run({ "timeout", "timeout", "timeout", "timeout", "timeout", "timeout" }, spec)
    assert.equal("deadline", result.ended)
    assert.equal(0, due)
    assert.is_true(result.elapsed_ms < 2000)
  end)

  describe("on the beat of the runtime", function()
    local loop = require("lunette.loop")

    -- A source whose runtime wrote `ago` ms before the window had `left` ms, and writes every 100 ms; elapsed_ms of the window.
    local function ended(duration_ms, arrived_ns)
      local source = play({ "timeout", at_stop = nil })
      function source.next(_, wait)
        if log.stopped > 0 then return nil, { kind = "NotFound" } end
        assert(loop.sleep_ms(wait))
        return nil, { kind = "Timeout" }
      end
      source.arrived_ns = arrived_ns
      package.loaded["lunette.events"].open = function() return source end
      return window.run(kit.ctx(), { open = {}, message = "spec", duration_ms = duration_ms, on_beat = true, on_event = print }).elapsed_ms
    end

    it("ends shortly before it writes, at most a beat late", function()
      local began = loop.now_ns()
      local function arrived()
        local ms = (loop.now_ns() - began) / 1e6
        return began + math.floor((ms - 60) / 100) * 100 * 1000000 + 60 * 1000000 -- 60, 160, 260 …
      end
      local elapsed = ended(300, arrived)
      local ahead = 360 - elapsed
      assert.is_true(elapsed >= 298, elapsed)
      assert.is_true(ahead <= window.LEAD_MS + 41, ahead) -- by how much depends on how late our waits end
    end)

    it("ends at its time when nothing comes", function()
      local elapsed = ended(150, function() return nil end)
      assert.is_true(elapsed >= 149 and elapsed < 600, elapsed)
    end)

    it("ends though the runtime writes all the time", function()
      local elapsed = ended(150, function() return loop.now_ns() end)
      assert.is_true(elapsed >= 150 + window.BEAT_MS - window.LEAD_MS and elapsed < 2000, elapsed)
    end)
  end)

  it("ends with the stream", function()
    local spec = { duration_ms = 5000 }
    local result = run({ { 1 }, { kind = "NotFound" } }, spec)
    assert.equal("stream-end", result.ended)
    local notes = {}
    window.notes(result, spec, notes)
    assert.matches("^ProcessEnded: ", notes[1])
  end)

  it("does not call a process ended that lives on without its stream", function()
    local spec = { duration_ms = 5000 }
    local result = run({ { 1 }, { kind = "NotFound" }, summary = { complete = false, incomplete_reason = "malformed block" } }, spec)
    local notes = {}
    result.lives = true
    window.notes(result, spec, notes)
    assert.matches("^StreamEnded: the process runs, but its event stream ended .+ %(malformed block%); values", notes[1])
  end)

  it("reads a file to its end without a deadline, and says when it was cut", function()
    local spec = {}
    local result = run({ { 1 }, { 2 }, { kind = "NotFound" }, summary = { complete = false, incomplete_reason = "cut", events = 2 } }, spec)
    assert.same({ 1, 2 }, spec.seen)
    local notes = {}
    window.notes(result, spec, notes)
    assert.same({ "Incomplete: the recording stops before its end mark (cut); what came before is kept." }, notes)
  end)

  it("names a target that stands still, and how it goes on", function()
    local loop = require("lunette.loop")
    local pid = assert(tonumber(assert(loop.exec { argv = { "sh", "-c", "sleep 60 >/dev/null 2>&1 & echo $!" } }).stdout))
    finally(function() loop.exec { argv = { "kill", "-KILL", tostring(pid) } } end)
    local function notes_of(complete)
      local spec = { duration_ms = 1, open = { pid = pid } }
      local result = run({ "timeout", summary = { complete = complete, incomplete_reason = "late" } }, spec)
      local notes = {}
      window.notes(result, spec, notes)
      return table.concat(notes, "\n")
    end
    assert.not_matches("TargetStopped", notes_of(false))
    assert(loop.exec { argv = { "kill", "-STOP", tostring(pid) } })
    while require("lunette.proc").stat(pid).state ~= "T" do loop.sleep_ms(5) end
    assert.matches("TargetStopped: process " .. pid .. " stands still.*kill %-CONT " .. pid .. "\nIncomplete: ", notes_of(false))
    assert.equal("", notes_of(true))
  end)

  it("can be interrupted", function()
    local spec = { duration_ms = 5000 }
    spec.interrupted = function() return #spec.seen >= 2 end
    assert.equal("interrupted", run({ { 1 }, { 2 }, { 3 } }, spec).ended)
  end)

  it("gives up with the error of the source, and closes it", function()
    local result, err = run({ { 1 }, { kind = "Cancelled" } }, { duration_ms = 5000 })
    assert.is_nil(result)
    assert.equal("Cancelled", err.kind)
    assert.same({ 0, 1 }, { log.stopped, log.closed })
  end)

  it("tells loss, drops and an unclean end", function()
    local notes = {}
    window.notes({ ended = "deadline", elapsed_ms = 10,
      summary = {
        lost = 5, lost_by_thread = { { thread = 12, events = 4 }, { thread = 9, events = 1 } }, dropped = 7, complete = false,
        incomplete_reason = "no end mark",
      } }, { duration_ms = 10 }, notes)
    assert.equal(3, #notes)
    assert.matches("^EventsLost: the target dropped 5 events %(its buffers were full%), 4 of thread 12, 1 of thread 9;", notes[1])
    assert.matches("^EventsDropped: 7 events", notes[2])
    assert.matches("^Incomplete: .*%(no end mark%)", notes[3])
  end)

  it("lets a young process settle, and no other", function()
    local loop = require("lunette.loop")
    local started = loop.now_ms()
    assert.is_true(window.settle({ start_unix_ms = loop.unix_ms() - window.SETTLE_MS - 1 }))
    assert.is_true(window.settle(nil))
    assert.is_true(loop.now_ms() - started < 1400)
    started = loop.now_ms()
    assert.is_true(window.settle({ start_unix_ms = loop.unix_ms() - window.SETTLE_MS + 80 }))
    local waited = loop.now_ms() - started
    assert.is_true(waited >= 60 and waited < 1400)
  end)
end)
