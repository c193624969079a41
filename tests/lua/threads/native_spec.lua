-- SPDX-License-Identifier: MIT
-- What the kernel's words about a thread mean, and what native frames are called.
local fs = require("lunette.fs")
local native = require("threads.native")
local proc = require("lunette.proc")
local sys = require("lunette.sys")

describe("threads.native #unit", function()
  it("reads the wait of a thread from its state, its call, and the kernel's function", function()
    for _, case in ipairs {
      { { state = "R" }, "Running" }, { { state = "D", syscall = 0 }, "BlockedOnUninterruptibleIO" }, { { state = "T" }, "Stopped" },
      { { state = "t" }, "Stopped" }, { { state = "S", syscall = 202 }, "BlockedOnLock" },
      { { state = "S", syscall = 271 }, "BlockedOnIO" }, { { state = "S", syscall = 219, wchan = "poll_schedule_timeout" }, "BlockedOnIO" },
      { { state = "S", syscall = 232, wchan = "futex_wait" }, "BlockedOnIO" }, { { state = "S", syscall = 230 }, nil },
      { { state = "S", wchan = "futex_wait_queue" }, "BlockedOnLock" }, { { state = "S", wchan = "do_select" }, "BlockedOnIO" },
      { { state = "S", wchan = "poll_schedule_timeout.constprop.0" }, "BlockedOnIO" },
      { { state = "S", wchan = "hrtimer_nanosleep" }, nil },
      { { state = "S" }, nil },
    } do
      assert.equal(case[2], native.reason(case[1]))
    end
  end)

  it("reads the wait from the innermost frames where the kernel said nothing", function()
    local function stack(...)
      local frames = {}
      for i, name in ipairs { ... } do frames[i] = { kind = "native", symbol = name ~= "" and name or nil } end
      return frames
    end
    assert.equal("BlockedOnLock", native.reason_of_frames(stack("__futex_abstimed_wait_common", "pthread_cond_wait", "Main")))
    assert.equal("BlockedOnLock", native.reason_of_frames(stack("", "pthread_mutex_lock")))
    assert.equal("BlockedOnIO", native.reason_of_frames(stack("__read", "SystemNative_Read")))
    assert.equal("BlockedOnIO", native.reason_of_frames(stack("epoll_wait")))
    assert.is_nil(native.reason_of_frames(stack("clock_nanosleep", "usleep", "work")))
    assert.is_nil(native.reason_of_frames(stack("a", "b", "c", "__read"))) -- too far out
    assert.is_nil(native.reason_of_frames {})
  end)

  it("knows the threads of a process", function()
    local rows = assert(proc.thread_waits(sys.pid))
    local own
    for _, row in ipairs(rows) do own = row.tid == sys.pid and row or own end
    assert.is_table(own)
    assert.truthy(("RSD"):find(own.state, 1, true))
    assert.is_nil((proc.thread_waits(2147483647)))
  end)

  it("names frames by the symbols of their module, and leaves others as they are", function()
    local path = assert(fs.realpath("/proc/self/exe"))
    local names = require("lunette.symbols").native({ { path = path, address = 0 }, { path = "/no/such/file", address = 1 } })
    assert.same({ {}, {} }, names)
    local threads = { { frames = {
      { kind = "native", name = "gone.so+0x10", rva = "0x10", native_module = { path = "/no/such/gone.so", buildId = "" } },
      { kind = "managed", name = "A.B()" }, { kind = "native", name = "<unmapped-or-not-captured 0x1>" },
    } } }
    native.name(threads, nil)
    assert.same({ "gone.so+0x10", "A.B()", "<unmapped-or-not-captured 0x1>" },
      { threads[1].frames[1].name, threads[1].frames[2].name, threads[1].frames[3].name })
  end)
end)
