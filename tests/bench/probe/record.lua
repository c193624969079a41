-- SPDX-License-Identifier: MIT
-- Records the benchmark's trace: lunette lua tests/bench/probe/record.lua TARGET FILE EVENTS
-- TARGET is a lunette-target, run in its mode flood, flat out, until the session has seen EVENTS events. Collections, allocation ticks,
-- exceptions, contention and compilations of the runtime are recorded with them, with stacks and a rundown, as a recorder usually does.
package.path = (arg[0]:match("^(.*)/[^/]*$") or ".") .. "/../../live/?.lua;" .. package.path
local events = require("lunette.events")
local h = require("harness")

local target_path, path, n_wanted = arg[1], arg[2], tonumber(arg[3])
if not n_wanted then
  io.stderr:write("usage: lunette lua tests/bench/probe/record.lua TARGET FILE EVENTS\n")
  return 2
end

local BYTES_PER_EVENT <const> = 25 -- more than an event takes, so that the size of the file tells when there are enough

local target <close> = h.start({ target_path, "flood", "0" }, "flood")
local source <close> = assert(events.open {
  pid = target.pid, save_to = path, buffer_mb = 512, rundown = true, stacks = true, want = { { provider = "-none-" } },
  providers = {
    { name = "Lunette-Flood", keywords = "0xffffffffffffffff", level = 5 },
    { name = "Microsoft-Windows-DotNETRuntime", keywords = "0x100000c01d", level = 5 },
  },
})
target:command("go", "^GOING")
h.wait_for("the recording", 120000, function() return (h.fs.stat(path) or { size = 0 }).size > n_wanted * BYTES_PER_EVENT end)
target:command("stop", "^STOPPED")
local done = target:line("^DONE ")
local summary = assert(source:stop(60000))
h.cleanup()
print(("%d events, %d lost; the target wrote %s events"):format(summary.events, summary.lost, done:match("events=(%d+)")))
return summary.complete and summary.events >= n_wanted and summary.lost == 0 and 0 or 1
