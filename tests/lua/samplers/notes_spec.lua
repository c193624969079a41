-- SPDX-License-Identifier: MIT
-- Notes of stack samples: what the runtime leaves out of a stack, and what it adds to one.
local capture = require("samplers.capture")
local stops = require("samplers.stops")

local WHOLE <const> = { dropped = 0, cut = 0, full = 0, methods_dropped = 0, bad = 0, no_stack = 0 }

local function notes_of(more)
  local notes, info = {}, {}
  for name, value in pairs(WHOLE) do info[name] = more[name] or value end
  capture.profile_notes(info, notes)
  return notes
end

-- A profile of samples that end in the stop: `callers` of each frame, most first.
local function profile_of(exclusive, callers)
  return {
    match = function(_, text) return text:find("<PollGC>", 1, true) and exclusive and { { frame = 1, exclusive = exclusive } } or {} end,
    caller_callee = function(_, query) return { callers = callers[query.frame] or {} } end,
  }
end

describe("notes of a profile", function()
  it("are none where nothing is missing", function() assert.same({}, notes_of {}) end)

  it("tell of stacks that the runtime cut, and of those that were cut here", function()
    local notes = notes_of { full = 4, cut = 2 }
    assert.equal(2, #notes)
    assert.matches("StacksCut: 2 stacks are deeper", notes[1], 1, true)
    assert.matches("StacksFull: 4 samples have 100 frames", notes[2], 1, true)
  end)

  it("name who was stopped for its samples, if that is a good part of them", function()
    local poll, burn = { frame = 2, method = "System.Threading.Thread.PollGC()" }, { frame = 3, method = "App.Burn(int32)" }
    local root = { frame = 0, method = "<root>" }
    assert.is_nil(stops.note(profile_of(nil, {}), { unknown = 100 }))
    assert.is_nil(stops.note(profile_of(4, { { burn } }), { unknown = 100 }))
    local note = stops.note(profile_of(20, { { burn, root } }), { unknown = 100 })
    assert.matches("Stops: 20 of the 100 samples", note, 1, true)
    assert.matches("(most: App.Burn(int32))", note, 1, true)
    assert.equal(note, stops.note(profile_of(20, { { poll }, { burn } }), { unknown = 100 }))
    assert.not_matches("most:", stops.note(profile_of(20, { { root } }), { unknown = 100 }), 1, true)
  end)
end)
