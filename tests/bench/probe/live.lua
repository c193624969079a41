-- SPDX-License-Identifier: MIT
-- Puts an observer beside a flooding target: lunette lua tests/bench/probe/live.lua TARGET THOUSAND_EVENTS_A_SECOND SECONDS OUT OBSERVER...
-- The observer's words are given the target's pid and the seconds; it says READY when its session is open and ends by itself. Its result
-- goes to the file OUT; what the target says that it wrote is printed as one line.
package.path = (arg[0]:match("^(.*)/[^/]*$") or ".") .. "/../../live/?.lua;" .. package.path
local h = require("harness")
local known_values = require("known_values")
local loop = require("lunette.loop")

local MARGIN_S <const> = 3 -- the observer watches longer than the target writes

local target_path, rate, seconds, out = arg[1], arg[2], math.tointeger(tonumber(arg[3])), arg[4]
local target <close> = h.start({ target_path, "flood", rate }, "flood")
local words = table.move(arg, 5, #arg, 1, {})
words[#words + 1] = tostring(target.pid)
words[#words + 1] = tostring(seconds + MARGIN_S)
local observer <close> = h.start(words, "observer")
target:command("go", "^GOING")
assert(loop.sleep_ms(seconds * 1000))
target:command("stop", "^STOPPED")
local did = known_values.did(target)
local exit = h.wait_for("the observer's end", (MARGIN_S + 60) * 1000, function() return observer.child.exit end)
local result = assert(h.fs.read(observer.child.out, 1024 * 1024))
assert(h.fs.write_private(h.fs.realpath(out:match("^(.*)/[^/]+$") or ".") .. "/" .. out:match("[^/]+$"), result))
print(("target events=%d starts=%d weight=%d elapsed_ms=%d"):format(did.events, did.starts, did.weight, did.elapsed_ms))
if exit.code ~= 0 then io.stderr:write(result, h.fs.read(observer.child.err, 65536) or "") end
h.cleanup()
return exit.code == 0 and 0 or 1
