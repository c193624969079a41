-- SPDX-License-Identifier: MIT
-- lunette ps.
local fake = require("support.fake_machine")
local json = require("lunette.json")
local sys = require("lunette.sys")

-- Runs the command; gives its exit code and what it wrote.
local function run(processes, ...)
  local machine = fake.new { processes = processes }
  local written, write = {}, sys.write
  local ps = machine:load("cli.ps")
  sys.write = function(text) written[#written + 1] = text end
  local ok, code = pcall(ps.main, { ... })
  sys.write = write
  assert(ok, code)
  return code, table.concat(written), ps
end

local function named(pid, command_line)
  local p = fake.process { pid = pid }
  p.info.commandLine = command_line
  return p
end

describe("lunette ps", function()
  it("shows a row a process, with what the kernel says of it", function()
    local code, out = run { named(20, "/app/a.dll --x"), fake.process { pid = 4242, threads = 123 } }
    assert.equal(0, code)
    local lines = {}
    for line in out:gmatch("[^\n]+") do lines[#lines + 1] = line end
    assert.equal(3, #lines)
    assert.equal(" PID  VERSION  PROGRAM       RSS  CPU%  THR  CONT  COMMAND LINE", lines[1])
    assert.equal("  20  10.0.1   App      100.0 MB   1.7   10  yes   /app/a.dll --x", lines[2])
    assert.equal("4242  10.0.1   App      100.0 MB   1.7  123  yes   /usr/bin/dotnet /app/App.dll", lines[3])
  end)

  it("names those out of reach, with cause and cure", function()
    local code, out = run { fake.process {
      pid = 9, state = "unreachable", cause = "permission", message = "belongs to uid 7", hint = "be uid 7",
    } }
    assert.equal(0, code)
    assert.equal("No .NET process can be reached.\n\nSeen but out of reach (1):\n"
      .. "  9  permission: belongs to uid 7\n      do: be uid 7\n", out)
  end)

  it("filters in any letter case and says when nothing matches", function()
    local two = { named(20, "/app/MyApi.dll"), named(21, "/app/other.dll") }
    local _, out = run(two, "--filter", "MYAPI")
    assert.is_truthy(out:find("MyApi.dll", 1, true))
    assert.is_nil(out:find("other.dll", 1, true))
    _, out = run(two, "--filter=zzz")
    assert.matches('command line contains "zzz" %(2 without the filter%)', out)
  end)

  it("writes one JSON object with --json", function()
    local code, out = run({
      named(20, "/app/a.dll"), fake.process { pid = 9, state = "unreachable", cause = "tmpdir", message = "m", hint = "h" },
    }, "--json")
    assert.equal(0, code)
    local all = assert(json.decode(out))
    assert.same({ 20, 104857600, 1.7, 10, true }, {
      all.processes[1].processId, all.processes[1].rssBytes, all.processes[1].cpuPercent, all.processes[1].threads,
      all.processes[1].inContainer,
    })
    assert.same({ 9, "tmpdir", "m", "h" }, {
      all.unreachable[1].processId, all.unreachable[1].cause, all.unreachable[1].message, all.unreachable[1].hint })
  end)

  it("lets no target write escape codes to the terminal", function()
    local _, out = run { named(20, "/app/a\27]0;title\7\n\u{9b}31mx") }
    assert.is_truthy(out:find("/app/a?]0;title???31mx", 1, true))
    assert.is_nil(out:find("[\27\7]"))
  end)

  it("cuts the command line at the terminal's width, by characters", function()
    local _, _, ps = run {}
    local row = { processId = 1, runtimeVersion = "1", threads = 1, commandLine = ("é"):rep(200) }
    local line = ps.render({ row }, 80):match("\n(.-)\n")
    assert.equal(80, utf8.len(line))
    assert.equal("…", line:sub(-3))
  end)

  it("measures CPU over the life of the process; a newborn has none", function()
    local _, _, ps = run {}
    local clock = { uptime_ms = 20000, ticks_per_s = 100 }
    assert.equal(50, ps.cpu_percent({ start_time = 1000, user_ticks = 400, system_ticks = 100 }, clock))
    assert.is_nil(ps.cpu_percent({ start_time = 1999, user_ticks = 1, system_ticks = 0 }, clock))
  end)

  it("refuses what it does not know with exit code 2", function()
    local stderr = io.stderr
    io.stderr = { write = function() end } -- luacheck: ignore
    local unknown, operand = run({}, "--jsn"), run({}, "extra")
    io.stderr = stderr -- luacheck: ignore
    assert.same({ 2, 2 }, { unknown, operand })
  end)
end)
