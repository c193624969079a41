-- SPDX-License-Identifier: MIT
-- Records the session of the tutorial: lunette lua share/record-shop.lua PID FILE [SECONDS]; see share/shop.md.
local events = require("lunette.events")
local loop = require("lunette.loop")
local pid, path = tonumber(arg[1]), arg[2]
local INTERVAL <const> = "EventCounterIntervalSec=1"
local source <close> = assert(events.open {
  pid = pid, save_to = path, buffer_mb = 16, rundown = 0, want = { { provider = "System.Runtime", event = "ProcessorCount" } },
  providers = {
    { name = "System.Runtime", keywords = 2, level = 4, args = INTERVAL },
    { name = "Contoso-Shop", keywords = -1, level = 4, args = INTERVAL },
  },
})
assert(loop.sleep_ms(1000 * tonumber(arg[3] or 8)))
local summary = assert(source:stop(10000))
print(summary.events, summary.bytes, summary.lost, summary.complete)
