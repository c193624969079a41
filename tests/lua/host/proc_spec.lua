-- SPDX-License-Identifier: MIT
-- lunette.proc as scripts see it: this very process, and what fails. The parsers are tested in tests/native/kernel.
local fs = require("lunette.fs")
local loop = require("lunette.loop")
local proc = require("lunette.proc")
local sys = require("lunette.sys")

describe("lunette.proc", function()
  it("tells of this process what the system tells of it", function()
    local stat, status = assert(proc.stat(sys.pid)), assert(proc.status(sys.pid))
    assert.equal(sys.pid, stat.pid)
    assert.same({ sys.pid, sys.pid }, { status.nspid, stat.pid })
    assert.is_true(status.pid_namespaces >= 1)
    assert.is_true(math.abs(stat.rss_bytes - status.rss_bytes) < 8 * 1024 * 1024)
    assert.equal(fs.realpath("/proc/self/exe"), proc.link(sys.pid, "exe"))
    assert.matches("^pid:%[%d+%]$", proc.link(sys.pid, "ns/pid"))
    local arguments = assert(proc.cmdline(sys.pid))
    assert.matches("lunette$", arguments[1])
    local clock = proc.clock()
    local age_ms = clock.uptime_ms - stat.start_time * 1000 // clock.ticks_per_s
    assert.is_true(age_ms >= 0 and age_ms < 3600000)
    assert.is_true(math.abs(clock.boot_unix_s * 1000 + clock.uptime_ms - loop.unix_ms()) < 5000)
  end)

  it("counts the descriptors that the kernel shows", function()
    local before = assert(proc.fds(sys.pid))
    local f <close> = assert(io.open("/proc/self/stat"))
    local after = assert(proc.fds(sys.pid))
    assert.is_truthy(f)
    assert.equal(1, after.count - before.count)
    assert.equal(1, after.regular - before.regular)
    assert.equal(after.count, after.sockets + after.regular + after.pipes + after.eventfds + after.other)
    local limits = assert(proc.limits(sys.pid))
    assert.is_true(limits.nofile_soft == "unlimited" or limits.nofile_soft >= after.count)
  end)

  it("reads memory and input/output", function()
    local rollup, io_counts = assert(proc.smaps_rollup(sys.pid)), assert(proc.io(sys.pid))
    assert.is_true(rollup.pss_bytes <= rollup.rss_bytes and rollup.pss_bytes > 0)
    assert.is_true(io_counts.read_chars > 0 and io_counts.read_calls > 0)
  end)

  it("gives a cgroup version whatever the host has", function()
    local group = assert(proc.cgroup(sys.pid))
    assert.is_true(group.version == "V1" or group.version == "V2" or group.version == "None")
    assert.is_table(group.notes)
    assert.equal("boolean", type(group.in_container))
  end)

  it("says ProcessNotFound for a pid that nobody has", function()
    for _, name in ipairs {
      "stat", "status", "cmdline", "environ", "smaps_rollup", "limits", "io", "fds", "cgroup", "thread_cpu", "can_attach",
    } do
      local value, err = proc[name](2147483647)
      assert.is_nil(value, name)
      assert.equal("ProcessNotFound", err.kind, name)
    end
    local value, err = proc.link(2147483647, "exe")
    assert.same({ nil, "ProcessNotFound" }, { value, err.kind })
  end)

  it("refuses what is no process id or no link as a mistake of the caller", function()
    for _, bad in ipairs { 0, -1, 2147483648, "x", 1.5 } do assert.has_error(function() return proc.stat(bad) end) end
    assert.has_error(function() return proc.link(sys.pid, "../../etc/passwd") end)
    assert.has_error(function() return proc.at(("x"):rep(2000)) end)
  end)

  it("reads another root, and only that one", function()
    local nowhere = proc.at("/nowhere")
    local _, err = nowhere.stat(1)
    assert.equal("ProcessNotFound", err.kind)
    _, err = nowhere.pids()
    assert.equal("NotFound", err.kind)
    assert.is_nil(nowhere.host().perf_event_paranoid)
  end)

  it("lists process ids in ascending order, this one among them", function()
    local pids = assert(proc.pids())
    local seen = false
    for i, pid in ipairs(pids) do
      assert.is_true(i == 1 or pid > pids[i - 1])
      seen = seen or pid == sys.pid
    end
    assert.is_true(seen)
    assert.equal(0, pids.dropped)
  end)

  it("tells what the threads of a name cost", function()
    local own = fs.read("/proc/self/comm", 64):match("^(.-)\n")
    local function main_of(list) -- numbers of threads begin again at the end of their range: the main one need not be the first
      for _, thread in ipairs(list) do
        if thread.tid == sys.pid then return thread end
      end
    end
    local before = assert(proc.thread_cpu(sys.pid, own:sub(1, 3)))
    local main = main_of(before)
    assert.same({ sys.pid, own, 0 }, { main.tid, main.name, before.dropped })
    assert.equal(proc.stat(sys.pid).start_time, main.start_time)
    local cpu = proc.own_cpu()
    repeat until proc.own_cpu().thread_ns - cpu.thread_ns > 50000000
    local after = main_of(assert(proc.thread_cpu(sys.pid, { "nobody", own })))
    local spent_ms = (after.cpu_ns - main.cpu_ns) // 1000000
    assert.is_true(spent_ms >= 20 and spent_ms < 5000, spent_ms)
    assert.is_true(proc.own_cpu().process_ns - cpu.process_ns >= 50000000)
    assert.is_true(#assert(proc.thread_cpu(sys.pid)) > 1)
    assert.same({ dropped = 0 }, proc.thread_cpu(sys.pid, "nobody"))
    assert.has_error(function() return proc.thread_cpu(sys.pid, 5) end)
  end)

  it("lets other tasks run while it waits, and survives being cancelled", function()
    local turns = 0
    local other = loop.spawn(function()
      for _ = 1, 3 do
        turns = turns + 1
        loop.sleep_ms(0)
      end
    end)
    local task = loop.spawn(function() return proc.smaps_rollup(sys.pid) end)
    local rollup = task:await()
    other:await()
    assert.is_table(rollup)
    assert.equal(3, turns)
    local cancelled = loop.spawn(function() return proc.fds(sys.pid) end)
    cancelled:cancel("no longer wanted")
    local value, err = cancelled:await()
    assert.is_nil(value)
    assert.equal("Cancelled", err.kind)
  end)

  it("watches a process until it ends, and says how", function()
    local watch <close> = assert(proc.watch(sys.pid))
    assert.is_nil(watch:ended())
    local dir = assert(loop.exec { argv = { "mktemp", "-d" } }).stdout:match("%S+")
    local script = ("mkfifo %s/go; echo $$ > %s/pid; read word < %s/go; exit 5"):format(dir, dir, dir)
    local child = loop.spawn(function() return loop.exec { argv = { "sh", "-c", script } } end)
    local pid
    repeat
      loop.sleep_ms(5)
      pid = tonumber((fs.read(dir .. "/pid", 100) or ""):match("^(%d+)\n"))
    until pid
    local other <close> = assert(proc.watch(pid))
    assert.is_nil(other:ended())
    local go = assert(io.open(dir .. "/go", "w"))
    go:write("go\n")
    go:close()
    assert.equal(5, child:await().code)
    local ended = assert.is_table(other:ended())
    assert.same({ code = ended.code and 5 }, ended) -- an older kernel forgets it with the child
    loop.exec { argv = { "rm", "-rf", dir } }
  end)

  it("cannot watch what is not there, or with a closed watch", function()
    local watch, err = proc.watch(2147483647)
    assert.is_nil(watch)
    assert.equal("ProcessNotFound", err.kind)
    watch = assert(proc.watch(sys.pid))
    watch:close()
    watch:close()
    assert.has_error(function() return watch:ended() end)
    assert.has_error(function() return proc.watch(0) end)
  end)

  it("asks the kernel what is allowed here", function()
    local host = proc.host()
    assert.equal("number", math.type(host.uid) == "integer" and "number")
    for _, probe in pairs(proc.perf_probe(sys.pid)) do assert.is_true(probe.ok or probe.errno > 0) end
    assert.is_true(proc.can_attach(sys.pid))
  end)
end)
