-- SPDX-License-Identifier: MIT
-- lunette doctor.
local fake = require("support.fake_machine")
local hits = require("lunette.hits")
local json = require("lunette.json")
local kit = require("support.site_kit")
local sys = require("lunette.sys")

local machine

local function run(given, ...)
  machine = fake.new(given):with_perf()
  local written, write, stderr, stale = {}, sys.write, io.stderr, hits.stale
  hits.stale = function() return given.stale or {} end
  local doctor = machine:load("cli.doctor")
  sys.write = function(text) written[#written + 1] = text end
  io.stderr = { write = function() end } -- luacheck: ignore
  local ok, code = pcall(doctor.main, { ... })
  sys.write, io.stderr, hits.stale = write, stderr, stale -- luacheck: ignore
  assert(ok, code)
  return code, table.concat(written)
end

local function restricted(changes)
  local h = fake.open_host()
  for name, value in pairs(changes) do h[name] = value end
  return h
end

describe("lunette doctor", function()
  after_each(function() machine:close() end)

  it("is content with a host on which everything works", function()
    local code, out = run {}
    assert.equal(0, code)
    assert.matches("overall: Ok\n$", out)
    assert.matches("ok       Live attach %(ptrace%) %[clrmd%-attach%]", out)
    assert.is_nil(out:find("fix:", 1, true))
  end)

  it("exits 0 when only optional collectors are degraded, with the fix", function()
    local ok <const> = { ok = true }
    local code, out = run { perf_probe = {
      cpu_clock = ok, hardware = ok, uprobe = ok, sched_switch = { ok = false, errno = 2, message = "No such file or directory" },
    } }
    assert.equal(0, code)
    assert.matches("DEGRADED Off%-CPU sampling", out)
    assert.matches("fix: mount %-t tracefs", out)
    assert.matches("overall: Degraded\n$", out)
  end)

  it("tells probes that a killed process left behind, and how they go", function()
    local code, out = run { stale = { "-:lunette_99_1/s0p0", "-:lunette_99_1/s0p1" } }
    assert.equal(0, code)
    assert.matches("DEGRADED Probes left behind %[stale%-probes%]\n%s+2 probes in tracefs", out)
    assert.matches("fix: sudo sh %-c 'for p in %-:lunette_99_1/s0p0 %-:lunette_99_1/s0p1; do", out)
    assert.matches("overall: Degraded\n$", out)
  end)

  it("tells that nothing confines the workers, where the kernel takes no filter", function()
    local code, out = run { confines = false }
    assert.equal(0, code)
    assert.matches("DEGRADED Confinement of workers %(seccomp%) %[worker%-confinement%]\n%s+this kernel takes no seccomp filter", out)
    assert.matches("fix: use a kernel with CONFIG_SECCOMP_FILTER", out)
    assert.matches("ok       Live attach %(ptrace%)[^\n]*\n[^\n]*; this kernel takes no seccomp filter from lunette", out)
    assert.matches("overall: Degraded\n$", out)
    code, out = run { confines = false, stale = { "-:lunette_99_1/s0p0" } }
    assert.equal(0, code)
    assert.matches("%[stale%-probes%].*%[worker%-confinement%]", out)
  end)

  it("exits 1 on a hard blocker, the most severe first", function()
    local code, out = run({ processes = { fake.process { pid = 42, uid = 7 } }, host = restricted { uid = 1000 } }, "42")
    assert.equal(1, code)
    assert.matches("^BLOCKED  Owner of the diagnostics socket", out)
    assert.matches("runAsUser: 7", out)
  end)

  it("writes the PreflightReport with --json", function()
    local code, out = run({ processes = { fake.process { pid = 42 } } }, "42", "--json")
    assert.equal(0, code)
    local report = assert(json.decode(out))
    assert.same({ 42, "linux", "Ok", 5 }, { report.processId, report.os, report.overall, #report.checks })
  end)

  it("names the processes out of reach when no process was given", function()
    local lost = fake.process { pid = 9, state = "unreachable", cause = "stale-socket", message = "m", hint = "h" }
    local _, out = run { processes = { lost } }
    assert.matches("process 9 %(stale%-socket%): m; h", out)
  end)

  it("exits 2 for what is no process id", function()
    for _, word in ipairs { "abc", "0", "-5", "99999999999", "1.5" } do assert.equal(2, (run({}, word))) end
    assert.equal(2, (run({}, "1", "2")))
  end)

  it("names broken site scripts with file, line and what serves instead", function()
    local dir = kit.folder()
    kit.write(dir, "tools/fine.lua", 'return tool { name = "fine", description = "d", run = function() return {} end }')
    kit.write(dir, "views/counters/summary.lua", "return view {\n")
    local code, out = run({ processes = { fake.process { pid = 42 } } }, "42", "--site", dir)
    assert.equal(0, code)
    assert.matches("DEGRADED Site scripts: 1 in use, 1 broken, 0 taken out; of ", out, 1, true)
    assert.matches(dir .. "/views/counters/summary.lua:2: ", out, 1, true)
    assert.matches(" (what lies beneath it serves instead)\n", out, 1, true)
    assert.matches("overall: Degraded\n$", out)
    local report = json.decode((select(2, run({ processes = { fake.process { pid = 42 } } }, "42", "--json", "--site", dir))))
    assert.same({ 1, 1, "Degraded" }, { report.scripts.loaded, report.scripts.broken, report.overall })
  end)

  it("tells of each mistake what was expected and what was probably meant, what is not looked at, and how to see all", function()
    local dir = kit.folder()
    kit.write(dir, "rules/a.lua", 'return rule {\n  name = "a.b", summary = "s", rationale = "r",\n  input = { counter = "X/y",\n'
      .. '    stat = "maen" },\n  levls = { elevated = 1 },\n}')
    kit.write(dir, "rule/b.lua", "")
    local _, out = run({ processes = { fake.process { pid = 42 } } }, "42", "--site", dir)
    assert.matches(dir .. '/rules/a.lua:4: input.stat: must be one of falls, first,', out, 1, true)
    assert.matches('got "maen". Did you mean "mean"? (it is left out)\n', out, 1, true)
    assert.matches(dir .. '/rules/a.lua:5: there is no field "levls" in a rule. Did you mean "levels"? (it is left out)\n', out, 1, true)
    assert.matches(dir .. '/rule: there is no room "rule". Did you mean "rules"?\n', out, 1, true)
    assert.matches("fix: lunette check DIR", out, 1, true)
    kit.write(dir, "rules/a.lua", 'return rule { name = "a.b", input = { counter = "X/y" }, levels = { elevated = 1 }, summary = "s",'
      .. ' rationale = "r" }')
    os.remove(dir .. "/rule/b.lua")
    os.remove(dir .. "/rule")
    _, out = run({ processes = { fake.process { pid = 42 } } }, "42", "--site", dir)
    assert.matches("ok       Site scripts: 1 in use, 0 broken", out, 1, true)
    assert.is_nil(out:find("lunette check", 1, true))
  end)
end)
