-- SPDX-License-Identifier: MIT
-- Rules of a site on counters and instruments of the target's own: the triage window asks for them, and judges their known values.
local h = require("harness")

-- Values that the target's source and Meter always tell.
local GAUGE <const> = 17.25
local RULES <const> = [[
return {
  rule {
    name = "shop.gauge", input = { counter = "Lunette-Test/gauge", stat = "max" }, levels = { elevated = 10, high = 17 }, unit = "MB",
    summary = "The gauge stood at {value} {unit}.", rationale = "Seventeen is high.",
    next = { tool = "collect_events", arguments = { kind = "counters" }, reason = "See them all." },
    hypotheses = { {
      name = "shop.full", confidence = "high", summary = "The shop is full.",
      requires = { { meter = "Lunette.Test/test.latency", stat = "p95", above = 0.05, unit = "s", rationale = "Some are slow." } },
      next = { tool = "collect_thread_snapshot", reason = "See who waits." },
    } },
  },
  rule {
    name = "shop.nearly", input = { counter = "Lunette-Test/gauge", stat = "last" }, levels = { elevated = 20 }, unit = "MB",
    summary = "{value}.", rationale = "Twenty is too much.",
  },
  rule {
    name = "shop.window", input = { handle = "gc-events", field = "duration_ms" }, levels = { elevated = 1000 }, unit = "ms",
    summary = "{value} ms of collections were watched.", rationale = "A second is a window.",
  },
  rule {
    name = "shop.absent", input = { counter = "No-Such-Source/x", stat = "last" }, levels = { elevated = 1 }, summary = "{value}.",
    rationale = "One is one.",
  },
}
]]

local function site()
  local dir = os.tmpname()
  os.remove(dir)
  assert(os.execute(("mkdir -p '%s/rules'"):format(dir)))
  h.loop.on_cleanup(function() os.execute("rm -rf '" .. dir .. "'") end)
  local file = assert(io.open(dir .. "/rules/shop.lua", "w"))
  file:write(RULES)
  file:close()
  return dir
end

local function triage(target, dir)
  local envelope = h.call("inspect_process", { view = "triage", processId = target.pid, durationSeconds = 4 }, nil,
    { "env", "LUNETTE_SITE=" .. dir })
  h.ok(not envelope.error, "triage without an error: " .. h.json.encode(envelope.error or {}))
  local r = envelope.data.triage
  local signal = h.ok(h.find(r.observedSignals, { name = "shop.gauge" }), "the gauge is seen: " .. h.json.encode(r.observedSignals))
  h.eq("high", signal.level, "level")
  h.eq(GAUGE, signal.evidence[1].value, "value")
  local full = h.ok(h.find(r.hypotheses, { name = "shop.full" }), "the hypothesis stands")
  h.near(0.095, 0.01, full.supportingEvidence[2].value, "p95 of the instrument")
  h.eq("degraded", r.assessment, "assessment")
  h.ok(not envelope.summary:find("No-Such-Source", 1, true), "a source that the target lacks is no finding: " .. envelope.summary)
end

local function explained(target, dir)
  local done = assert(h.loop.exec {
    argv = { h.lunette, "explain", tostring(target.pid), "--json", "--seconds", "4", "--site", dir }, timeout_ms = 120000,
    max_output = 1024 * 1024,
  })
  h.eq(0, done.code, "exit code: " .. done.stderr)
  local report = assert(h.json.decode(done.stdout))
  h.eq("fired", h.find(report.rules, { name = "shop.gauge" }).state, "the gauge")
  local nearly = h.find(report.rules, { name = "shop.nearly" })
  h.eq("near", nearly.state, "the other")
  h.near((20 - GAUGE) / 20, 1e-9, nearly.distance, "distance")
  h.eq("fired", h.find(report.rules, { name = "shop.window" }).state, "the capture beside the counters")
  h.eq("not-measured", h.find(report.rules, { name = "shop.absent" }).state, "the source that is not there")
  h.eq(dir .. "/rules/shop.lua:2", h.find(report.rules, { name = "shop.gauge" }).file, "where the rule is from")
end

local function on(runtime)
  return function(skip)
    local built, why = h.build_target(runtime)
    if not built then skip(why) end
    local dir = site()
    local target <close> = h.target(runtime, "counters")
    h.together {
      function() triage(target, dir) return true end,
      function() explained(target, dir) return true end,
    }
    h.no_session(target)
  end
end

return { { "rules on counters and instruments of the target's own on net10.0", on("net10.0") } }
