-- SPDX-License-Identifier: MIT
-- first_view.lua PROGRAM METHODS JITTED SECONDS ROUNDS: how long after its window collect_sample kind=cpu answers, for a process that runs
-- since more than ten seconds. In milliseconds, median and longest: after, from the end of the window (sampling stops) to the data
-- of the answer; late, from the moment at which the window was to end (SECONDS after its session stood); still, the longest time for
-- which the target's own thread did not turn.
package.path = (arg[0]:match("^(.*)/[^/]*$") or ".") .. "/../../live/?.lua;" .. package.path
local h = require("harness")
local loop = require("lunette.loop")

local WARM_MS <const> = 10500
local program, methods, jitted, seconds, rounds = arg[1], arg[2], arg[3], tonumber(arg[4]), tonumber(arg[5])

local function ms(span)
  local hours, minutes, s = span:match("^(%d+):(%d+):([%d.]+)$")
  return (hours * 3600 + minutes * 60 + s) * 1000
end

local function figures(list)
  table.sort(list)
  return ("%.0f/%.0f"):format(list[(#list + 1) // 2], list[#list])
end

local target <close> = h.start({ program, methods, jitted }, "big")
local server <close> = h.server()
loop.sleep_ms(WARM_MS)
local after, late, still, named, samples = {}, {}, {}, 0, 0
target:command("mark", "^MARK")
loop.sleep_ms(1000)
local quiet = tonumber(target:command("mark", "^MARK"):match("longest_us=(%d+)"))
for _ = 1, rounds do
  local envelope = h.ok(server:call("collect_sample", { kind = "cpu", processId = target.pid, durationSeconds = seconds }))
  h.ok(not envelope.error, h.json.encode(envelope.error or {}))
  local data, t = envelope.data.cpu, envelope.data.cpu.timings
  local behind = ms(t.totalDuration) - ms(t.sessionStartDuration)
  after[#after + 1], late[#late + 1] = behind - ms(data.duration), behind - seconds * 1000
  still[#still + 1] = tonumber(target:command("mark", "^MARK"):match("longest_us=(%d+)")) / 1000
  samples = samples + data.totalSamples
  for _, row in ipairs(data.topHotspots) do named = named + (row.identity and row.identity.metadataToken and 1 or 0) end
end
print(("first_view methods=%s windows=%d samples=%d named=%d after_ms=%s late_ms=%s still_ms=%s still_unwatched_ms=%.0f"):format(
  target.ready:match("(%d+)$"), rounds, samples, named, figures(after), figures(late), figures(still), quiet / 1000))
h.cleanup()
return 0
