-- SPDX-License-Identifier: MIT
-- The four levels of evidence for native blocking, and what a batch makes of two of them.
local batch = require("collectors.batch.native_contention")
local contention = require("samplers.native_contention")

local function sync(more)
  local t = { spans = 0, censored = 0, locks = 0, micros = 0, censored_micros = 0, locks_micros = 0 }
  for name, value in pairs(more) do t[name] = value end
  return t
end

local CLOSED <const> = { spans = 5, censored = 1, locks = 4, micros = 900, censored_micros = 100, locks_micros = 700 }

describe("samplers.native_contention", function()
  it("confirms blocking only by waits that ended within the window", function()
    assert.equal("none", contention.of_waits(sync {}, 0).level)
    assert.equal("probable-blocking", contention.of_waits(sync { spans = 2, censored = 2, micros = 10, censored_micros = 10 }, 0).level)
    assert.equal("confirmed-blocking", contention.of_waits(sync(CLOSED), 0).level)
    assert.equal("probable-blocking", contention.of_waits(sync(CLOSED), 3).level, "records were lost")
  end)

  it("counts what is closed apart from what is cut off, and says what may be idleness", function()
    local e = contention.of_waits(sync(CLOSED), 0)
    assert.same({ 5, 900, 4, 1, 0 }, {
      e.nativeSyncSpanCount, e.nativeSyncMicros, e.closedNativeSyncSpanCount, e.censoredNativeSyncSpanCount, e.sampledLockCallCount,
    })
    assert.matches("1 of 5 waits", e.uncertaintyNotes[1])
    assert.matches("1 waits .* cut off", e.uncertaintyNotes[2])
  end)

  it("calls of lock functions are activity, whatever their number", function()
    for _, n in ipairs { 0, 1, 1000000000 } do
      local e = contention.of_calls(n)
      assert.same({ contention.LOCK_CALLS }, e.evidenceSources)
      assert.same({ contention.LOCK_BREAKPOINTS }, contention.of_calls(n, contention.LOCK_BREAKPOINTS).evidenceSources)
      assert.same({ "activity", n, 0 }, { e.level, e.sampledLockCallCount, e.nativeSyncSpanCount })
    end
  end)
end)

describe("collectors.batch.native_contention", function()
  local function entry(member, value) return { extras = { handle = { artifact = { [member] = value } } } } end
  local waits = entry("evidence", contention.of_waits(sync(CLOSED), 0))
  local idle = entry("evidence", contention.of_waits(sync {}, 0))
  local calls = entry("contention", contention.of_calls(77))
  local failed = { error = { kind = "PermissionDenied", message = "no" } }

  it("has the level of the waits, whatever the calls", function()
    for _, case in ipairs { { waits, "confirmed-blocking" }, { idle, "none" } } do
      local e = batch.of(case[1], calls)
      assert.same({ case[2], 77, 2 }, { e.level, e.sampledLockCallCount, #e.evidenceSources })
    end
    assert.equal(0, waits.extras.handle.artifact.evidence.sampledLockCallCount, "the entry's own is not changed")
  end)

  it("comes with one of the two, its level unchanged, and names the other", function()
    local e = batch.of(waits, failed)
    assert.equal("confirmed-blocking", e.level)
    assert.matches("native-lock-contention failed (PermissionDenied).", e.summary, 1, true)
    e = batch.of(failed, calls)
    assert.equal("activity", e.level)
    assert.matches("off_cpu failed (PermissionDenied).", e.summary, 1, true)
    assert.matches("native-lock-contention was not asked for.", batch.of(waits, nil).summary, 1, true)
  end)

  it("is absent when both failed, or neither was asked for", function()
    assert.is_nil(batch.of(failed, failed))
    assert.is_nil(batch.of(nil, failed))
    assert.is_nil(batch.of(nil, nil))
  end)
end)
