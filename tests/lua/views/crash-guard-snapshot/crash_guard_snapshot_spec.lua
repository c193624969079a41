-- SPDX-License-Identifier: MIT
-- The views of a crash-guard handle.
local asked = require("support.asked")

local function thrown(n, frames)
  return { at_ms = 1764484800000 + n, type = "T", message = "m" .. n, hresult = 0x80131500, thread = 7, frames = frames }
end

local function artifact(more)
  local a = {
    process_id = 42, started_unix_ms = 1764484800000, duration_ms = 900, exited = true, exit_code = 134, unhandled = true,
    final = thrown(9, { "App.Crash()", "App.Main()" }), total = 9, by_type = { { type = "T", n = 9 } }, other_types = 0, sites = {},
    resolved = 0, recent = {}, recent_cap = 9, notes = { "Exit: …" }, observation = {},
  }
  for i = 1, 9 do a.recent[i] = thrown(i) end
  for k, v in pairs(more or {}) do a[k] = v end
  return a
end

local function ask(name, options, more) return asked.view("crash-guard-snapshot", artifact(more), name, options) end

describe("views.crash-guard-snapshot", function()
  it("summary has the final exception, the exit, the counts and the notes", function()
    local payload = ask("summary")
    assert.same({ true, 134, true, "m9", { { exceptionType = "T", count = 9 } }, { "Exit: …" } }, {
      payload.processExited, payload.exitCode, payload.unhandledExceptionObserved, payload.finalException.exceptionMessage, payload.byType,
      payload.notes })
  end)

  it("summary has no exit code where the system gave none", function()
    local given = artifact()
    given.exit_code = nil
    assert.is_nil(asked.view("crash-guard-snapshot", given, "summary").exitCode)
  end)

  it("exceptions gives the last ones, in order of time", function()
    local payload = ask("exceptions", { topN = 2 })
    assert.same({ 2, "m8", "m9" },
      { payload.returned, payload.exceptions[1].exceptionMessage, payload.exceptions[2].exceptionMessage })
    assert.equal(9, ask("exceptions").returned)
  end)

  it("stack gives the whole stack of the final exception", function()
    local payload = ask("stack")
    assert.same({ "m9", { "App.Crash()", "App.Main()" } }, { payload.finalException.exceptionMessage, payload.stack })
  end)

  it("stack names the first frame that has a name, and says what lies above it", function()
    local _, envelope = ask("stack")
    assert.equal("T, thrown in App.Crash().", envelope.summary)
    _, envelope = ask("stack", nil, { final = thrown(9, { "0x7f01", "App.Crash()" }) })
    assert.equal("T, thrown in App.Crash() or in what it called: the frame above it has no name.", envelope.summary)
    _, envelope = ask("stack", nil, { final = thrown(9, { "0x7f01", "0x7f02", "App.Crash()" }) })
    assert.equal("T, thrown in App.Crash() or in what it called: the 2 frames above it have no name.", envelope.summary)
  end)

  it("stack is empty, not an error, when the runtime exposed none, or when there was no final exception", function()
    local payload, envelope = ask("stack", nil, { final = thrown(9) })
    assert.is_nil(payload.stack)
    assert.equal("m9", payload.finalException.exceptionMessage)
    assert.matches("has no names", envelope.summary)
    local given = artifact { unhandled = false }
    given.final = nil
    payload, envelope = asked.view("crash-guard-snapshot", given, "stack")
    assert.same({}, payload)
    assert.matches("No final exception", envelope.summary)
  end)
end)
