-- SPDX-License-Identifier: MIT
-- record.lua TARGET PATH SECONDS THREADS: a session of the sample profiler over the target's `walk`, into a file. Prints how long it took
-- from the end of the stream to the first view.
package.path = (arg[0]:match("^(.*)/[^/]*$") or ".") .. "/../../live/?.lua;" .. package.path
local events = require("lunette.events")
local h = require("harness")
local loop = require("lunette.loop")
local profile = require("lunette.profile")

local target_path, path, seconds, threads = arg[1], arg[2], tonumber(arg[3]), arg[4]
local target <close> = h.start({ target_path, "walk", threads }, "walk")
target:command("go", "^GOING")
local builder = assert(profile.new { kind = "cpu" })
local source <close> = assert(events.open {
  pid = target.pid, providers = profile.providers { kind = "cpu" }, rundown = profile.RUNDOWN, tap = builder, save_to = path,
  buffer_mb = 256,
})
loop.sleep_ms(math.floor(seconds * 1000))
local t0 = loop.now_ns()
local summary = assert(source:stop(60000))
local t1, cpu1 = loop.now_ns(), loop.cpu_ms()
local artifact = assert(builder:build())
artifact:call_tree()
local t2, cpu2 = loop.now_ns(), loop.cpu_ms()
local info = artifact:info()
print(("live seconds=%.1f samples=%d events=%d lost=%d stop_ms=%.1f first_view_ms=%.2f first_view_cpu_ms=%d"):format(
  seconds, info.samples, summary.events, summary.lost, (t1 - t0) / 1e6, (t2 - t1) / 1e6, cpu2 - cpu1))
h.cleanup()
return 0
