-- SPDX-License-Identifier: MIT
-- A ring of the last events looks at a long run of them when the run is over, and then at its end only. So two rings of one program must
-- agree, of which only the first is kept that way: over every recording, with payloads of all sizes and with activities.
local kit = require("support.framework_kit")
local probe = require("lunette.probe")
local sys = require("lunette.sys")

local RECORDINGS <const> = sys.home .. "/tests/data/recordings/"
local ROW <const> = { at = "@time", thread = "@thread", event = "@event", activity = "@activity" }

-- What both rings must have seen: the second is larger than a ring that is kept by the run may be.
local function rings(path, first, second)
  local program = probe.program {
    name = "rings", events = { all = "*/*", start = "*/*" },
    keep = { few = probe.last(first, ROW), many = probe.last(second, ROW) },
  }
  return assert(probe.run(kit.ctx(), program, { path = path }))
end

local function tail(rows, n) return table.move(rows, math.max(1, #rows - n + 1), #rows, 1, {}) end

describe("a ring of events #unit", function()
  for _, name in ipairs { "serve", "spans", "db", "services", "logs", "net9-waits", "throw", "jit", "quiet" } do
    it("holds the last ones of " .. name, function()
      local result = rings(RECORDINGS .. name .. ".nettrace", 100, 200)
      assert.equal(result.many.seen, result.few.seen)
      assert.equal(result.few.seen - #result.few.rows, result.few.dropped)
      assert.equal(math.min(100, result.few.seen), #result.few.rows)
      assert.same(tail(result.many.rows, 100), result.few.rows)
      assert.is_true(result.few.seen > 0)
    end)
  end

  it("of one row holds the very last", function()
    local result = rings(RECORDINGS .. "jit.nettrace", 1, 129)
    assert.same(tail(result.many.rows, 1), result.few.rows)
  end)
end)
