-- SPDX-License-Identifier: MIT
--- loop.child: programs that run beside a task.
local fs = require("lunette.fs")
local loop = require("lunette.loop")
local sys = require("lunette.sys")

local function sh(script, options)
  options = options or {}
  options.argv, options.stdout, options.stderr = { "sh", "-c", script }, "lines", "lines"
  return assert(loop.child(options))
end

local function lines_of(child)
  local list = {}
  while true do
    local line, err = child:line(5000)
    if not line then
      assert.equal("NotFound", err.kind)
      return list
    end
    list[#list + 1] = line
  end
end

--- Whether a process is gone, or only waits to be reaped.
local function ended(pid)
  local deadline = loop.now_ms() + 5000
  repeat
    local stat = fs.read("/proc/" .. pid .. "/stat", 4096)
    if not stat or stat:find(") Z ", 1, true) then return true end
    loop.sleep_ms(5)
  until loop.now_ms() > deadline
  return false
end

describe("loop.child", function()
  it("gives the output line by line, also a last one without its end", function()
    local child <close> = sh("echo one; printf 'two\\r\\n'; echo; echo three >&2; printf four")
    local out, err = {}, {}
    for _, line in ipairs(lines_of(child)) do table.insert(line.stream == "stdout" and out or err, line.text) end
    assert.same({ "one", "two", "", "four" }, out)
    assert.same({ "three" }, err)
    assert.same({ code = 0 }, child:wait(5000))
    assert.same({ code = 0 }, child:wait())
  end)

  it("tells exit codes and signals", function()
    local child <close> = sh("exit 7")
    assert.same({ code = 7 }, child:wait(5000))
    local killed <close> = sh("exec sleep 60")
    local nothing, err = killed:wait(20)
    assert.is_nil(nothing)
    assert.equal("Timeout", err.kind)
    killed:kill("INT")
    assert.same({ signal = 2 }, killed:wait(5000))
    killed:kill("KILL") -- nobody is there any more
  end)

  it("changes the environment and the folder", function()
    local child <close> = sh("echo $ONE:$HOME:$PATH; pwd; test -v HOME 2>/dev/null; env | grep -c ^HOME=",
      { env = { ONE = "1 =x", HOME = false }, cwd = "/proc" })
    local lines = lines_of(child)
    assert.equal("1 =x::" .. sys.getenv("PATH"), lines[1].text)
    assert.equal("/proc", lines[2].text)
    assert.equal("0", lines[3].text)
  end)

  it("cuts a long line and says so", function()
    local child <close> = sh("head -c 10000 /dev/zero | tr '\\0' x; echo; echo short")
    local lines = lines_of(child)
    assert.equal(4096, #lines[1].text)
    assert.is_true(lines[1].cut)
    assert.same({ text = "short", stream = "stdout" }, lines[2])
  end)

  it("drops lines that nobody takes, and counts them", function()
    local child <close> = sh("seq 3000")
    assert.same({ code = 0 }, child:wait(5000))
    assert.equal(1024, #lines_of(child))
    assert.equal(3000 - 1024, child:dropped())
  end)

  it("says why a program cannot be started", function()
    local child, err = loop.child { argv = { "no-such-program-anywhere" } }
    assert.is_nil(child)
    assert.equal("NotFound", err.kind)
    assert.matches("no%-such%-program%-anywhere", err.message)
    child, err = loop.child { argv = { "/bin/true" }, cwd = "/no/such/folder" }
    assert.is_nil(child)
    assert.equal("NotFound", err.kind)
    assert.has_error(function() loop.child { argv = {} } end)
    assert.has_error(function() loop.child { argv = { "true" }, stdin = "lines" } end)
    assert.has_error(function() loop.child { argv = { "true" }, env = { A = true } } end)
  end)

  it("is killed when it is closed, and when its variable goes out of scope", function()
    local pid
    do
      local child <close> = sh("exec sleep 60")
      pid = child.pid
    end
    assert.is_true(ended(pid))
    local child = sh("exec sleep 60")
    pid = child.pid
    child:close()
    child:close()
    assert.is_true(ended(pid))
    local nothing, err = child:line()
    assert.is_nil(nothing)
    assert.equal("NotFound", err.kind)
    assert.is_nil(child.pid)
  end)

  it("takes what is left of its group with it", function()
    local child <close> = sh("sleep 60 & echo $!; wait", { group = true, dies_with_us = true })
    local grandchild = math.tointeger(assert(child:line(5000)).text)
    child:kill("TERM")
    assert.same({ signal = 15 }, child:wait(5000))
    assert.is_true(ended(grandchild))
  end)

  it("does not wait for a grandchild that holds the output open", function()
    local child <close> = sh("sleep 60 & echo $!")
    local grandchild = math.tointeger(assert(child:line(5000)).text)
    local nothing, err = child:line(5000)
    assert.is_nil(nothing)
    assert.equal("NotFound", err.kind)
    loop.exec { argv = { "kill", tostring(grandchild) } }
  end)

  it("can be waited for by one task while another is cancelled", function()
    local child <close> = sh("sleep 0.2; echo late")
    local waits = loop.spawn(function() return child:line(60000) end)
    loop.sleep_ms(20)
    waits:cancel()
    local nothing, err = waits:await(5000)
    assert.is_nil(nothing)
    assert.equal("Cancelled", err.kind)
    assert.equal("late", assert(child:line(5000)).text)
  end)
end)
