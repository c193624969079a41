-- SPDX-License-Identifier: MIT
-- oncpu.lua PID SECONDS: a window of on-CPU samples of a process that works. Prints what it took of a processor while it ran, and from its
-- end to the first rows with names.
local events = require("lunette.events")
local loop = require("lunette.loop")
local oncpu = require("lunette.oncpu")
local proc = require("lunette.proc")
local profile = require("lunette.profile")

local pid, seconds = tonumber(arg[1]), tonumber(arg[2])
local done = loop.spawn(function()
  local builder = assert(profile.new { kind = "cpu" })
  local names, runtime = {}, "Microsoft-Windows-DotNETRuntime"
  for _, provider in ipairs(profile.providers { kind = "cpu", loads = true }) do
    if provider.name == runtime then names[1] = provider end
  end
  local source <close> = events.open { pid = pid, tap = builder, providers = names, rundown = false, buffer_mb = 256 }
  if source then
    local told <close> = events.open {
      pid = pid, tap = builder:names(), providers = { { name = runtime, keywords = 0, level = 1 } }, rundown = profile.RUNDOWN,
      buffer_mb = 256,
    }
    told:stop(30000)
  end
  local session <close> = assert(oncpu.open { pid = pid, builder = builder })
  local before = proc.own_cpu().process_ns
  assert(session:run(math.floor(seconds * 1000)))
  local window_cpu, ended = proc.own_cpu().process_ns - before, loop.now_ns()
  if source then source:stop(5000) else builder:finish() end
  local artifact = assert(builder:build())
  artifact:top_methods { top = 25, rank_by = "inclusive" }
  artifact:call_tree()
  local rows_ms, cpu = (loop.now_ns() - ended) / 1e6, proc.own_cpu().process_ns - before
  local stats, info = session:stats(), artifact:info()
  print(("lunette samples=%d lost=%d rooted=%.2f window_cpu_percent=%.2f cpu_ms=%.0f unwind_us=%.1f rows_ms=%.1f unresolved=%d"):format(
    stats.samples, stats.lost, 100 * (1 - stats.broken / math.max(1, stats.samples)), 100 * window_cpu / (seconds * 1e9), cpu / 1e6,
    stats.unwind_ns / 1e3 / math.max(1, stats.samples), rows_ms, info.unresolved))
  return true
end)
assert(done:await())
