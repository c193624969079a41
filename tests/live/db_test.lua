-- SPDX-License-Identifier: MIT
-- collect_events kind=db over EF Core on SQLite with an N+1 loop of a known size, on every runtime, over Microsoft.Data.SqlClient against a
-- small server of the target, and over events of SqlClient that the target writes itself, by listener and event source.
local during = require("during")
local h = require("harness")

local RUNTIMES <const> = { "net10.0", "net9.0", "net8.0" }
local N <const> = 12
local SECONDS <const> = 10

--- Builds the database target of a runtime; nil, why it cannot be.
local function build(runtime)
  local done = assert(h.loop.exec {
    argv = { "sh", h.source .. "/tests/targets/db/build.sh", h.targets .. "/db", runtime }, timeout_ms = 600000, max_output = 1024 * 1024,
  })
  if done.code == 0 then return true end
  if done.code == h.SKIP then return nil, (done.stdout:gsub("%s+$", "")) end
  error("tests/targets/db/build.sh failed: " .. done.stdout .. done.stderr)
end

local function start(runtime, mode)
  local invariant = mode == "sqlclient" and "0" or "1" -- SqlClient wants cultures, for which the runtime needs ICU
  return h.start({ ("%s/db/%s/lunette-db"):format(h.targets, runtime), mode, tostring(N) }, "db " .. mode,
    { DOTNET_SYSTEM_GLOBALIZATION_INVARIANT = invariant })
end

local function without_icu()
  local done = h.loop.exec { argv = { "sh", "-c", "PATH=$PATH:/sbin:/usr/sbin ldconfig -p" }, timeout_ms = 20000, max_output = 4 << 20 }
  return not (done and done.stdout:find("libicuuc.so.", 1, true))
end

-- How often each statement ran, least first.
local function counts(list)
  local times = {}
  for i, c in ipairs(list) do times[i] = c.count end
  table.sort(times)
  return times
end

local function incident(d, trace)
  for _, s in ipairs(d.nPlusOne) do
    if s.scopeId:sub(1, 32) == trace then return s end
  end
  return nil
end

-- What DONE says beside numbers.
local function traces(target)
  local map = {}
  for name, id in target:line("^DONE "):gmatch("(%w+)_trace=(%x+)") do map[name] = id end
  return map
end

