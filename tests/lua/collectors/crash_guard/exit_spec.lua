-- SPDX-License-Identifier: MIT
-- The end of a guarded process, seen from outside: it need not be our child.
local exit = require("collectors.crash_guard.exit")
local loop = require("lunette.loop")
local proc = require("lunette.proc")
local sys = require("lunette.sys")

local SECONDS <const> = "61.7" -- by which it is known

-- A process that waits to be killed: { pid, start_time }, and the task that is its parent's.
local function sleeper()
  local found
  local task = loop.spawn(function() return loop.exec { argv = { "sleep", SECONDS } } end)
  repeat
    loop.sleep_ms(5)
    for _, pid in ipairs(proc.pids()) do
      local stat = proc.stat(pid)
      local ours = stat and stat.ppid == sys.pid and stat.comm == "sleep" and (proc.cmdline(pid) or {})[2] == SECONDS
      if ours then found = { pid = pid, start_time = stat.start_time } end
    end
  until found
  return found, task
end

local function kill(process) loop.exec { argv = { "kill", "-KILL", tostring(process.pid) } } end

describe("collectors.crash_guard.exit", function()
  it("does not wait for a process that runs on when its stream did not end", function()
    local process = { pid = sys.pid, start_time = proc.stat(sys.pid).start_time }
    local watch <close> = assert(exit.watch(process))
    local before = loop.now_ms()
    assert.is_false(exit.look(process, watch, false))
    assert.is_true(loop.now_ms() - before < 2500)
  end)

  it("waits for the end that a broken stream announces, and says how it came, or that the system did not tell", function()
    local process, task = sleeper()
    local watch <close> = assert(exit.watch(process))
    assert.is_false(exit.look(process, watch, false))
    loop.spawn(function()
      loop.sleep_ms(100)
      kill(process)
    end)
    local ended, how = exit.look(process, watch, true)
    assert.is_true(ended)
    assert.is_true(how.signal == 9 or next(how) == nil)
    task:await()
  end)

  it("sees the end of a process that cannot be watched, without its status", function()
    local process, task = sleeper()
    kill(process)
    task:await()
    assert.is_nil(exit.watch(process))
    local ended, how = exit.look(process, nil, true)
    assert.is_true(ended)
    assert.is_nil(how)
  end)

  it("does not take another process with the same id for the one that was meant", function()
    local other = { pid = sys.pid, start_time = 1 }
    assert.is_nil(exit.watch(other))
    assert.is_true(exit.look(other, nil, false))
  end)
end)
