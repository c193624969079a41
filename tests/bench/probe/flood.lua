-- SPDX-License-Identifier: MIT
-- The benchmark's declaration, over a recording or a live session of lunette-target's mode flood; Peer/Program.cs does the same.
--   lunette lua tests/bench/probe/flood.lua file PATH           two passes, each timed (once PATH: one)
--   lunette lua tests/bench/probe/flood.lua live PID SECONDS    says READY when the session is open
-- The declaration is a typical collector: pairs, in them a group by kind with the quantiles of the durations, and a ring of the last rows.
-- file-full, once-full, live-full: beside it a second group, over the starts, with a sum.
-- Results come as text lines in the form that the peer gives them.
local loop = require("lunette.loop")
local probe = require("lunette.probe")
local proc = require("lunette.proc")
local sys = require("lunette.sys")

local FLOOD <const> = "Lunette-Flood"
local BUFFER_MB <const> = 256

local mode, full = (arg[1] or ""):match("^(%a+)(%-full)$")
mode = mode or arg[1]

local keep = {
  work = probe.pair {
    start = "start", stop = "stop", by = "id",
    keep = { kinds = probe.group { by = "start.kind", keep = { n = probe.count(), time = probe.quantiles("@duration", { 50, 95, 99 }) } } },
  },
  recent = probe.last(100, { at_ns = "@time", thread = "@thread", event = "@event", id = "id" }),
}
if full then keep.kinds = probe.group { on = "start", by = "kind", keep = { n = probe.count(), weight = probe.sum("weight") } } end

local program = assert(probe.program {
  name = "flood",
  providers = { { name = FLOOD, keywords = "0xffffffffffffffff", level = 5 } },
  events = { start = FLOOD .. "/WorkStart", stop = FLOOD .. "/WorkStop" },
  keep = keep,
})

local function say(...) io.stdout:write(string.format(...), "\n") end

local function by_id(a, b)
  if a.id ~= b.id then return a.id < b.id end
  return a.event < b.event -- WorkStart before WorkStop
end

local function report(result)
  local starts = {}
  for _, row in ipairs(full and result.kinds.rows or {}) do starts[row.key] = (" n=%d weight=%d"):format(row.n, row.weight) end
  say("total pairs=%d unmatched=%d open=%d seen=%d", result.work.pairs, result.work.unmatched, result.work.open, result.recent.seen)
  table.sort(result.work.kinds.rows, function(a, b) return a.key < b.key end)
  for _, row in ipairs(result.work.kinds.rows) do
    local t = row.time
    assert(t.n == row.n)
    say("kind %s pairs=%d p50=%.0f p95=%.0f p99=%.0f%s", row.key, row.n, t.p50, t.p95, t.p99, starts[row.key] or "")
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

if (mode == "file" or mode == "once") and arg[2] then
  file(arg[2], mode == "file")
elseif mode == "live" and arg[3] then
  live(math.tointeger(tonumber(arg[2])), tonumber(arg[3]))
else
  io.stderr:write("usage: lunette lua tests/bench/probe/flood.lua file[-full] PATH | once[-full] PATH | live[-full] PID SECONDS\n")
  return 2
end
return 0
