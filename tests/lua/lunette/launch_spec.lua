-- SPDX-License-Identifier: MIT
-- launch: programs that are no .NET program, that end too early, and that are ended. What a runtime does is tested live.
local fs = require("lunette.fs")
local launch = require("lunette.launch")
local loop = require("lunette.loop")

local function start(script, more)
  local options = { argv = { "sh", "-c", script }, console = "log", owned = true }
  for k, v in pairs(more or {}) do options[k] = v end
  return launch.start(options)
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

local function ports()
  local n = 0
  for _, name in ipairs(fs.list(os.getenv("TMPDIR") or "/tmp")) do
    if name:find("^lunette%-port%-") then n = n + 1 end
  end
  return n
end

describe("launch.start", function()
  it("tells exit code and last output of a program that ends before a runtime connects", function()
    local before = ports()
    local started, err = start("echo one; echo password=hunter2 >&2; exit 7")
    assert.is_nil(started)
    assert.equal("ProcessExited", err.kind)
    assert.matches("exit code 7", err.message)
    assert.matches("one", err.message)
    assert.not_matches("hunter2", err.message)
    assert.equal(before, ports())
  end)

  it("keeps the last lines only, and short ones", function()
    local _, err = start("seq 1 500; head -c 5000 /dev/zero | tr '\\0' x; exit 1")
    assert.matches("500 | x+$", err.message)
    assert.not_matches("490 |", err.message)
    assert.is_true(#err.message < 1000)
  end)

  it("tells a signal", function()
    local _, err = start("kill -KILL $$")
    assert.matches("by signal 9", err.message)
  end)

  it("knows a program without a runtime, and ends it with all of its group", function()
    local t, file = loop.now_ms(), os.tmpname()
    local _, err = start("sleep 60 & echo $! > " .. file .. "; wait", { connect_s = 0.3 })
    assert.equal("NotADotnetProcess", err.kind)
    assert.is_true(loop.now_ms() - t < 30000)
    assert.is_true(ended(err.process_id))
    assert.is_true(ended(math.tointeger(tonumber(fs.read(file, 100)))))
    os.remove(file)
  end)

  it("kills what does not listen to SIGTERM", function()
    local _, err = start("trap '' TERM; while :; do sleep 0.05; done", { connect_s = 0.2 })
    assert.equal("NotADotnetProcess", err.kind)
    assert.is_true(ended(err.process_id))
  end)

  it("says what is wrong with the program or the folder", function()
    for detail, all in pairs({
      ["launch.fileName"] = { { argv = { "no-such-program-anywhere" } }, { argv = { "/etc" }, cwd = "/" } },
      ["launch.workingDirectory"] = { { argv = { "true" }, cwd = "/no/such/folder" }, { argv = { "true" }, cwd = "/etc/passwd" } },
    }) do
      for _, options in ipairs(all) do
        options.console, options.owned = "log", true
        local started, err = launch.start(options)
        assert.is_nil(started)
        assert.equal("InvalidArgument", err.kind)
        assert.equal(detail, err.detail)
      end
    end
  end)

  it("refuses a program whose diagnostics are switched off", function()
    local _, err = start("exit 0", { env = { DOTNET_EnableDiagnostics_IPC = "0" } })
    assert.equal("EndpointUnavailable", err.kind)
    assert.equal("DOTNET_EnableDiagnostics_IPC", err.detail)
  end)

  it("puts its port before those of the environment, and takes a second suspension away", function()
    local _, err = start("echo $DOTNET_DiagnosticPorts; echo .$DOTNET_DefaultDiagnosticPortSuspend.; pwd; exit 1",
      { env = { DOTNET_DiagnosticPorts = "/x/y,nosuspend", DOTNET_DefaultDiagnosticPortSuspend = "1" }, cwd = "/proc" })
    assert.matches("/lunette%-port%-%w+/port,suspend;/x/y,nosuspend | %.%. | /proc$", err.message)
  end)

  it("keeps the server's own tokens from a program that it launches", function()
    local script = os.tmpname()
    local file = assert(io.open(script, "w"))
    file:write([[local _, err = require("lunette.launch").start { argv = { "sh", "-c", "env; exit 1" }, console = "log", owned = true,
      env = { GIVEN = "as asked" } }
      return 0]])
    file:close()
    local done = loop.exec {
      argv = {
        "env", "MCP_BEARER_TOKEN=kept-one", "Auth__BearerTokens__0__Token=kept-two", "OTHER=passed", fs.realpath("/proc/self/exe"), "lua",
        script,
      },
      timeout_ms = 20000,
    }
    os.remove(script)
    assert.equal(0, done.code)
    assert.matches("GIVEN=as asked", done.stderr)
    assert.matches("OTHER=passed", done.stderr)
    assert.not_matches("kept%-", done.stderr)
    assert.not_matches("BEARER_TOKEN=", done.stderr)
  end)

  it("knows a command of the SDK, which starts the program as another process", function()
    assert.is_true(launch.is_sdk_command({ "/usr/bin/dotnet", "run", "--", "x" }))
    assert.is_false(launch.is_sdk_command({ "dotnet", "app.dll", "run" }))
    assert.is_false(launch.is_sdk_command({ "dotnet", "build" }))
    assert.is_false(launch.is_sdk_command({ "dotnet" }))
    assert.is_false(launch.is_sdk_command({ "./app", "run" }))
  end)

  it("leaves no child and no socket when its task is cancelled half-way", function()
    local before, file = ports(), os.tmpname()
    local task = loop.spawn(start, "echo $$ > " .. file .. "; exec sleep 60", { connect_s = 60 })
    local pid
    while not pid do
      assert(loop.sleep_ms(5))
      pid = math.tointeger(tonumber(fs.read(file, 100)))
    end
    task:cancel("the caller went away")
    local started, err = task:await(5000)
    assert.is_nil(started)
    assert.equal("Cancelled", err.kind)
    assert.is_true(ended(pid))
    assert.equal(before, ports())
    os.remove(file)
  end)
end)
