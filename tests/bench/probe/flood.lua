-- SPDX-License-Identifier: MIT
-- The benchmark's declaration, over a recording or a live session of lunette-target's mode flood; Peer/Program.cs does the same.
--   lunette lua tests/bench/probe/flood.lua file PATH           two passes, each timed (once PATH: one)
--   lunette lua tests/bench/probe/flood.lua live PID SECONDS    says READY when the session is open
-- Results come as text lines in the form that the peer gives them.
local loop = require("lunette.loop")
local probe = require("lunette.probe")
local proc = require("lunette.proc")
local sys = require("lunette.sys")

local FLOOD <const> = "Lunette-Flood"
local BUFFER_MB <const> = 256

local program = assert(probe.program {
  name = "flood",
  providers = { { name = FLOOD, keywords = "0xffffffffffffffff", level = 5 } },
  events = { start = FLOOD .. "/WorkStart", stop = FLOOD .. "/WorkStop" },
  keep = {
    kinds = probe.group { on = "start", by = "kind", keep = { n = probe.count(), weight = probe.sum("weight") } },
    work = probe.pair {
      start = "start", stop = "stop", by = "id",
      keep = { kinds = probe.group { by = "start.kind", keep = { time = probe.quantiles("@duration", { 50, 95, 99 }) } } },
    },
    recent = probe.last(100, { at_ns = "@time", thread = "@thread", event = "@event", id = "id" }),
  },
})

local function say(...) io.stdout:write(string.format(...), "\n") end

local function by_id(a, b)
  if a.id ~= b.id then return a.id < b.id end
  return a.event < b.event -- WorkStart before WorkStop
end

local function report(result)
  local times = {}
  for _, row in ipairs(result.work.kinds.rows) do times[row.key] = row.time end
  say("total pairs=%d unmatched=%d open=%d seen=%d", result.work.pairs, result.work.unmatched, result.work.open, result.recent.seen)
  table.sort(result.kinds.rows, function(a, b) return a.key < b.key end)
  for _, row in ipairs(result.kinds.rows) do
    local t = times[row.key]
    say("kind %s n=%d weight=%d pairs=%d p50=%.0f p95=%.0f p99=%.0f", row.key, row.n, row.weight, t.n, t.p50, t.p95, t.p99)
  end
  local last = {}
  table.sort(result.recent.rows, by_id)
  for i, row in ipairs(result.recent.rows) do last[i] = (row.event:find("Start$") and "start:" or "stop:") .. row.id end
  say("last %s", table.concat(last, " "))
end

local function peak_kb() return assert(proc.status(sys.pid)).peak_rss_bytes // 1024 end

local quiet = { progress = function() end } -- the request that a run reports to

--- One pass over the file: the result, seconds by the clock, seconds of CPU.
local function pass(path)
  local since, cpu = loop.now_ns(), loop.cpu_ms()
  local result = assert(probe.run(quiet, program, { path = path }))
  return result, (loop.now_ns() - since) / 1e9, (loop.cpu_ms() - cpu) / 1000
end

local function file(path, again)
  local result, first, first_cpu = pass(path)
  local peak, second, second_cpu = peak_kb(), 0, 0
  if again then result, second, second_cpu = pass(path) end
  report(result)
  say("run events=%d first_s=%.4f first_cpu_s=%.4f second_s=%.4f second_cpu_s=%.4f cpu_s=%.4f peak_kb=%d engine_kb=%d",
    result.window.summary.events, first, first_cpu, second, second_cpu, loop.cpu_ms() / 1000, peak, result.meta.memory // 1024)
end

local function live(pid, seconds)
  local session <close> = assert(probe.open(program, { process = { pid = pid }, buffer_mb = BUFFER_MB }))
  local before = loop.cpu_ms()
  say("READY %d live 0", sys.pid)
  io.stdout:flush()
  assert(loop.sleep_ms(seconds * 1000))
  local summary = assert(session:stop())
  local cpu, result = loop.cpu_ms(), assert(session:peek())
  report(result)
  say("run events=%d lost=%d dropped=%d window_cpu_s=%.3f cpu_s=%.3f peak_kb=%d engine_kb=%d", summary.events, summary.lost,
    summary.dropped + result.meta.refused, (cpu - before) / 1000, cpu / 1000, peak_kb(), result.meta.memory // 1024)
end

if (arg[1] == "file" or arg[1] == "once") and arg[2] then
  file(arg[2], arg[1] == "file")
elseif arg[1] == "live" and arg[3] then
  live(math.tointeger(tonumber(arg[2])), tonumber(arg[3]))
else
  io.stderr:write("usage: lunette lua tests/bench/probe/flood.lua file PATH | once PATH | live PID SECONDS\n")
  return 2
end
return 0
