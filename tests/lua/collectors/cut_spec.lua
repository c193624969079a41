-- SPDX-License-Identifier: MIT
-- Recordings that stop in the middle: each kind tells how long what is left of them is, also when none of the events that it looks for
-- is in it. A recording has its last time mark only at its end, so the events that nobody asked for tell it.
local fs = require("lunette.fs")
local scopes = require("lunette.scopes")

local RECORDINGS <const> = (os.getenv("LUNETTE_SOURCE_DIR") or ".") .. "/tests/data/recordings/"
local KINDS <const> = {
  "datas", "startup", "gc", "exceptions", "jit", "threadpool", "contention", "wait_handles", "crash_guard", "networking", "logs", "kestrel",
  "activities", "db", "allocations_sampled",
}

local function run(module, path)
  local ctx = { transport = "cli", era = "modern", in_task = false, principal = scopes.principal("spec", { "root" }), state = {} }
  function ctx.can() return false end
  function ctx.progress() end
  local payload, extras = require("collectors." .. module).run(ctx,
    { traceFilePath = path, durationSeconds = 5, depth = "Detail", maxEvents = 100 })
  assert(payload, extras and extras.message)
  return payload, extras.summary
end

describe("the length of a recording that was cut is told by", function()
  local whole, path
  setup(function()
    whole = assert(fs.read(RECORDINGS .. "source.nettrace", 16 * 1024 * 1024))
    path = os.tmpname()
  end)
  teardown(function() os.remove(path) end)

  local function cut(share)
    assert(fs.write_private(path, whole:sub(1, #whole * share // 100)))
    return run("catalog", path)
  end

  for _, module in ipairs(KINDS) do
    it(module, function()
      local before = 0
      for _, share in ipairs { 50, 70, 85, 97 } do
        local all = cut(share)
        local payload, summary = run(module, path)
        local ms = payload.cost.windowMs
        assert.is_true(all.totalEvents > 0)
        assert.equal(all.cost.windowMs, ms)
        assert.is_true(ms > 0 and ms >= before)
        assert.not_matches(" 0%.0 s", summary)
        before = ms
      end
    end)
  end
end)