local function ef(runtime)
  local target <close> = start(runtime, "ef")
  local live, recorded, did = during.live_and_recorded("db", target, SECONDS)
  local ids = traces(target)
  h.eq(did.commands, live.totalCommands, runtime .. ": commands")
  h.eq({ did.blogs, did.slow, did.failed, did.few, did.posts, did.literals }, counts(live.byCommand), runtime .. ": by statement")
  h.eq(2, #live.nPlusOne, runtime .. ": two repeat more than ten times")
  local many = h.ok(incident(live, ids.many), runtime .. ": the loop")
  h.eq(did.posts, many.count, runtime .. ": as often as it ran")
  h.ok(many.commandTextSanitized:find('FROM "Posts"', 1, true), runtime .. ": " .. many.commandTextSanitized)
  h.eq(did.literals, h.ok(incident(live, ids.literal), runtime .. ": values in the text").count, "one statement")
  h.eq(nil, incident(live, ids.few), runtime .. ": ten times is none")
  local slow, least = nil, math.huge
  for _, c in ipairs(live.byCommand) do
    h.ok(c.totalMs <= least, runtime .. ": most time first")
    least = c.totalMs
    if c.commandTextSanitized:find("RECURSIVE", 1, true) then slow = c end
  end
  h.ok(slow and slow.count == 1 and slow.maxMs > 1 and slow.maxMs <= did.slow_ms + 1,
    ("%s: the slow one, within the %g ms that the target measured: %s"):format(runtime, did.slow_ms, h.json.encode(live.byCommand)))
  h.eq(0, #live.connectionPool, runtime .. ": SQLite has no pool that tells")
  h.ok(during.notes(live):find("Failed: 2 commands", 1, true), runtime .. ": " .. during.notes(live))
  h.eq(0, live.cost.eventsLost, "nothing lost")
  for _, name in ipairs { "totalCommands", "byCommand", "nPlusOne", "connectionPool" } do
    h.eq(live[name], recorded[name], runtime .. ": " .. name)
  end
  h.eq(nil, (h.json.encode(live) .. h.json.encode(recorded)):find("S3cret", 1, true), runtime .. ": no secret")
  h.no_session(target)
end

local function on_each(case)
  return function(skip)
    local todo, why = {}, nil
    for _, runtime in ipairs(RUNTIMES) do
      local built, reason = build(runtime)
      if built then
        todo[#todo + 1] = function()
          case(runtime)
          return true
        end
      else
        why = reason
      end
    end
    if #todo == 0 then skip(why) end
    h.together(todo)
  end
end

local function sql_events(skip)
  local built, why = build("net10.0")
  if not built then skip(why) end
  local server <close> = h.server()
  local target <close> = start("net10.0", "sqlevents")
  local envelope, did = during.both(target, function()
    return h.ok(server:call("collect_events", { kind = "db", processId = target.pid, durationSeconds = SECONDS, depth = "Detail" }))
  end, during.go)
  h.ok(not envelope.error, "no error: " .. h.json.encode(envelope.error or {}))
  local d = envelope.data.db
  h.eq(did.commands, d.totalCommands, "each once, whoever tells of it")
  h.eq({ did.failed, did.both, did.select }, counts(d.byCommand), "by statement")
  h.eq({ 1, did.select }, { #d.nPlusOne, d.nPlusOne[1].count }, "the loop")
  local pool = h.ok(server:call("query_snapshot", { handle = envelope.handle, view = "connectionPool" })).data.payload
  local p = pool.connectionPool[1]
  h.eq({ did.exhausted, did.hard, did.hard_max, did.pooled, did.exhausted },
    { pool.poolExhaustedCount, p.latestOpenConnections, p.maxOpenConnections, p.latestPooledConnections, p.poolExhaustedCount }, "the pool")
  local repeated = h.ok(server:call("query_snapshot", { handle = envelope.handle, view = "n+1" })).data.payload
  h.eq({ 1, did.select }, { repeated.totalIncidents, repeated.incidents[1].count }, "view n+1")
  for _, text in ipairs { h.json.encode(envelope), h.json.encode(pool), h.json.encode(repeated), server:log() } do
    h.eq(nil, text:find("S3cret", 1, true), "no secret")
  end
end

--- The package itself, whose payloads, texts of errors and counters are its own.
local function sql_client(runtime)
  local server <close> = h.server()
  local target <close> = start(runtime, "sqlclient")
  local envelope, did = during.both(target, function()
    return h.ok(server:call("collect_events", { kind = "db", processId = target.pid, durationSeconds = SECONDS, depth = "Detail" }))
  end, during.go)
  h.ok(not envelope.error, runtime .. ": " .. h.json.encode(envelope.error or {}))
  local d = envelope.data.db
  h.eq(did.statements, did.commands, runtime .. ": the server was sent each command once")
  h.eq(did.commands, d.totalCommands, runtime .. ": commands; " .. during.notes(d))
  h.eq({ did.failed, did.both, did.parameters, did.select }, counts(d.byCommand), runtime .. ": by statement")
  for _, c in ipairs(d.byCommand) do
    h.ok(c.connectionStringSanitized:find("^Data Source=127%.0%.0%.1,%d+;Database=shop$"), runtime .. ": " .. c.connectionStringSanitized)
    h.ok(c.totalMs > 0, runtime .. ": took time")
  end
  h.eq({ 1, did.select }, { #d.nPlusOne, d.nPlusOne[1] and d.nPlusOne[1].count }, runtime .. ": the loop")
  h.eq(traces(target).select, d.nPlusOne[1].scopeId:sub(1, 32), runtime .. ": under its activity")
  for _, note in ipairs { ("Failed: %d commands"):format(did.failed), ("told of %d commands"):format(did.both) } do
    h.ok(during.notes(d):find(note, 1, true), runtime .. ": " .. during.notes(d))
  end
  local pool = h.ok(server:call("query_snapshot", { handle = envelope.handle, view = "connectionPool" })).data.payload
  local p = pool.connectionPool[1]
  h.eq({ did.exhausted, "Microsoft.Data.SqlClient.EventSource", 0 },
    { pool.poolExhaustedCount, p.provider, d.cost.eventsLost }, runtime .. ": the pool")
  h.ok(p.maxOpenConnections >= 1 and p.latestPooledConnections >= 1, runtime .. ": " .. h.json.encode(p))
  for _, text in ipairs { h.json.encode(envelope), h.json.encode(pool), server:log() } do
    h.eq(nil, text:find("S3cret", 1, true), runtime .. ": no secret")
  end
  h.no_session(target)
end

--- Three kinds over the one bridge of a process, and a fourth that comes and goes while they are open: each sees all that it asked for.
local function side_by_side(runtime)
  local server <close> = h.server()
  local target <close> = start(runtime, "shop")
  local envelopes, did = {}, nil
  local function window(kind, seconds)
    local given = { kind = kind, processId = target.pid, durationSeconds = seconds }
    if kind == "activities" then given.sources = { "Lunette.Shop" } end
    local envelope = h.ok(server:call("collect_events", given))
    h.ok(not envelope.error, runtime .. ", " .. kind .. ": " .. h.json.encode(envelope.error or {}))
    return envelope.data[kind]
  end
  local over = 0
  local function long(kind)
    return function()
      envelopes[kind] = window(kind, SECONDS)
      over = over + 1
    end
  end
  h.together {
    long("requests"), long("db"), long("activities"),
    function()
      during.stay_open(target, 3, 500)
      did = during.go(target)
      window("requests", 1) -- its end takes the lines away; they have to be there again for the second go
      h.wait_for("the session that sets the lines again", h.START_MS, function()
        return over > 0 or during.sessions(target) == 4
      end)
      for name, n in pairs(during.go(target)) do did[name] = did[name] + n end
      if over > 0 then h.too_slow() end
    end,
  }
  local r, d, a = envelopes.requests, envelopes.db, envelopes.activities
  h.eq({ did.requests, did.requests, 0 }, { r.requestsStarted, r.requestsCompleted, r.inFlightCount }, runtime .. ": requests")
  h.eq({ did.commands, { did.commands } }, { d.totalCommands, counts(d.byCommand) }, runtime .. ": commands")
  h.eq({ did.spans, did.spans }, { a.totalActivities, a.completedActivities }, runtime .. ": spans")
  for kind, payload in pairs(envelopes) do
    local notes = during.notes(payload)
    h.ok(notes:find("BridgeShared", 1, true) and notes:find("for at most", 1, true), runtime .. ", " .. kind .. ": " .. notes)
    h.ok(not notes:find("BridgeTaken", 1, true) and not notes:find("RequestsMissing", 1, true), runtime .. ", " .. kind .. ": " .. notes)
  end
  h.no_session(target)
end

--- The three kinds over the bridge in one batch: each entry has all of its own.
local function one_batch(skip)
  local built, why = build("net10.0")
  if not built then skip(why) end
  local server <close> = h.server()
  local target <close> = start("net10.0", "shop")
  local results = h.together {
    function()
      return h.ok(server:call("collect_batch", {
        processId = target.pid, durationSeconds = SECONDS * h.slowness(), depth = "full",
        requests = {
          { tool = "collect_events", kind = "requests" }, { tool = "collect_events", kind = "activities" },
          { tool = "collect_events", kind = "db" },
        },
      }))
    end,
    function()
      during.stay_open(target, 3, 500)
      local did = during.go(target)
      if during.sessions(target) < 3 then h.too_slow() end
      return did
    end,
  }
  local envelope, did = results[1], results[2]
  h.ok(not envelope.error, "no error: " .. h.json.encode(envelope.error or {}))
  local entries = envelope.data.results
  local r, d = entries[1].data, entries[3].data
  local own = h.ok(h.find(entries[2].data.bySource, { sourceName = "Lunette.Shop" }), "spans of the program, beside those of the runtime")
  h.eq({ did.requests, did.requests, did.spans, did.commands },
    { r.requestsStarted, r.requestsCompleted, own.completedCount, d.totalCommands }, "requests, spans, commands")
  h.no_session(target)
end

--- event_source over DiagnosticSource itself: its window opens and ends while requests are collected, and takes nothing from them.
local function event_source_beside(skip)
  local built, why = build("net10.0")
  if not built then skip(why) end
  local provider = require("collectors.diagnostic_source").PROVIDER
  local server <close> = h.server { environment = { Diagnostics__EventSourceAllowlist__0 = provider } }
  local target <close> = start("net10.0", "shop")
  local source
  local over, did = false, nil
  local answers = h.together {
    function()
      local envelope = h.ok(server:call("collect_events", {
        kind = "requests", processId = target.pid, durationSeconds = SECONDS,
      }))
      over = true
      return envelope
    end,
    function()
      during.stay_open(target, 1, 500)
      local first
      local both = h.together {
        function()
          return h.ok(server:call("collect_events", {
            kind = "event_source", providerName = provider, processId = target.pid, durationSeconds = 3, depth = "Detail",
          }))
        end,
        function()
          during.stay_open(target, 2, 300)
          first = during.go(target)
          return true
        end,
      }
      source = both[1]
      h.wait_for("the session that sets the lines again", h.START_MS, function() return over or during.sessions(target) == 2 end)
      did = first.requests + during.go(target).requests
      if over then h.too_slow() end
      return true
    end,
  }
  h.ok(not source.error, "event_source: " .. h.json.encode(source.error or {}))
  local r, e = answers[1].data.requests, source.data.eventSource
  h.eq({ did, did }, { r.requestsStarted, r.requestsCompleted }, "requests of both; " .. during.notes(r))
  h.ok(e.totalEvents > 0 and during.notes(e):find("BridgeShared", 1, true), during.notes(e))
  h.ok(during.notes(e):find("BridgeCounts", 1, true), during.notes(e))
  h.ok(during.notes(r):find("BridgeShared", 1, true) and not during.notes(r):find("BridgeTaken", 1, true), during.notes(r))
  h.no_session(target)
end

--- A session of somebody else's takes the bridge: what is missing is said, and nobody is fought.
local function taken(skip)
  local built, why = build("net10.0")
  if not built then skip(why) end
  local server <close> = h.server()
  local target <close> = start("net10.0", "shop")
  local answers = h.together {
    function()
      return h.ok(server:call("collect_events", { kind = "requests", processId = target.pid, durationSeconds = 5 }))
    end,
    function()
      during.stay_open(target, 1, 500)
      local other <close> = h.ok(require("lunette.events").open {
        pid = target.pid, providers = { require("collectors.diagnostic_source").provider { "Somebody/Else:-" } },
      })
      local did = during.go(target)
      other:stop(5000)
      return did
    end,
  }
  local r = answers[1].data.requests
  h.eq(0, r.requestsStarted, "all were taken")
  local notes = during.notes(r) -- RequestsMissing is said besides where the server's own count came in time
  h.ok(notes:find("BridgeTaken", 1, true) and not notes:find("NothingStarted", 1, true) and not notes:find("BegunBefore", 1, true), notes)
end

local function nothing(skip)
  local built, why = h.build_target("net10.0")
  if not built then skip(why) end
  local target <close> = h.target("net10.0", "idle")
  local envelope = h.call("collect_events", { kind = "db", processId = target.pid, durationSeconds = 2 })
  local d = envelope.data.db
  h.eq({ 0, 0, 0, 0 }, { d.totalCommands, #d.byCommand, #d.nPlusOne, #d.connectionPool }, "nothing")
  h.ok(during.notes(d):find("NoCommands", 1, true), during.notes(d))
end

return {
  { "EF Core on every runtime, live and recorded", on_each(ef) },
  { "requests, db and activities side by side, on every runtime", on_each(side_by_side) },
  {
    "SqlClient itself, on every runtime", function(skip)
      if without_icu() then skip("Microsoft.Data.SqlClient needs ICU, which is not on this machine") end
      on_each(sql_client)(skip)
    end,
  },
  { "the events of SqlClient, a process without a database, a bridge that is taken", h.side_by_side(sql_events, nothing, taken) },
  { "one batch over the bridge, event_source over it beside requests", h.side_by_side(one_batch, event_source_beside) },
}
