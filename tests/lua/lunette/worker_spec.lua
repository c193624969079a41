-- SPDX-License-Identifier: MIT
-- Jobs in worker processes: however they end, the call says so and nothing stays behind.
local fs = require("lunette.fs")
local loop = require("lunette.loop")
local memory = require("lunette.memory")
local proc = require("lunette.proc")
local sys = require("lunette.sys")
local worker = require("lunette.worker")

local function run(args, options) return worker.json(nil, "selftest", args, options) end

describe("lunette.worker #unit", function()
  it("hands over arguments and result unchanged", function()
    local text = "häl\"lo \u{1F600}\n" .. ("x"):rep(100000)
    assert.same({ what = text, number = -42 }, run { how = "echo", what = text, number = -42, nested = { a = { 1, { 2 } } } })
  end)

  it("hands over the error of a job", function()
    local result, err = run { how = "error", what = "a thing" }
    assert.is_nil(result)
    assert.same({ "NotFound", "nothing of \"a thing\" is here" }, { err.kind, err.message })
  end)

  it("says what a worker was at when it crashed", function()
    local _, err = run { how = "crash" }
    assert.equal("Internal", err.kind)
    assert.matches("crashed %(Aborted%) while it was being crash", err.message)
  end)

  it("says that the process ended, whatever its memory looked like then", function()
    local stat = assert(proc.stat(sys.pid))
    local own, gone = tostring(stat.start_time), "1" -- the number of a process is another's now
    for how, kind in pairs { error = "NotFound", crash = "Internal" } do
      local _, err = run { how = how, what = "a heap", pid = sys.pid, startTicks = own }
      assert.equal(kind, err.kind)
      _, err = run { how = how, what = "a heap", pid = sys.pid, startTicks = gone }
      assert.same({ "ProcessExited", "Process " .. sys.pid .. " ended while it was looked at." }, { err.kind, err.message })
      assert.matches(how == "error" and "nothing of \"a heap\"" or "crashed", err.detail)
    end
  end)

  it("ends a worker that takes too long", function()
    local _, err = run({ how = "hang" }, { timeout_ms = 200 })
    assert.equal("Timeout", err.kind)
    assert.matches("after 200 ms", err.message)
  end)

  it("ends a worker that takes too much processor", function()
    local _, err = run { how = "spin", cpuMs = 1 }
    assert.equal("Timeout", err.kind)
  end)

  it("bounds a worker's memory", function()
    if os.getenv("ASAN_OPTIONS") then pending("no such limit under the address sanitizer") end
    local _, err = run { how = "memory", memoryMax = 128 << 20 }
    assert.equal("OutOfMemory", err.kind)
  end)

  it("refuses a worker all that it does not need", function()
    local EPERM <const>, ESRCH <const> = 1, 3
    local path = os.tmpname()
    os.remove(path)
    local dump = assert(run { how = "escape", path = path, dumpFilePath = "/some/dump" })
    if not dump.confined then pending("this kernel has no seccomp filters for us") end
    assert.same({ confined = true, execve = EPERM, socket = EPERM, create = EPERM, change = EPERM, unlink = EPERM, kill = EPERM,
      poke = EPERM, fork = EPERM, read = 0 }, dump)
    local live = assert(run { how = "escape", path = path, pid = 1 })
    assert.same(dump, live)
    assert.is_nil((fs.stat(path)))
    -- the fork of a target is watched over by a process of its own, and written to
    local fork = assert(run { how = "escape", path = path, pid = 1, freeze = "fork" })
    assert.same({ confined = true, execve = EPERM, socket = EPERM, create = EPERM, change = EPERM, unlink = EPERM, kill = 0, poke = ESRCH,
      fork = 0, read = 0 }, fork)
  end)

  it("says that there is no such job", function()
    local result, err = worker.run(nil, "no-such-job", {})
    assert.is_nil(result)
    assert.matches("code 2", err.message)
  end)

  it("tells how far it is, and kills what is let go", function()
    local job = assert(memory.start { job = "selftest", args = [[{"how":"hang"}]] })
    local now = assert(job:progress(60000))
    assert.same({ 0.5, "being hang" }, { now.fraction, now.text })
    local pid = job.pid
    assert.is_truthy(fs.stat("/proc/" .. pid))
    job:close()
    for _ = 1, 600 do
      if not fs.stat("/proc/" .. pid) then break end
      loop.sleep_ms(100)
    end
    assert.is_nil((fs.stat("/proc/" .. pid)))
    local _, err = job:wait()
    assert.equal("Cancelled", err.kind)
  end)

  it("gives the whole result, or says that it is too large", function()
    local result <close> = assert(worker.run(nil, "selftest", { how = "echo", what = "abc" }))
    assert.equal(#result:text(), result:size())
    local text, err = result:text(3)
    assert.is_nil(text)
    assert.equal("LimitExceeded", err.kind)
    result:close()
    assert.has_error(function() result:size() end)
  end)

  it("says that a file is wrong where a dump was given", function()
    local path = os.tmpname()
    local file = assert(io.open(path, "wb"))
    file:write("no dump")
    file:close()
    local _, err = worker.json(nil, "heap", { dumpFilePath = path })
    os.remove(path)
    assert.same({ "InvalidArgument", "dumpFilePath" }, { err.kind, err.detail })
  end)

  it("tells a heartbeat without a total where nobody knows the end", function()
    local told = {}
    local function ctx()
      return { progress = function(_, value, total, message) told[#told + 1] = { value, total, message } end }
    end
    worker.run(ctx(), "selftest", { how = "hang" }, { timeout_ms = 2500, no_end = true, message = "At work" })
    assert.is_true(#told >= 2, #told .. " words in 2.5 s")
    for i, word in ipairs(told) do assert.same({ i - 1, nil }, { word[1], word[2] }) end
    told = {}
    worker.run(ctx(), "selftest", { how = "hang" }, { timeout_ms = 300 })
    assert.same({ 49, 100 }, { told[1][1], told[1][2] })
  end)
end)
