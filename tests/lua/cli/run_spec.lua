-- SPDX-License-Identifier: MIT
--- lunette run: what it understands, and programs that are no .NET program. With a runtime: tests/live/run_test.lua.
local fs = require("lunette.fs")
local loop = require("lunette.loop")
local run = require("cli.run")

local LUNETTE <const> = fs.realpath("/proc/self/exe")

local function lunette(...) return assert(loop.exec({ argv = { LUNETTE, "run", ... }, timeout_ms = 20000 })) end
local function sh(script) return assert(loop.exec({ argv = { "sh", "-c", script, LUNETTE }, timeout_ms = 20000 })) end

describe("cli.run.split", function()
  local function split(...)
    local own, command = run.split({ ... })
    return { table.concat(own, " "), table.concat(command, " ") }
  end

  it("gives the program all that follows its name", function()
    assert.same({ "", "app --collect x" }, split("app", "--collect", "x"))
    assert.same({ "--collect gc", "app -o y" }, split("--collect", "gc", "app", "-o", "y"))
    assert.same({ "--collect=gc --json", "app" }, split("--collect=gc", "--json", "app"))
    assert.same({ "-o file --with a=b", "app" }, split("-o", "file", "--with", "a=b", "--", "app"))
    assert.same({ "", "--odd name" }, split("--", "--odd", "name"))
    assert.same({ "--json", "" }, split("--json", "--"))
    assert.same({ "--collect", "" }, split("--collect"))
  end)
end)

describe("lunette run", function()
  it("says what it does not understand, and starts nothing", function()
    local mark = os.tmpname()
    os.remove(mark)
    for expected, args in pairs({
      ["what is to be run"] = {}, ["what is to be run%? "] = { "--", "" }, ["no option %-%-nope"] = { "--nope", "touch", mark },
      ["Did you mean \"startup\""] = { "--collect", "startupp", "touch", mark },
      ["nothing called"] = { "--collect", "replica_counters", "touch", mark },
      ["whole number of seconds"] = { "--duration", "1.5", "touch", mark },
      ["has no argument \"nope\""] = { "--collect", "gc", "--with", "nope=1", "touch", mark },
      ["maxEvents must be from 1"] = { "--collect", "gc", "--with", "maxEvents=0", "touch", mark },
      ["providerName is required"] = { "--collect", "event_source", "touch", mark },
      ["is no NAME=VALUE"] = { "--with", "depth", "touch", mark },
      ["processId is given by the command itself"] = { "--with", "processId=1", "touch", mark },
      ["takes no command"] = { "--resume", "1", "touch", mark }, ["takes the id of a process"] = { "--resume", "me" },
    }) do
      local r = lunette(table.unpack(args))
      assert.same({ 2, "" }, { r.code, r.stdout })
      assert.matches(expected, r.stderr)
    end
    assert.is_nil(fs.stat(mark))
  end)

  it("leaves the console to the program, and takes its exit code", function()
    local r = sh("echo typed | $0 run sh -c 'read x; echo out $x; echo err >&2; exit 5'")
    assert.same({ 5, "out typed\n" }, { r.code, r.stdout })
    assert.matches("^err\nlunette run: sh ended with exit code 5 before a .NET runtime connected.*nothing was observed\n$", r.stderr)
  end)

  it("tells a signal as shells do", function() assert.equal(143, lunette("sh", "-c", "kill -TERM $$").code) end)

  it("uses the shell's exit codes for what cannot be started", function()
    assert.equal(127, lunette("no-such-program-anywhere").code)
    assert.equal(126, lunette("/etc/passwd").code)
  end)

  it("starts the program with closed descriptors of ours", function()
    assert.equal(6, sh("$0 run sh -c 'exit 6' <&- >&- 2>&-").code)
  end)

  it("hands signals on, and waits for the program to deal with them", function()
    local out = os.tmpname()
    local r = sh(([[$0 run sh -c 'trap "echo told; exit 3" TERM; echo up; while :; do sleep 0.05; done' > FILE & p=$!
      while ! grep -q up FILE; do sleep 0.02; done; kill -TERM $p; wait $p; echo code $?; cat FILE]]):gsub("FILE", out))
    assert.equal("code 3\nup\ntold\n", r.stdout)
    os.remove(out)
  end)

  it("says that a process is no .NET process, or not there", function()
    local r = lunette("--resume", tostring(require("lunette.sys").pid))
    assert.equal(1, r.code)
    assert.matches("is not a .NET process", r.stderr)
    assert.matches("no process 2147483647", lunette("--resume", "2147483647").stderr)
  end)
end)
