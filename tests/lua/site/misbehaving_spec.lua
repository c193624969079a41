-- SPDX-License-Identifier: MIT
-- Rules, signals, hints and views of a site that misbehave, in a server that others use: each costs what it would have given, the
-- answer goes on without it and says so, and another client is answered meanwhile. (Tools: tests/live/site_attacks_test.lua.
-- All ways to misbehave: tests/lua/sandbox/attacks_spec.lua.)
local kit = require("support.site_kit")
local loop = require("lunette.loop")
local replay = require("support.replay")

local LATENCY_MS <const> = 100 -- CPU of the server between two turns of another call
local SHOP <const> = "share/shop.nettrace"

-- Bodies of a function, and a word of what is told of them.
local ATTACKS <const> = {
  { "loops", "while true do pcall(function() while true do end end) end", "CPU" },
  { "allocates", "local t = {} while true do t[#t + 1] = {} end", "in one piece" },
  { "recurses", "local function f() return 1 + f() end return f()", "overflow" },
  { "table", "error({})", "table: " },
  { "tostring", "error(setmetatable({}, { __tostring = function() error('again') end }))", "cannot be shown" },
  { "yields", "coroutine.yield(1)", "outside a coroutine" },
  { "waits", "table.sort({ 2, 1 }, function(a, b) require('lunette.loop').sleep_ms(1) return a < b end)", "cannot wait" },
  { "sleeps", "require('lunette.loop').sleep_ms(1e11)", "cannot wait", not_views = true }, -- a view is asked for by itself
  { "naps", "coroutine.wrap(function() require('lunette.loop').channel(1):recv() end)()", "cannot wait", not_views = true },
}

local FILES <const> = {
  rules = [[return rule { name = "bad.%s", input = { of = function() %s end }, levels = { elevated = 1 }, unit = "n", summary = "s",
    rationale = "r" }]],
  signals = [[return signal { id = "bad.%s", handle = "counters", of = function() %s end }]],
  hints = [[return hint_rule { handle = "counters", order = 1, -- %s
    hints = { { tool = "inspect_process", when = function() %s end, reason = "r" } } }]],
  views = [[return view { kind = "counters", name = "bad-%s", project = function() %s end }]],
  tools = [[return tool { name = "bad_%s", description = "d", scopes = { list = { "read-counters" } }, risk = "low", params = {},
    run = function() return {} end, visible = function() %s end }]],
}

local GOOD <const> = {
  ["rules/good.lua"] = [[return rule { name = "good.rule", input = { of = function() return 7 end }, levels = { elevated = 1 },
    unit = "n", summary = "Seven.", rationale = "r" }]],
  ["signals/good.lua"] = [[return signal { id = "good.signal", handle = "counters", of = function()
    return { salience = 1, summary = "Good.", buckets = { { key = "k", magnitude = 1, unit = "n" } } } end }]],
  ["hints/good.lua"] = [[return hint_rule { handle = "counters", order = 1, hints = { { tool = "inspect_process", reason = "Good." } } }]],
  ["views/counters/good.lua"] = [[return view { kind = "counters", name = "good", project = function() return { n = 7 } end }]],
  ["tools/cheap.lua"] = [[
    local loop = require("lunette.loop")
    return tool { name = "cheap", description = "d", scopes = { list = { "read-counters" } }, risk = "low", params = {}, run = function()
      local last, worst = loop.cpu_ms(), 0
      for _ = 1, 20 do
        loop.sleep_ms(2)
        local now = loop.cpu_ms()
        worst, last = math.max(worst, now - last), now
      end
      return { worst = worst }
    end }]],
}

