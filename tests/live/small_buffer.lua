-- SPDX-License-Identifier: MIT
-- One window of a collector whose session has the smallest buffer that a runtime gives, in a process of its own, so that a test can stop it
-- while the target works on: lunette lua tests/live/small_buffer.lua MODULE PID SECONDS (MODULE of collectors, or samplers.NAME). Writes
-- the payload (at Detail) as JSON.
local json = require("lunette.json")
local sys = require("lunette.sys")

local module, pid, seconds = arg[1], math.tointeger(tonumber(arg[2])), math.tointeger(tonumber(arg[3]))
require("lunette.probe.run").BUFFER_MB, require("samplers.capture").BUFFER_MB = 1, 1

local ctx = { transport = "cli", era = "modern", in_task = false, principal = { name = "live test" }, state = {} }
function ctx.can() return false end
function ctx.progress() end

local arguments = { processId = pid, durationSeconds = seconds, depth = "Detail" }
local payload, extras = require((module:find("^samplers%.") and "" or "collectors.") .. module).run(ctx, arguments)
if not payload then
  io.stderr:write(tostring(extras and extras.message or extras), "\n")
  return 1
end
sys.write(json.encode(payload) .. "\n")
return 0
