-- SPDX-License-Identifier: MIT
-- collect_events(kind="db") over recorded sessions: EF Core on SQLite, and the events of SqlClient.
local handles = require("lunette.handles")
local json = require("lunette.json")
local recorded = require("support.recorded")
local texts_of = require("support.texts")

local HANDLE <const> = "db-snapshot"
local POSTS <const> = 'SELECT "p"."Id", "p"."BlogId", "p"."Title" FROM "Posts" AS "p" WHERE "p"."BlogId" = @id'
local UPDATE <const> = "UPDATE Posts SET Title = <redacted:literal> WHERE Id = <redacted:literal> AND Title <> <redacted:literal>"
local MANY_TRACE <const>, LITERAL_TRACE <const> = "e1a92d1b52f471d193df889c9b9eabda", "e42e5cd9b408e2dc776c735d92389fa3"
local FROM_PROVIDER <const> = "Microsoft.Data.SqlClient.EventSource"

local function find(list, sql)
  for _, c in ipairs(list) do
    if c.commandTextSanitized == sql then return c end
  end
  error("no row of " .. sql)
end

local function counts(list)
  local map = {}
  for _, c in ipairs(list) do map[c.commandTextSanitized] = c.count end
  return map
end

describe("collectors.db over a recording of EF Core", function()
  local envelope
  before_each(function() envelope = recorded.collect("db", "db", { depth = "Detail" }) end)

  it("counts commands by statement without values", function()
    local d = envelope.data.db
    assert.equal(41, d.totalCommands)
    assert.equal(6, #d.byCommand)
    local n = counts(d.byCommand)
    assert.same({ 12, 15, 10, 2, 1 }, {
      n[POSTS], n[UPDATE], n['SELECT COUNT(*) FROM "Blogs" AS "b"'], n["SELECT * FROM Nowhere WHERE Token = <redacted:literal>"],
      n['SELECT "b"."Id", "b"."Name" FROM "Blogs" AS "b"'],
    })
    for i, c in ipairs(d.byCommand) do
      assert.same({ "Database=main", { "EntityFrameworkCore" } }, { c.connectionStringSanitized, c.providers })
      assert.is_truthy(c.commandTextHash:find("^%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x$"))
      assert.is_true(c.maxMs >= c.p95Ms and c.totalMs >= c.maxMs and c.lastSeenAt >= c.firstSeenAt)
      assert.is_true(i == 1 or c.totalMs <= d.byCommand[i - 1].totalMs)
    end
    assert.is_true(d.byCommand[1].maxMs > 300 and d.byCommand[1].maxMs < 383) -- the slow one, as the target measured around it
    assert.same({}, d.connectionPool)
    assert.is_truthy(table.concat(d.notes, "\n"):find("Failed: 2 commands", 1, true))
  end)

  it("calls twelve under one parent an incident, ten none", function()
    local incidents = {}
    for _, s in ipairs(envelope.data.db.nPlusOne) do
      incidents[#incidents + 1] = { s.scopeId:sub(1, 32), s.commandTextSanitized, s.count }
    end
    assert.same({ { LITERAL_TRACE, UPDATE, 15 }, { MANY_TRACE, POSTS, 12 } }, incidents)
    local view = recorded.view(envelope, HANDLE, "n+1", { topN = 1 })
    assert.same({ 2, 1, 15 }, { view.totalIncidents, view.returned, view.incidents[1].count })
    local signals = {}
    for _, s in ipairs(envelope.signals) do signals[s.signal] = s end
    assert.equal(UPDATE, signals["db.n-plus-one"].buckets[1].key)
    assert.is_truthy(signals["db.by-command"].buckets[1].key:find("^UPDATE Posts SET Title = Title"))
  end)

  it("has no value in any answer", function()
    local texts = { json.encode(envelope), json.encode(recorded.collect("db", "db")) }
    for _, name in ipairs { "summary", "byCommand", "n+1", "connectionPool" } do
      texts[#texts + 1] = json.encode(recorded.view(envelope, HANDLE, name))
    end
    texts_of(assert(handles.get(envelope.handle)).artifact, texts)
    assert.is_true(#texts > 20)
    for _, text in ipairs(texts) do
      assert.is_nil(text:find("S3cret", 1, true))
      assert.is_nil(text:find("Id = 77", 1, true))
    end
  end)

  it("keeps five of each inline at Summary, all behind the handle", function()
    local short = recorded.collect("db", "db")
    assert.same({ 5, 41 }, { #short.data.db.byCommand, short.data.db.totalCommands })
    assert.is_truthy(table.concat(short.data.db.notes, "\n"):find("Inline: the first 5 of 6 statements", 1, true))
    local view = recorded.view(short, HANDLE, "byCommand")
    assert.same({ 41, 6 }, { view.totalCommands, view.returned })
    local summary = recorded.view(short, HANDLE, "summary", { topN = 2 })
    assert.same({ 41, 6, 2, 2, {} },
      { summary.totalCommands, summary.distinctCommands, summary.nPlusOneCount, #summary.topCommands, summary.connectionPool })
    local pool = recorded.view(short, HANDLE, "connectionPool")
    assert.same({ 0, 0, {} }, { pool.providers, pool.poolExhaustedCount, pool.connectionPool })
  end)
end)

describe("collectors.db over recordings of SqlClient", function()
  local ORDERS <const> = "SELECT * FROM Orders WHERE Id = <redacted:literal> AND Card = <redacted:literal>"
  local BOTH <const> = "SELECT [o].[Id] FROM [Orders] AS [o]"
  local CONNECTION <const> = "Data Source=tcp:db.example,1433;Database=shop"

  it("counts what EF Core tells of, too, once", function()
    local d = recorded.collect("db", "sqlclient", { depth = "Detail" }).data.db
    assert.equal(19, d.totalCommands)
    assert.same({ [ORDERS] = 12, [BOTH] = 4, ["EXEC dbo.Charge @amount"] = 3 }, counts(d.byCommand))
    assert.same({ "EntityFrameworkCore", "SqlClient" }, find(d.byCommand, BOTH).providers)
    assert.equal(24, find(d.byCommand, BOTH).totalMs) -- four of 6 ms, as EF Core says
    assert.is_true(find(d.byCommand, ORDERS).totalMs >= 60) -- twelve of at least 5 ms
    assert.equal(CONNECTION, find(d.byCommand, ORDERS).connectionStringSanitized)
    assert.same({ 1, 12, ORDERS }, { #d.nPlusOne, d.nPlusOne[1].count, d.nPlusOne[1].commandTextSanitized })
    local notes = table.concat(d.notes, "\n")
    assert.is_truthy(notes:find("Failed: 3 commands", 1, true))
    assert.is_truthy(notes:find("ToldTwice: EF Core and SqlClient both told of 4", 1, true))
  end)

  it("tells the pool", function()
    local envelope = recorded.collect("db", "sqlclient")
    local pool = recorded.view(envelope, HANDLE, "connectionPool")
    assert.same({ 1, 2 }, { pool.providers, pool.poolExhaustedCount })
    local p = pool.connectionPool[1]
    assert.same({ FROM_PROVIDER, 5, 7, 9, 9, 2 }, {
      p.provider, p.latestOpenConnections, p.maxOpenConnections, p.latestPooledConnections, p.maxPooledConnections, p.poolExhaustedCount,
    })
    for _, text in ipairs(texts_of(assert(handles.get(envelope.handle)).artifact, { json.encode(envelope) })) do
      assert.is_nil(text:find("S3cret", 1, true))
    end
  end)

  it("takes the event source where there is no listener", function()
    local d = recorded.collect("db", "sqlclient-source", { depth = "Detail" }).data.db
    assert.same({ [ORDERS] = 12, [BOTH] = 4, ["EXEC dbo.Charge @amount"] = 3 }, counts(d.byCommand))
    assert.same({ "global", 12 }, { d.nPlusOne[1].scopeId, d.nPlusOne[1].count })
    assert.equal(CONNECTION, d.byCommand[1].connectionStringSanitized)
    assert.is_truthy(table.concat(d.notes, "\n"):find("GlobalScope", 1, true))
    assert.is_truthy(table.concat(d.notes, "\n"):find("Failed: 3 commands", 1, true))
    assert.is_nil(json.encode(d):find("S3cret", 1, true))
  end)

  it("says of a recording without commands what it would need", function()
    local d = recorded.collect("db", "serve").data.db
    assert.same({ 0, {}, {}, {} }, { d.totalCommands, d.byCommand, d.nPlusOne, d.connectionPool })
    assert.is_truthy(d.notes[1]:find("^NotInRecording: the recording has no database command"))
  end)
end)
