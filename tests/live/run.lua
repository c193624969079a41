-- SPDX-License-Identifier: MIT
-- Runs live test files: lunette lua tests/live/run.lua [--alone | --beside] [NAME[:TEXT]...] runs tests/live/NAME_test.lua, all without a
-- name, and of a file only the cases whose name holds TEXT. Cases wait more than they work, so some run at a time (LUNETTE_LIVE_JOBS),
-- and all together are limited by it only. A case with `alone = true` measures CPU or rates, or counts what this process has open: it
-- runs when no other does; --alone runs only those, --beside all others, so that ctest can keep the machine free for the former.
-- Exit 0: all passed; 1: one failed; 77: all were skipped.
local here = arg[0]:match("^(.*)/[^/]*$") or "."
package.path = here .. "/?.lua;" .. package.path
local atomic = require("lunette.atomic")
local fs = require("lunette.fs")
local loop = require("lunette.loop")
local harness = require("harness")

local JOBS <const> = tonumber(os.getenv("LUNETTE_LIVE_JOBS")) or 3
local CASE_MS <const> = 600000 -- no case takes a tenth of this: what does hangs, and is named before the test's own time is over

local counts = { passed = 0, failed = 0, skipped = 0, repeated = 0 }

-- One write a line: cases that run side by side do not mix their words.
local count = atomic(function(outcome, line)
  counts[outcome] = counts[outcome] + 1
  io.stdout:write(line, "\n")
  io.stdout:flush()
end)

--- One case. A case that calls skip(reason) cannot run here; one that harness.too_slow ended begins again with longer windows.
local function run_case(file, case)
  local started, reason = loop.now_ms(), nil
  local function skip(why) reason = why error(skip, 0) end -- luacheck: ignore
  local function once()
    return xpcall(case[2], function(e) return (reason or e == harness.TOO_SLOW) and e or debug.traceback(tostring(e), 2) end, skip)
  end
  local task = loop.spawn(function()
    local ok, why = once()
    while why == harness.TOO_SLOW and harness.slow_down() do
      count("repeated", ("again %s: %s (%s)"):format(file, case[1], tostring(why)))
      ok, why = once()
    end
    return { ok = ok, why = why }
  end)
  local done, err = task:await(CASE_MS)
  if not done then
    task:cancel("the case hangs")
    done = { ok = false, why = "the case did not end: " .. tostring(err) }
  end
  local seconds = (loop.now_ms() - started) / 1000
  if reason then
    count("skipped", ("skip  %s: %s (%s)"):format(file, case[1], reason))
  elseif done.ok then
    count("passed", ("ok    %s: %s (%.1f s)"):format(file, case[1], seconds))
  else
    count("failed", ("FAIL  %s: %s (%.1f s)\n%s"):format(file, case[1], seconds, tostring(done.why)))
  end
end

--- The arguments: which kind of cases, and the files.
local function asked()
  local names, kind = {}, nil
  for _, word in ipairs(arg) do
    if word == "--alone" or word == "--beside" then kind = word else names[#names + 1] = word end
  end
  if #names > 0 then return names, kind end
  for _, file in ipairs(fs.list(here) or {}) do names[#names + 1] = file:match("^(.*)_test%.lua$") end
  table.sort(names)
  return names, kind
end

--- Runs those of a list that may run side by side, then the others one after another.
local function run_all(list)
  local next_one, workers = 0, {}
  local take = atomic(function()
    next_one = next_one + 1
    return list.beside[next_one]
  end)
  for i = 1, math.min(JOBS, #list.beside) do
    workers[i] = loop.spawn(function()
      for job in take do run_case(job.name, job.case) end
      return true
    end)
  end
  for _, worker in ipairs(workers) do worker:await() end
  for _, job in ipairs(list.alone) do run_case(job.name, job.case) end
end

math.randomseed(os.time(), require("lunette.sys").pid)
local names, kind = asked()
local list = { beside = {}, alone = {} }
for _, word in ipairs(names) do
  local name, text = word:match("^([^:]+):?(.*)$")
  for _, case in ipairs(dofile(("%s/%s_test.lua"):format(here, name))) do
    local where = case.alone and "alone" or "beside"
    if case[1]:find(text, 1, true) and (not kind or kind == "--" .. where) then
      table.insert(list[where], { name = name, case = case })
    end
  end
end
run_all(list)
harness.cleanup()
io.stdout:write(("%d passed, %d failed, %d skipped\n"):format(counts.passed, counts.failed, counts.skipped))
if counts.failed > 0 then return 1 end
return counts.passed == 0 and harness.SKIP or 0
