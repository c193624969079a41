-- SPDX-License-Identifier: MIT
-- cost: what a window cost, with threads as the system would list them.
local loop = require("lunette.loop")
local proc = require("lunette.proc")
local cost = require("lunette.cost")

local SERVER <const> = { tid = 11, name = ".NET EventPipe", start_time = 100, cpu_ns = 900000000 }

local function thread(tid, start_time, cpu_ns) return { tid = tid, name = ".NET EventPipe", start_time = start_time, cpu_ns = cpu_ns } end

describe("cost #unit", function()
  local thread_cpu, own_cpu = proc.thread_cpu, proc.own_cpu
  local threads, own_ns

  before_each(function()
    threads, own_ns = { SERVER }, 5000000000
    proc.thread_cpu = function(pid, name)
      assert.same({ 77, ".NET EventPipe" }, { pid, name })
      if not threads then return nil, { kind = "ProcessNotFound" } end
      return threads
    end
    proc.own_cpu = function() return { process_ns = own_ns, thread_ns = 1 } end
  end)
  after_each(function() proc.thread_cpu, proc.own_cpu = thread_cpu, own_cpu end)

  it("counts the thread that came with the session, not the one that was there", function()
    local meter <close> = cost.start(77)
    threads = { SERVER, thread(45, 5000, 100000) }
    meter:opened()
    own_ns = own_ns + 41230000
    threads = { SERVER, thread(45, 5000, 123460000) }
    meter:window_end()
    threads, own_ns = { SERVER }, own_ns + 1000000000 -- the stop, and what comes after it
    assert.same({
      target_cpu_ms = 123.5, lunette_cpu_ms = 41.2, window_ms = 2000, events = 5001, events_per_s = 2500.5, bytes = 99, lost = 3,
    }, meter:finish({ events = 5001, bytes = 99, lost = 3 }, 2000))
  end)

  it("lets sessions of one target begin one after the other", function()
    local order, meters = {}, {}
    local function open(i, tid, ms_until_born)
      return loop.spawn(function()
        local meter <close> = cost.start(77)
        order[#order + 1] = "start " .. i
        loop.spawn(function() -- the runtime answers first
          loop.sleep_ms(ms_until_born)
          threads = { thread(tid, 5000, 0), table.unpack(threads) }
        end)
        meter:opened()
        order[#order + 1] = "opened " .. i
        meters[i] = meter
      end)
    end
    local tasks = { open(1, 42, 20), open(2, 41, 1), open(3, 40, 1) } -- thread ids need not rise
    for _, task in ipairs(tasks) do task:await() end
    assert.same({ "start 1", "opened 1", "start 2", "opened 2", "start 3", "opened 3" }, order)
    threads = { SERVER, thread(42, 5000, 4000000), thread(40, 5000, 1000000), thread(41, 5000, 2000000) }
    assert.equal(4.0, meters[1]:finish({}, 10).target_cpu_ms)
    assert.equal(2.0, meters[2]:finish({}, 10).target_cpu_ms)
    assert.equal(1.0, meters[3]:finish({}, 10).target_cpu_ms)
  end)

  it("does not wait for long for one that does not get its session open, and not at all for one that gave up", function()
    local since = loop.now_ms()
    local stuck <close> = cost.start(77)
    assert.is_true(loop.now_ms() - since < 450)
    cost.start(77):close()
    assert.is_true(loop.now_ms() - since >= 450 and loop.now_ms() - since < 20000)
    stuck:close()
    since = loop.now_ms()
    for _ = 1, 3 do
      local _ <close> = cost.start(77) -- open failed
    end
    assert.is_true(loop.now_ms() - since < 1400) -- each would wait for half a second
  end)

  it("has no thread when another session has the only new one", function()
    local first = cost.start(77)
    first:close() -- its turn is over before its thread is there
    local second = cost.start(77)
    threads = { SERVER, thread(44, 5000, 1000000) }
    first:opened()
    second:opened()
    assert.is_nil(second:finish({}, 10).target_cpu_ms)
    assert.equal(1.0, first:finish({}, 10).target_cpu_ms)
  end)

  it("takes the first new thread when nobody said that the session is open", function()
    local meter <close> = cost.start(77)
    threads = { thread(50, 6000, 7000000), SERVER, thread(60, 5000, 3000000) }
    assert.equal(3.0, meter:finish({}, 10).target_cpu_ms)
  end)

  it("does not take a thread id that was used again for the old thread", function()
    local meter <close> = cost.start(77)
    threads = { thread(SERVER.tid, 9000, 5000000) }
    assert.equal(5.0, meter:finish({}, 10).target_cpu_ms)
  end)

  it("cannot tell the target's part of a file, an ended process or one that it may not read", function()
    local file = cost.start(nil)
    file:opened()
    own_ns = own_ns + 2000000
    assert.same({ lunette_cpu_ms = 2.0, window_ms = 100, events = 10, events_per_s = 100.0, bytes = 7, lost = 0 },
      file:finish({ events = 10, bytes = 7, lost = 0 }, 100))
    local ended <close> = cost.start(77)
    threads = { SERVER, thread(46, 5000, 1000) }
    ended:opened()
    threads = nil
    assert.is_nil(ended:finish({}, 10).target_cpu_ms)
    local denied <close> = cost.start(77)
    threads = { SERVER, thread(46, 5000, 1000) }
    denied:opened()
    assert.is_nil(denied:finish({}, 10).target_cpu_ms)
  end)

  it("has no rate for a window of no length", function()
    assert.is_nil(cost.start(nil):finish({ events = 10 }, 0).events_per_s)
    assert.is_nil(cost.start(nil):finish({ events = 10 }).events_per_s)
  end)
end)

describe("cost", function()
  it("measures a thread of a real process, and this one", function()
    local dir = assert(loop.exec { argv = { "mktemp", "-d" } }).stdout:match("%S+")
    -- the shell takes the runtime's thread name, burns CPU, says how much, and waits to be let go
    local script = ([[cd %s; mkfifo go; echo $$ > pid.new; mv pid.new pid; read word < go; printf '.NET EventPipe' > /proc/$$/comm
i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo done > burnt.new; mv burnt.new burnt; read word < go]]):format(dir)
    local child = loop.spawn(function() return loop.exec { argv = { "sh", "-c", script } } end)
    local function wait_for(name)
      while true do
        local f = io.open(dir .. "/" .. name)
        if f then
          local text = f:read("a")
          f:close()
          return text
        end
        assert(loop.sleep_ms(5))
      end
    end
    local function go()
      local f = assert(io.open(dir .. "/go", "w"))
      f:write("go\n")
      f:close()
    end
    local pid = math.tointeger(tonumber(wait_for("pid")))
    local meter = cost.start(pid)
    go()
    wait_for("burnt")
    local now = proc.own_cpu().process_ns
    repeat until proc.own_cpu().process_ns - now > 30000000
    meter:window_end()
    local stat, clock = assert(proc.stat(pid)), proc.clock()
    local price = meter:finish({ events = 1 }, 1000)
    local stat_ms = (stat.user_ticks + stat.system_ticks) * 1000 / clock.ticks_per_s
    assert.is_true(price.target_cpu_ms > 10 and math.abs(price.target_cpu_ms - stat_ms) < 25, price.target_cpu_ms .. " " .. stat_ms)
    assert.is_true(price.lunette_cpu_ms >= 30, price.lunette_cpu_ms)
    go()
    child:await()
    loop.exec { argv = { "rm", "-rf", dir } }
  end)
end)
