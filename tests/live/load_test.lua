-- SPDX-License-Identifier: MIT
-- Many clients at once: every one gets its own right answer.
local h = require("harness")

local CLIENTS <const> = 8
local SECONDS <const> = 10

local function check(envelope, pid)
  h.eq(nil, envelope.error, "no error")
  local data = envelope.data.counters
  h.eq(pid, data.processId, "processId")
  h.eq(17.25, h.ok(h.find(data.counters, { name = "gauge" }), "gauge").value, "gauge")
  h.eq(0, h.ok(h.find(data.counters, { name = "polled" }), "polled").value % 7, "polled comes in sevens")
  local latency = h.ok(h.find(data.meters, { instrument = "test.latency" }), "latency")
  h.eq(100, latency.histogram.count, "histogram count")
  h.ok(data.duration >= "00:00:09.5" and data.duration < "00:00:20", "the window asked for, got " .. data.duration)
end

local function clients(n_targets)
  return function(skip)
    local built, why = h.build_target("net10.0")
    if not built then skip(why) end
    local server <close> = h.server()
    local targets = {}
    for i = 1, n_targets do targets[i] = h.target("net10.0", "counters") end
    local before = h.usage(server.pid)
    local jobs = {}
    for i = 1, CLIENTS do
      local target = targets[(i - 1) % n_targets + 1]
      jobs[i] = function()
        local envelope = h.ok(server:call("collect_events", {
          kind = "counters", processId = target.pid, durationSeconds = SECONDS, depth = "Detail",
          providers = { "System.Runtime", "Lunette-Test" }, meters = { "Lunette.Test" },
        }))
        check(envelope, target.pid)
        return envelope.handle
      end
    end
    local started = h.loop.now_ms()
    local handles, distinct = h.together(jobs), {}
    h.ok(h.loop.now_ms() - started < 3 * SECONDS * 1000, "side by side, not one after the other")
    for _, handle in ipairs(handles) do distinct[handle] = true end
    local n = 0
    for _ in pairs(distinct) do n = n + 1 end
    h.eq(CLIENTS, n, "distinct handles")
    for _, target in ipairs(targets) do
      h.no_session(target)
      target:kill()
    end
    h.settled(server, before)
  end
end

return {
  { CLIENTS .. " clients on one target", clients(1) },
  { CLIENTS .. " clients on as many targets", clients(CLIENTS) },
}
