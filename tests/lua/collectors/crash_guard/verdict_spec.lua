-- SPDX-License-Identifier: MIT
-- What the end of a guard window means, for each kind of end.
local verdict = require("collectors.crash_guard.verdict")

local A <const> = { type = "A" }
local UNCAUGHT <const> = { thrown = A, handled = false, bottom = false }
local BOTTOM <const> = { thrown = A, handled = false, bottom = true }
local HANDLED <const> = { thrown = A, handled = true, bottom = false }

local function of(more)
  local e = { live = true, ended = true, exit = nil, clean = false, handlers_told = true, in_flight = nil, last = nil }
  for k, v in pairs(more) do e[k] = v end
  return verdict.of(e)
end

local function notes(v) return table.concat(v.notes, "\n") end

describe("collectors.crash_guard.verdict", function()
  it("says unhandled for SIGABRT with an exception that reached no handler", function()
    local v = of { exit = { signal = 6 }, in_flight = UNCAUGHT, last = A }
    assert.same({ true, 134, true, false, A }, { v.exited, v.exit_code, v.unhandled, v.marker, v.final })
    assert.matches("signal 6 %(SIGABRT%) ended the process %(exitCode 134%)", notes(v))
    assert.matches("UnhandledHeuristic", notes(v))
  end)

  it("says that the runtime itself told, where it did", function()
    local v = of { exit = { signal = 6 }, in_flight = BOTTOM }
    assert.same({ true, true, A }, { v.unhandled, v.marker, v.final })
    assert.matches("UnhandledMarker", notes(v))
  end)

  it("takes the code of a shell for the signal", function()
    assert.same({ true, 134 }, { of({ exit = { code = 134 }, in_flight = UNCAUGHT }).unhandled, of({ exit = { code = 134 } }).exit_code })
  end)

  it("says unhandled without a final exception for SIGABRT alone, and why that is a guess", function()
    local v = of { exit = { signal = 6 }, last = A }
    assert.same({ true, nil }, { v.unhandled, v.final })
    assert.matches("FailFast", notes(v))
  end)

  it("takes an exception whose handler did not end for thrown on, after SIGABRT", function()
    local v = of { exit = { signal = 6 }, in_flight = HANDLED }
    assert.same({ true, A }, { v.unhandled, v.final })
    assert.matches("thrown on", notes(v))
  end)

  it("takes the last exception of a runtime that does not tell of handlers, after SIGABRT only", function()
    local v = of { exit = { signal = 6 }, handlers_told = false, in_flight = UNCAUGHT, last = A }
    assert.same({ true, A }, { v.unhandled, v.final })
    assert.matches("NativeAOT", notes(v))
    assert.is_false(of({ handlers_told = false, in_flight = UNCAUGHT, last = A }).unhandled)
  end)

  it("leaves first-chance exceptions at that: SIGKILL, SIGTERM, a fault, an exit code", function()
    for _, exit in ipairs { { signal = 9 }, { signal = 15 }, { signal = 11 }, { code = 0 }, { code = 3 } } do
      local v = of { exit = exit, in_flight = UNCAUGHT, last = A }
      assert.same({ true, false }, { v.exited, v.unhandled })
      assert.is_nil(v.final)
      assert.equal(exit.code or 128 + exit.signal, v.exit_code)
    end
    assert.matches("Killed: SIGKILL", notes(of { exit = { signal = 9 } }))
    assert.matches("Fault", notes(of { exit = { signal = 11 } }))
  end)

  it("has no exit code when the system gave none, and says so", function()
    for _, exit in ipairs { false, {} } do
      local v = of { exit = exit or nil, in_flight = UNCAUGHT }
      assert.is_nil(v.exit_code)
      assert.same({ true, true, A }, { v.exited, v.unhandled, v.final })
      assert.matches("ExitUnknown", notes(v))
      assert.matches("A kill in the very moment of a throw would look the same", notes(v))
    end
  end)

  it("does not guess for an unknown exit without an exception in flight, or after a stream that ended in good order", function()
    for _, e in ipairs { {}, { in_flight = HANDLED }, { clean = true, in_flight = UNCAUGHT } } do assert.is_false(of(e).unhandled) end
    assert.matches("not known", notes(of {}))
  end)

  it("says nothing of an end for a process that runs on, but tells of an exception in flight", function()
    local v = of { ended = false }
    assert.same({ false, false, {} }, { v.exited, v.unhandled, v.notes })
    assert.is_nil(v.exit_code)
    v = of { ended = false, in_flight = UNCAUGHT }
    assert.is_false(v.unhandled)
    assert.matches("InFlight", notes(v))
  end)

  it("believes the runtime's own word while a dump delays the end of the process", function()
    local v = of { ended = false, in_flight = BOTTOM }
    assert.same({ false, true, true, A }, { v.exited, v.unhandled, v.marker, v.final })
    assert.is_nil(v.exit_code)
    assert.matches("UnhandledMarker.+still ran", notes(v))
    assert.is_false(of({ ended = false, in_flight = BOTTOM, handlers_told = false }).unhandled)
  end)

  it("reads a recording that breaks off like an end without a status, and one in good order like none", function()
    local v = of { live = false, ended = false, in_flight = UNCAUGHT }
    assert.same({ false, true, A }, { v.exited, v.unhandled, v.final })
    assert.matches("Recording", notes(v))
    assert.is_false(of({ live = false, ended = false, clean = true, in_flight = UNCAUGHT }).unhandled)
    assert.is_false(of({ live = false, ended = false, handlers_told = false, in_flight = UNCAUGHT }).unhandled)
  end)
end)
