-- SPDX-License-Identifier: MIT
-- collect_events kind=db over EF Core on SQLite with an N+1 loop of a known size, on every runtime, and over the events of SqlClient, which
-- the target writes itself: there is no server.
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
  return h.start({ ("%s/db/%s/lunette-db"):format(h.targets, runtime), mode, tostring(N) }, "db " .. mode)
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
  local slowest = live.byCommand[1]
  h.ok(slowest.count == 1 and slowest.maxMs <= did.slow_ms + 1, runtime .. ": the slow one, as long as the target measured")
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

local function sql_client(skip)
  local built, why = build("net10.0")
  if not built then skip(why) end
  local server <close> = h.server()
  local target <close> = start("net10.0", "sqlclient")
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

--- Three kinds over the one bridge of a process, and a fourth that comes and goes while they are open: each sees all that it asked for.
local function side_by_side(runtime)
  local server <close> = h.server()
  local target <close> = start(runtime, "shop")
  local envelopes, did = {}, nil
  local function window(kind, seconds)
    local given = { kind = kind, processId = target.pid, durationSeconds = seconds * h.slowness() }
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

--- A session of somebody else's takes the bridge: what is missing is said, and nobody is fought.
local function taken(skip)
  local built, why = build("net10.0")
  if not built then skip(why) end
  local server <close> = h.server()
  local target <close> = start("net10.0", "shop")
  local answers = h.together {
    function()
      return h.ok(server:call("collect_events", { kind = "requests", processId = target.pid, durationSeconds = 5 * h.slowness() }))
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
  h.ok(during.notes(r):find("BridgeTaken", 1, true) and during.notes(r):find("RequestsMissing", 1, true), during.notes(r))
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
  { "the events of SqlClient, a process without a database, a bridge that is taken", h.side_by_side(sql_client, nothing, taken) },
}
