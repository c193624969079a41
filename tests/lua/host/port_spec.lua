-- SPDX-License-Identifier: MIT
--- ipc.listen as scripts see it. What happens on the socket is tested in tests/native/ipc, with real runtimes in tests/live.
local fs = require("lunette.fs")
local ipc = require("lunette.ipc")
local loop = require("lunette.loop")

describe("ipc.listen", function()
  it("makes a private socket, which is gone once the port is closed", function()
    local dir = os.tmpname()
    os.remove(dir)
    assert(fs.mkdirs(dir))
    local port = assert(ipc.listen { dir = dir })
    local path = port.path
    assert.equal(dir, path:sub(1, #dir))
    assert.same({ "socket", 384 }, { fs.stat(path).kind, fs.stat(path).mode & 511 })
    assert.equal(448, fs.stat(path:match("^(.*)/")).mode & 511)
    port:close()
    port:close()
    assert.is_nil(port.path)
    assert.same({}, fs.list(dir))
    os.remove(dir)
  end)

  it("is closed at the end of its variable's scope", function()
    local path
    do
      local port <close> = assert(ipc.listen())
      path = port.path
      assert.not_nil(fs.stat(path))
    end
    assert.is_nil(fs.stat(path))
  end)

  it("waits until its time is over, or the task is cancelled", function()
    local port <close> = assert(ipc.listen { restore = false })
    for _, wait in ipairs({ port.wait, port.wait_resumed }) do
      local runtime, err = wait(port, 20)
      assert.is_nil(runtime)
      assert.equal("Timeout", err.kind)
      local task = loop.spawn(wait, port, 60000)
      loop.sleep_ms(10)
      task:cancel("no longer")
      runtime, err = task:await(5000)
      assert.is_nil(runtime)
      assert.equal("Cancelled", err.kind)
    end
    port:release() -- of whoever comes
    assert.same({ runtimes = 0, resumed = 0, rejected = 0, dropped = 0, held = false }, port:stats())
  end)

  it("answers that it is closed", function()
    local port = assert(ipc.listen { restore = "/x,nosuspend" })
    local waits = loop.spawn(function() return port:wait(300) end)
    loop.sleep_ms(10)
    port:close()
    local runtime, err = port:wait(1000)
    assert.is_nil(runtime)
    assert.equal("NotFound", err.kind)
    port:release()
    assert.equal(0, port:stats().runtimes)
    runtime, err = waits:await(5000) -- one that waited before is not left hanging
    assert.is_nil(runtime)
    assert.is_string(err.kind)
  end)

  it("takes a folder that exists, and times that are times", function()
    local port, err = ipc.listen { dir = "/proc/self" }
    assert.is_nil(port)
    assert.matches("^/proc/self/lunette%-port%-", err.detail)
    local good <close> = assert(ipc.listen())
    assert.has_error(function() return good:wait(0) end)
    assert.has_error(function() return good:wait() end)
    assert.has_error(function() ipc.listen("x") end)
  end)
end)

describe("ipc.resume", function()
  it("says that nobody is there", function()
    local ok, err = ipc.resume(2147483647, 100)
    assert.is_nil(ok)
    assert.equal("ProcessNotFound", err.kind)
  end)
end)
