-- SPDX-License-Identifier: MIT
-- Records the session that ships with lunette: lunette lua share/record-demo.lua PID FILE [SECONDS]
-- The counters, request durations and thread pool of a process, as the counters collector asks for them; see share/demo.md.
local events = require("lunette.events")
local loop = require("lunette.loop")

local pid, path, seconds = tonumber(arg[1]), arg[2], tonumber(arg[3] or 12)
if not pid or not path then
  io.stderr:write("usage: lunette lua share/record-demo.lua PID FILE [SECONDS]\n")
  return 2
end

local INTERVAL <const> = "EventCounterIntervalSec=1"
local source <close> = assert(events.open {
  pid = pid, save_to = path, buffer_mb = 16, rundown = 0, want = { { provider = "System.Runtime", event = "ProcessorCount" } },
  providers = {
    { name = "System.Runtime", keywords = 2, level = 4, args = INTERVAL },
    { name = "Microsoft.AspNetCore.Hosting", keywords = 0, level = 4, args = INTERVAL },
    { name = "Microsoft-AspNetCore-Server-Kestrel", keywords = 0, level = 4, args = INTERVAL },
    {
      name = "System.Diagnostics.Metrics", keywords = 2, level = 4,
      args = "SessionId=SHARED;ClientId=6ef4a1c2-3c0e-4a6c-9d52-5d0f2c8b7e11;Metrics=Microsoft.AspNetCore.Hosting;RefreshInterval=1;"
        .. "MaxTimeSeries=100;MaxHistograms=20",
    },
    { name = "Microsoft-Windows-DotNETRuntime", keywords = 0x10000, level = 4 }, -- how the thread pool grows
  },
})
assert(loop.sleep_ms(seconds * 1000))
local summary = assert(source:stop(10000))
io.stdout:write(("%d events, %d bytes, %d lost, complete: %s\n"):format(summary.events, summary.bytes, summary.lost,
  tostring(summary.complete)))
return summary.complete and 0 or 1
