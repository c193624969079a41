-- SPDX-License-Identifier: MIT
-- Commands put together from those who tell of them: by statement and connection, once each, and what counts as a repetition.
local commands = require("collectors.db.commands")
local pool = require("collectors.db.pool")
local wire = require("collectors.db.wire")

local function row(sql, n, more)
  local r = {
    sql = sql, server = "s", db = "d", n = n, ns = { n = n, max = 4e6, p95 = 3e6 }, total = n * 2e6, failed = 0, first = 1e9, last = 2e9,
  }
  for k, v in pairs(more or {}) do r[k] = v end
  return r
end

local function told(by_command, by_scope)
  local all = 0
  for _, r in ipairs(by_command or {}) do all = all + r.n end
  return { all = all, by_command = { rows = by_command or {}, evicted = 0 }, by_scope = { rows = by_scope or {}, evicted = 0 }, open = 0 }
end

local function of(ef, client, source)
  return commands.of { ef = ef or told(), sql_client = client or told(), event_source = source or told() }
end

local SPAN <const> = ("00-%s-%s-01"):format(("a"):rep(32), ("b"):rep(16))

describe("collectors.db.commands", function()
  it("calls eleven of the same under one parent an incident, ten none", function()
    local r = of(told({ row("A", 11), row("B", 10) }, { row("A", 11, { scope = SPAN }), row("B", 10, { scope = SPAN }) }))
    assert.same({ 1, 11, "A", ("a"):rep(32) .. ":" .. ("b"):rep(16) },
      { #r.incidents, r.incidents[1].n, r.incidents[1].command.sql, r.incidents[1].scope })
    -- the same eleven under two parents are none
    r = of(told({ row("A", 11) }, { row("A", 6, { scope = SPAN }), row("A", 5, { scope = "|other.1." }) }))
    assert.equal(0, #r.incidents)
  end)

  it("names a scope by what is known of it", function()
    assert.same({ "global", "global", "|root.7." }, { commands.scope(nil), commands.scope(""), commands.scope("|root.7.") })
  end)

  it("tells connections apart, and never knows a password", function()
    local r = of(told { row("A", 2), row("A", 3, { db = "other" }), row("A", 1, { server = "", db = nil }) })
    local seen = {}
    for _, c in ipairs(r.commands) do seen[c.connection] = c.n end
    assert.same({ ["Data Source=s;Database=d"] = 2, ["Data Source=s;Database=other"] = 3, ["Database=d"] = 1 }, seen)
    r = of(told { row("A", 1, { server = "Server=x;Password=S3cret;", db = "d" }) })
    assert.is_nil(r.commands[1].connection:find("S3cret", 1, true))
  end)

  it("hashes the statement without values", function()
    assert.equal("559AEAD08264D579", commands.hash("A"))
    assert.equal("559AEAD08264D579", of(told { row("A", 1) }).commands[1].hash)
    assert.equal("(unknown)", of(told { row("", 1) }).commands[1].sql)
  end)

  it("counts a command once that both tell of, and what SqlClient alone ran beside it", function()
    local r = of(told({ row("A", 4) }), told({ row("A", 6, { total = 6 * 5e6, ns = { n = 6, max = 9e6, p95 = 1e6 } }), row("B", 1) }))
    assert.same({ 7, 4 }, { r.total, r.twice })
    local a = r.commands[1]
    assert.same({ "A", 6, 18.0, 9.0, { "EntityFrameworkCore", "SqlClient" } }, { a.sql, a.n, a.total_ms, a.max_ms, a.providers })
    assert.same({ "B", 1, { "SqlClient" } }, { r.commands[2].sql, r.commands[2].n, r.commands[2].providers })
    -- an incident that both tell of is one, too
    r = of(told({ row("A", 12) }, { row("A", 12, { scope = SPAN }) }), told({ row("A", 12) }, { row("A", 12, { scope = SPAN }) }))
    assert.same({ 1, 12, 2 }, { #r.incidents, r.incidents[1].n, #r.incidents[1].providers })
  end)

  it("prefers the listener to the event source", function()
    assert.equal(3, of(nil, told { row("A", 3) }, told { row("A", 3), row("B", 3) }).total)
    assert.equal(6, of(nil, nil, told { row("A", 3), row("B", 3) }).total)
  end)

  it("orders by time, then count, then hash", function()
    local r = of(told { row("A", 1, { total = 5 }), row("B", 9, { total = 5 }), row("C", 1, { total = 7 }) })
    assert.same({ "C", "B", "A" }, { r.commands[1].sql, r.commands[2].sql, r.commands[3].sql })
  end)

  it("counts what no row was left for in the total", function()
    local ef = told { row("A", 2) }
    ef.by_command.other = { keys = 5, n = 8 }
    ef.by_scope.evicted = 1
    local r = of(ef)
    assert.same({ 10, 8, true }, { r.total, r.left_out, r.full })
  end)
end)

describe("collectors.db.pool", function()
  local SOURCES <const> = { "Microsoft.Data.SqlClient.EventSource", "System.Data.SqlClient.EventSource" }

  it("knows nothing of what never came", function()
    local pools = pool.of({
      counters = { rows = { { provider = SOURCES[1], name = "number-of-active-connections", last = 4, max = 6 } } },
      exhausted = { rows = { { event = "System.Data.SqlClient.WriteConnectionOpenError", n = 3 } } },
    }, SOURCES)
    assert.same({ 2, 4, 6, 0, 3 }, { #pools, pools[1].open.last, pools[1].open.max, pools[1].exhausted, pools[2].exhausted })
    assert.same({}, pools[1].pooled)
    assert.is_truthy(pools[2].notes[1]:find("No counter came", 1, true))
    local shown = wire.pools({ pools = pools })
    assert.is_nil(shown[1].latestPooledConnections)
    assert.is_nil(shown[2].latestOpenConnections)
    assert.same({}, pool.of({ counters = { rows = {} }, exhausted = { rows = {} } }, SOURCES))
  end)
end)
