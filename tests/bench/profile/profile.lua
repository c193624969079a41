-- SPDX-License-Identifier: MIT
-- profile.lua PATH: a recording into a call tree with names, and its methods by exclusive time; the last line is what it took.
local events = require("lunette.events")
local fs = require("lunette.fs")
local loop = require("lunette.loop")
local profile = require("lunette.profile")

local t0 = loop.now_ns()
local builder = assert(profile.new { kind = "cpu" })
local source = assert(events.open { path = arg[1], tap = builder })
source:next()
local summary = assert(source:stop())
local t1 = loop.now_ns()
local artifact = assert(builder:build())
local t2 = loop.now_ns()
local rows = artifact:top_methods { top = 100000, rank_by = "time" }
local t3 = loop.now_ns()
for _, row in ipairs(rows) do
  print(("%.3f\t%.3f\t%s!%s"):format(row.exclusive_ns / 1e6, row.inclusive_ns / 1e6, row.module, row.method))
end
local info = artifact:info()
print(("run seconds=%.4f read_s=%.4f build_s=%.4f rank_s=%.4f cpu_s=%.4f peak_kb=%s"):format(
  (t3 - t0) / 1e9, (t1 - t0) / 1e9, (t2 - t1) / 1e9, (t3 - t2) / 1e9, loop.cpu_ms() / 1e3,
  fs.read("/proc/self/status", 100000):match("VmHWM:%s+(%d+)"))
  .. (" samples=%d threads=%d nodes=%d frames=%d profile_kb=%d events=%d"):format(
  info.samples, info.threads, info.nodes, info.frames, info.memory // 1024, summary.events))
return 0
