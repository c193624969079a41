-- SPDX-License-Identifier: MIT
-- collect_events kind=requests over a service with hanging requests, on every runtime: live and from the recording, before and after.
local during = require("during")
local h = require("harness")

local RUNTIMES <const> = { "net10.0", "net9.0", "net8.0" }
local N <const> = 4
local SECONDS <const> = 5

local function trace(i) return ("%032x"):format(0x1d000000 + i) end
local HANGING <const> = {
  { "GET", "/hang/0", trace(0) }, { "PUT", "/hang/1", trace(1) }, { "POST", "/hang/2/password=<redacted:sensitive>", trace(2) },
}

local function hanging(list)
  local rows = {}
  for i, r in ipairs(list) do rows[i] = { r.method, r.path, r.traceId } end
  return rows
end

local function of(envelope)
  h.ok(not envelope.error, "no error: " .. h.json.encode(envelope.error or {}))
  return envelope.data.requests
end

local function oldest_first(rows, what)
  for i = 2, #rows do h.ok(rows[i].elapsedMs <= rows[i - 1].elapsedMs, what .. ": oldest first") end
end

local function hang(skip)
  during.each_runtime(RUNTIMES, skip, function(runtime)
    local target <close> = h.target(runtime, "serve", N, { go = false })
    local live, recorded, did = during.live_and_recorded("requests", target, SECONDS)
    h.eq({ did.requests, did.answered, did.hanging }, { live.requestsStarted, live.requestsCompleted, live.inFlightCount }, runtime)
    h.eq(HANGING, hanging(live.requests), runtime .. ": what hangs")
    oldest_first(live.requests, runtime)
    local hours, minutes, seconds = live.duration:match("^(%d+):(%d+):([%d.]+)$")
    local window_ms = ((tonumber(hours) * 60 + tonumber(minutes)) * 60 + tonumber(seconds)) * 1000
    h.eq(live.oldestElapsedMs, live.requests[1].elapsedMs, runtime .. ": the oldest")
    for _, row in ipairs(live.requests) do
      h.ok(row.elapsedMs >= 0 and row.elapsedMs <= window_ms + 1000, runtime .. ": no older than the window")
      h.eq(row.elapsedMs > 1000, row.isLongRunning, runtime .. ": flagged by the threshold")
    end
    h.eq("", during.notes(live), runtime .. ": notes")
    h.ok(live.cost.events >= 2 * did.answered and live.cost.eventsLost == 0, "the price is said")
    for _, name in ipairs { "processId", "requestsStarted", "requestsCompleted", "inFlightCount" } do
      h.eq(live[name], recorded[name], runtime .. ": " .. name)
    end
    h.eq(HANGING, hanging(recorded.requests), runtime .. ": what hangs in the recording")
    h.no_session(target)
    -- a window that begins when they hang already: the server's own count tells of them
    local late = of(h.call("collect_events", { kind = "requests", processId = target.pid, durationSeconds = 3 }))
    h.eq({ 0, 0 }, { late.requestsStarted, late.inFlightCount }, runtime .. ": nothing began")
    h.eq(nil, late.oldestElapsedMs, "no age")
    h.ok(during.notes(late):find("BegunBefore: the server counts 3 requests", 1, true), runtime .. ": " .. during.notes(late))
    -- and one in which they end
    local ended = of(during.collect(target, { kind = "requests", durationSeconds = 3, longRunningThresholdMs = 0 }, function(t)
      return t:command("release", "^RELEASED")
    end))
    h.eq({ 0, 0 }, { ended.requestsStarted, ended.inFlightCount }, runtime .. ": all ended")
    h.ok(during.notes(ended):find("EndedOnly: 3 more requests", 1, true), runtime .. ": " .. during.notes(ended))
    h.no_session(target)
  end)
end

local function over_http(skip)
  local built, why = h.build_target("net10.0")
  if not built then skip(why) end
  local server <close> = h.server()
  local target <close> = h.target("net10.0", "serve", N, { go = false })
  local envelope = during.both(target, function()
    return h.ok(server:call("collect_events", { kind = "requests", processId = target.pid, durationSeconds = SECONDS, maxRequests = 2 }))
  end, during.go)
  local r = of(envelope)
  h.eq({ { HANGING[1], HANGING[2] }, 3 }, { hanging(r.requests), r.inFlightCount }, "cut inline")
  local view = h.ok(server:call("query_snapshot", { handle = envelope.handle, view = "requests" })).data.payload
  h.eq({ HANGING, 3 }, { hanging(view.requests), view.returned }, "all behind the handle")
  -- who leaves takes his session along
  local call = h.loop.spawn(function()
    return server:call("collect_events", { kind = "requests", processId = target.pid, durationSeconds = 30 }, { timeout_ms = 60000 })
  end)
  h.wait_for("the session", h.START_MS, function() return during.sessions(target) == 1 end)
  call:cancel("the client goes away")
  h.no_session(target, 10000)
  for _, text in ipairs { h.json.encode(envelope), h.json.encode(view), server:log() } do
    h.eq(nil, text:find("S3cret", 1, true), "no secret")
  end
end

local function two_share_the_bridge(skip)
  local built, why = h.build_target("net10.0")
  if not built then skip(why) end
  local server <close> = h.server()
  local target <close> = h.target("net10.0", "serve", N, { go = false })
  local function window(kind)
    return function() return h.ok(server:call("collect_events", { kind = kind, processId = target.pid, durationSeconds = 4 })) end
  end
  local results = h.together { window("requests"), window("db") }
  for i, member in ipairs { "requests", "db" } do
    h.ok(during.notes(results[i].data[member]):find("BridgeShared", 1, true), member .. " says that it was not alone")
  end
end

local function no_server(skip)
  local built, why = h.build_target("net10.0")
  if not built then skip(why) end
  local target <close> = h.target("net10.0", "idle")
  local r = of(h.call("collect_events", { kind = "requests", processId = target.pid, durationSeconds = 2 }))
  h.eq({ 0, 0, 0 }, { r.requestsStarted, r.requestsCompleted, r.inFlightCount }, "nothing")
  h.ok(during.notes(r):find("NoAspNetCore", 1, true), during.notes(r))
end

return {
  { "hanging requests are listed, on every runtime", hang },
  { "cut inline, cancelled, two at once, no server at all", h.side_by_side(over_http, two_share_the_bridge, no_server) },
}
