-- SPDX-License-Identifier: MIT
-- A process that a signal or a debugger has stopped, by its state.
local proc = require("lunette.proc")
local stopped = require("samplers.stopped")

local function in_state(state, what)
  local stat = proc.stat
  local _ <close> = setmetatable({}, { __close = function() proc.stat = stat end })
  proc.stat = function() return state and { state = state } or nil end
  return what()
end

describe("samplers.stopped", function()
  it("tells who stopped the process, and how it goes on", function()
    assert.equal("a signal (kill -CONT 42 lets it go on)", in_state("T", function() return stopped.by(42) end))
    assert.equal("a debugger", in_state("t", function() return stopped.by(42) end))
    for _, state in ipairs { "R", "S", "D", "Z" } do assert.is_nil(in_state(state, function() return stopped.by(42) end)) end
    assert.is_nil(in_state(nil, function() return stopped.by(42) end), "it is gone")
  end)

  it("does not let the runtime be asked that answers nobody", function()
    assert.is_true(in_state("T", function() return stopped.is_mute { pid = 42 } end))
    assert.is_true(in_state("S", function() return stopped.is_mute { pid = 42, why_not = {} } end))
    assert.is_false(in_state("S", function() return stopped.is_mute { pid = 42 } end))
  end)

  it("says that another program runs, and not that its file was removed", function()
    local link, notes = proc.link, {}
    local _ <close> = setmetatable({}, { __close = function() proc.link = link end })
    local function runs(path) proc.link = function(_, name) return name == "exe" and path or nil end end
    runs("/app/shop")
    local program = stopped.program(42)
    for _, same in ipairs { "/app/shop", "/app/shop (deleted)" } do
      runs(same)
      in_state("S", function() stopped.note(42, notes, program) end)
    end
    runs(nil)
    in_state(nil, function() stopped.note(42, notes, program) end)
    assert.same({}, notes)
    runs("/bin/sleep")
    in_state("S", function() stopped.note(42, notes, program) end)
    assert.matches("^Replaced: .*%(/bin/sleep%)", notes[1])
    in_state("S", function() stopped.note(42, notes, nil) end)
    assert.equal(1, #notes, "what could not be looked at is not compared")
  end)

  it("says it before all other notes", function()
    local notes = { "NoSwitches: ..." }
    in_state("T", function() stopped.note(42, notes) end)
    assert.matches("^Stopped: .*kill %-CONT 42", notes[1])
    assert.equal(2, #notes)
    in_state("S", function() stopped.note(42, notes) end)
    assert.equal(2, #notes)
  end)
end)
