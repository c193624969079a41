-- SPDX-License-Identifier: MIT
--- lunette.ipc as scripts see it, against a replayed process. The client itself is tested in tests/native/ipc.
local ipc = require("lunette.ipc")
local loop = require("lunette.loop")
local replay = require("support.replay")
local sys = require("lunette.sys")

describe("ipc", function()
  it("finds a process and tells what it said about itself", function()
    local pid, dir = replay.start("--pid-name", "demo")
    local found
    for _, e in ipairs(assert(ipc.discover{ tmpdirs = { dir }, timeout_ms = 2000 })) do
      if e.pid == pid then found = e end
    end
    assert.equal("ok", found.state)
    assert.equal(pid, found.nspid)
    assert.is_true(found.same_namespace)
    assert.is_false(found.stopped)
    assert.is_nil(found.cause)
    assert.equal(("%s/dotnet-diagnostic-%d-%d-socket"):format(dir, pid, found.start_time), found.path)
    assert.equal("demo", found.info.entrypoint)
    assert.equal(pid, found.info.processId)
    assert.equal(3, found.info.version)
    assert.matches("^%x+%-%x+%-%x+%-%x+%-%x+$", found.info.runtimeCookie)
  end)

  it("has no way to load a profiler or a startup hook into a process", function()
    local names = {}
    for name in pairs(ipc) do names[#names + 1] = name end
    table.sort(names)
    assert.same({ "discover", "dump", "environment", "listen", "ping", "process_info", "resolve", "resume" }, names)
  end)

  it("says why a process cannot be asked", function()
    local info, err = ipc.process_info(sys.pid)
    assert.is_nil(info)
    assert.equal("NotADotnetProcess", err.kind)
    assert.is_truthy(err.hint)
    assert.equal("NotADotnetProcess", select(2, ipc.environment(sys.pid)).kind)
    assert.equal("NotADotnetProcess", select(2, ipc.ping(sys.pid)).kind)
    assert.equal("NotADotnetProcess", select(2, ipc.resolve(sys.pid)).kind)
    assert.equal("ProcessNotFound", select(2, ipc.resolve(2147483647)).kind)
  end)

  it("throws for arguments that are none", function()
    assert.has_error(function() ipc.process_info("x") end)
    assert.has_error(function() ipc.process_info(0) end)
    assert.has_error(function() ipc.ping(1, 0) end)
    assert.has_error(function() ipc.discover{ tmpdirs = { {} } } end)
    assert.has_error(function() ipc.discover(7) end)
  end)

  it("lets other tasks run meanwhile, and ends with its task", function()
    local ticks = 0
    local ticker = loop.spawn(function() while loop.sleep_ms(1) do ticks = ticks + 1 end end)
    local asker = loop.spawn(function() while true do if not ipc.discover{} then return "cancelled" end end end)
    loop.sleep_ms(60)
    assert.is_true(ticks > 3)
    local t0 = loop.now_ms()
    asker:cancel("enough")
    asker:await(20000)
    assert.is_true(loop.now_ms() - t0 < 5000)
    ticker:cancel("enough")
  end)
end)