describe("scripts of a site that misbehave in a server #unit", function()
  local dir, server

  local function serve(room, folder, env)
    dir = kit.folder()
    for path, body in pairs(GOOD) do kit.write(dir, path, body) end
    for _, attack in ipairs(ATTACKS) do
      if room ~= "views" or not attack.not_views then
        kit.write(dir, ("%s/bad-%s.lua"):format(folder or room, attack[1]), FILES[room]:format(attack[1], attack[2]))
      end
    end
    env = env or {}
    env.MCP_ARTIFACT_ROOT = dir
    kit.write(dir, "shop.nettrace", assert(require("lunette.fs").read(SHOP, 1 << 20)))
    server = kit.serve(dir, env)
    local status = server:status()
    assert.equal(0, status.broken, require("lunette.json").encode(status.scripts))
  end

  -- fn() while another client calls something cheap again and again.
  local function beside(fn)
    local over = false
    local other = loop.spawn(function()
      local n, worst = 0, 0
      while not over or n == 0 do
        local envelope = assert(server:call("cheap", {}))
        n, worst = n + 1, math.max(worst, envelope.data.worst)
      end
      return { n = n, worst = worst }
    end)
    fn()
    over = true
    local seen = assert(other:await(60000))
    assert.is_true(seen.n >= 1 and seen.worst <= LATENCY_MS, ("%d cheap calls, one waited for %s ms of CPU"):format(seen.n, seen.worst))
  end

  -- Every attack is in the log with what it did; the answer names the first ones, and how many more there are.
  local function told(envelope, what)
    assert.is_nil(envelope.error)
    assert.matches(what .. ".*failed and is missing here: .*%.", envelope.summary)
    assert.matches(("%d more scripts failed; the log names them."):format(#ATTACKS - 2), envelope.summary, 1, true)
    for _, attack in ipairs(ATTACKS) do
      kit.eventually("the log of what " .. attack[1], function()
        for _, line in ipairs(server.log) do
          if line:find("bad%-" .. attack[1] .. "%.lua:%d+: ") and line:find(attack[3], 1, true) then return true end
        end
        return nil, table.concat(server.log, "\n")
      end)
    end
  end

  local function counters() return assert(server:call("collect_events", { kind = "counters", traceFilePath = "shop.nettrace" })) end

  local function named(list, field, value)
    for _, item in ipairs(list or {}) do
      if item[field] == value then return item end
    end
    return nil
  end

  it("the visible of a tool", function()
    serve("tools")
    beside(function()
      for _ = 1, 2 do
        local tools = server:names("tools")
        assert.is_table(tools.cheap)
        for name in pairs(tools) do assert.not_matches("^bad_", name) end
      end
    end)
    for _, attack in ipairs(ATTACKS) do
      local n = 0
      for _, line in ipairs(server.log) do
        if line:find("'visible' failed", 1, true) and line:find("bad%-" .. attack[1] .. "%.lua:%d+: ") then
          n = n + 1
          assert.matches(attack[3], line, 1, true)
        end
      end
      assert.equal(1, n, attack[1])
    end
  end)

  it("rules", function()
    local pid, socket = replay.start_of(SHOP, "--speed", "4", "--loop")
    serve("rules", nil, { TMPDIR = socket })
    beside(function()
      local envelope = assert(server:call("inspect_process", { view = "triage", processId = pid, durationSeconds = 1 }))
      told(envelope, "The rule bad%.")
      assert.equal("Seven.", named(envelope.data.triage.observedSignals, "name", "good.rule").summary)
    end)
  end)

  it("signals", function()
    serve("signals")
    beside(function()
      local envelope = counters()
      told(envelope, "The signal bad%.")
      assert.equal("Good.", named(envelope.signals, "signal", "good.signal").summary)
    end)
  end)

  it("hints", function()
    serve("hints")
    beside(function()
      local envelope = counters()
      told(envelope, "A hint rule for counters ")
      assert.is_table(named(envelope.hints, "reason", "Good."))
    end)
  end)

  it("views", function()
    serve("views", "views/counters")
    beside(function()
      local handle = counters().handle
      for _, attack in ipairs(ATTACKS) do
        if attack.not_views then break end
        local envelope = assert(server:call("query_snapshot", { handle = handle, view = "bad-" .. attack[1] }))
        assert.equal("Internal", envelope.error.kind)
        assert.matches("bad-" .. attack[1] .. ".lua:1: ", envelope.error.message, 1, true)
        assert.matches(attack[3], envelope.error.message, 1, true)
        assert.matches("The script is at fault; the server goes on.", envelope.error.message, 1, true)
      end
      assert.equal(7, assert(server:call("query_snapshot", { handle = handle, view = "good" })).data.payload.n)
    end)
  end)
end)
