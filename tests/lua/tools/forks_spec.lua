-- SPDX-License-Identifier: MIT
-- dumps.forks: which processes are taken for forks that a dump has left, and which are never touched.
local artifacts = require("lunette.artifacts")
local forks = require("dumps.forks")
local fs = require("lunette.fs")
local loop = require("lunette.loop")
local proc = require("lunette.proc")
local store = require("artifacts.store")

local SERVER <const> = ".NET EventPipe"

describe("dumps.forks #unit", function()
  local machine, killed, looks, real, root

  before_each(function()
    killed, looks, machine = {}, 0, {}
    real = { rest = forks.REST_MS, tick = forks.TICK_MS, root = store.root, list = artifacts.list }
    for _, name in ipairs { "pids", "stat", "link", "status", "signal", "environ" } do real[name] = proc[name] end
    forks.REST_MS, root = 1, os.tmpname() .. ".d"
    assert(fs.mkdirs(root))
    store.root = function() return root end
    artifacts.list = function() return machine.files or {} end
    proc.pids = function()
      looks = looks + 1
      if machine.on_look then machine.on_look(looks) end
      local list = {}
      for pid in pairs(machine) do list[#list + 1] = math.tointeger(pid) end
      table.sort(list)
      return list
    end
    proc.stat = function(pid) return machine[pid] end
    proc.link = function(pid) return machine[pid] and machine[pid].exe or nil end
    proc.status = function(pid) return machine[pid] and { tracer_pid = machine[pid].tracer or 0 } end
    proc.environ = function() return {} end
    proc.signal = function(pid, start_time, name)
      killed[#killed + 1] = ("%d %d %s"):format(pid, start_time, name)
      return true
    end
  end)

  after_each(function()
    forks.REST_MS, forks.TICK_MS, store.root, artifacts.list = real.rest, real.tick, real.root, real.list
    for _, name in ipairs { "pids", "stat", "link", "status", "signal", "environ" } do proc[name] = real[name] end
    fs.remove(root)
  end)

  local function add(pid, ppid, more)
    local stat = { pid = pid, ppid = ppid, comm = SERVER, threads = 1, state = "S", start_time = 100 + pid, user_ticks = 5,
      system_ticks = 3, exe = "/app/shop" }
    for k, v in pairs(more or {}) do stat[k] = v end
    machine[pid] = stat
  end
  local function a_program(more) add(10, 1, { comm = "shop", threads = 9, tracer = more and more.tracer }) end

  local function mark(since) return { pid = 10, since = since, started = 110, program = "/app/shop" } end

  it("ends one that rests, and those that it made in turn, the last first", function()
    a_program()
    add(20, 10)
    add(15, 20)
    add(40, 15)
    assert.equal(3, forks.end_stale(10))
    assert.same({ "40 140 KILL", "15 115 KILL", "20 120 KILL" }, killed)
  end)

  it("touches none while a dump is written: one traces the process, runs, or appears", function()
    for _, made in ipairs {
      function() a_program { tracer = 20 } add(20, 10) end,
      function() a_program() add(20, 10, { state = "R" }) end,
      function() a_program() add(20, 10, { state = "t" }) end,
      function() a_program() add(20, 10, { state = "D" }) end,
      function() a_program() add(20, 10) add(21, 20, { state = "R" }) end,
      function() a_program() add(20, 10) machine.on_look = function(n) if n == 2 then machine[20].user_ticks = 6 end end end,
      function() a_program() add(20, 10) machine.on_look = function(n) if n == 2 then add(30, 10) end end end,
      function() a_program() add(20, 10) machine.on_look = function(n) if n == 2 then machine[10].tracer = 99 end end end,
    } do
      machine, looks = {}, 0
      made()
      assert.equal(0, forks.end_stale(10))
    end
    assert.same({}, killed)
  end)

  it("touches no other process: of another parent, program or name, with threads, or dead", function()
    a_program()
    add(20, 1)
    add(21, 10, { exe = "/usr/bin/sh" })
    add(22, 10, { comm = "shop" })
    add(23, 10, { threads = 2 })
    add(24, 10, { state = "Z" })
    assert.equal(0, forks.end_stale(10))
    assert.equal(0, forks.end_left(mark(0)))
    assert.equal(0, forks.end_stale(4242))
    assert.same({}, killed)
  end)

  it("ends what the dump of now has left, and no older one", function()
    a_program()
    add(20, 10, { start_time = 99 })
    add(21, 10, { start_time = 500, state = "R" })
    assert.equal(1, forks.end_left(mark(500)))
    assert.same({ "21 500 KILL" }, killed)
  end)

  it("ends the fork of a process that ends while its dump is written, and no other program's", function()
    forks.TICK_MS = 2
    a_program()
    add(20, 10)
    add(21, 20)
    add(30, 1, { exe = "/app/other" })
    add(40, 1, { start_time = 99 })
    add(50, 1, { comm = "shop", threads = 9 }) -- the same program once more, and its fork
    add(51, 50)
    local watch = loop.spawn(forks.watch, mark(100))
    loop.sleep_ms(10)
    assert.same({}, killed)
    machine[10], machine[20].ppid = nil, 1
    assert.truthy(pcall(function() while #killed < 2 do assert(loop.sleep_ms(2)) end end))
    watch:cancel("enough")
    machine[10] = { pid = 10, ppid = 1, comm = "shop", threads = 1, state = "Z", start_time = 110 } -- has no program any more
    assert.equal(2, forks.end_left(mark(100)))
    assert.same({ "21 121 KILL", "20 120 KILL" }, { killed[1], killed[2] })
    assert.same({ pid = 10, started = 110, since = forks.mark(10).since }, forks.mark(10))
    for _, line in ipairs(killed) do assert.matches("^2[01] ", line) end
  end)

  it("at a start: only those of processes of which a private folder of ours holds a dump", function()
    a_program()
    add(20, 10)
    for _, name in ipairs { "dump_pid10_Full_20261201T024333Z.dmp", ".lunette-00ff/dump_pid101_Full_20261201T024333Z.dmp.part",
      "other/dump_pid10_Full_20261201T024333Z.dmp.part" } do
      machine.files = { { name = name } }
      assert.equal(0, forks.sweep(), name)
    end
    machine.files = { { name = "sub/.lunette-00ff/dump_pid10_Full_20261201T024333Z.dmp.part" } }
    assert.equal(1, forks.sweep())
    assert.same({ "20 120 KILL" }, killed)
    store.root = function() return root .. "/none" end
    assert.equal(0, forks.sweep())
  end)
end)
