-- SPDX-License-Identifier: MIT
-- Runs live test files: lunette lua tests/live/run.lua [NAME[:TEXT]...] runs tests/live/NAME_test.lua, all without a name, and of a file
-- only the cases whose name holds TEXT. Exit 0: all passed; 1: one failed; 77: all were skipped.
local here = arg[0]:match("^(.*)/[^/]*$") or "."
package.path = here .. "/?.lua;" .. package.path
local fs = require("lunette.fs")
local loop = require("lunette.loop")
local harness = require("harness")

local counts = { passed = 0, failed = 0, skipped = 0 }

local function say(...) io.stdout:write(string.format(...), "\n") io.stdout:flush() end

--- One case. A case that calls skip(reason) cannot run here.
local function run_case(file, case)
  local started, reason = loop.now_ms(), nil
  local function skip(why) reason = why error(skip, 0) end -- luacheck: ignore
  local ok, why = xpcall(case[2], function(e) return reason and e or debug.traceback(tostring(e), 2) end, skip)
  local seconds = (loop.now_ms() - started) / 1000
  if reason then
    counts.skipped = counts.skipped + 1
    say("skip  %s: %s (%s)", file, case[1], reason)
  elseif ok then
    counts.passed = counts.passed + 1
    say("ok    %s: %s (%.1f s)", file, case[1], seconds)
  else
    counts.failed = counts.failed + 1
    say("FAIL  %s: %s (%.1f s)\n%s", file, case[1], seconds, why)
  end
end

local function names()
  if #arg > 0 then return arg end
  local list = {}
  for _, file in ipairs(fs.list(here) or {}) do list[#list + 1] = file:match("^(.*)_test%.lua$") end
  table.sort(list)
  return list
end

math.randomseed(os.time(), require("lunette.sys").pid)
for _, word in ipairs(names()) do
  local name, text = word:match("^([^:]+):?(.*)$")
  for _, case in ipairs(dofile(("%s/%s_test.lua"):format(here, name))) do
    if case[1]:find(text, 1, true) then run_case(name, case) end
  end
end
harness.cleanup()
say("%d passed, %d failed, %d skipped", counts.passed, counts.failed, counts.skipped)
if counts.failed > 0 then return 1 end
return counts.passed == 0 and harness.SKIP or 0
