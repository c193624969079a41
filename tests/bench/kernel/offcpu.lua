-- SPDX-License-Identifier: MIT
-- offcpu.lua PID SECONDS: a window of off-CPU times of a process that switches often. Prints what it took of a processor while it ran, and
-- from its end to sorted rows with names.
local loop = require("lunette.loop")
local offcpu = require("lunette.offcpu")
local proc = require("lunette.proc")

local pid, seconds = tonumber(arg[1]), tonumber(arg[2])
local done = loop.spawn(function()
  local capture <close> = assert(offcpu.open(pid))
  local before = proc.own_cpu().process_ns
  assert(capture:run(seconds * 1000))
  local window_cpu, ended = proc.own_cpu().process_ns - before, loop.now_ns()
  local result = assert(capture:finish())
  local rows = result:stacks(1, 25)
  result:threads(1, 25)
  local rows_ms, cpu, info = (loop.now_ns() - ended) / 1e6, proc.own_cpu().process_ns - before, result:info()
  print(("lunette switches=%d per_second=%.0f lost=%d spans=%d stacks=%d walked=%d remembered=%d window_cpu_percent=%.2f cpu_ms=%.0f "
    .. "rows_ms=%.1f"):format(info.switches, info.switches * 1000 / info.elapsed_ms, info.lost, info.spans, info.stacks, info.walked,
    info.remembered, 100 * window_cpu / (info.elapsed_ms * 1e6), cpu / 1e6, rows_ms))
  assert(#rows > 0)
  return true
end)
assert(done:await())
