-- SPDX-License-Identifier: MIT
-- lunette.process: discovery, resolution, and what is remembered.
local fake = require("support.fake_machine")
local sys = require("lunette.sys")

local function on(processes)
  local machine = fake.new { processes = processes }
  return machine:load("lunette.process"), machine
end

describe("lunette.process", function()
  it("leaves this very process out of the rows", function()
    local process = on { fake.process { pid = sys.pid }, fake.process { pid = 20 } }
    local rows = process.list()
    assert.equal(1, #rows)
    assert.equal(20, rows[1].processId)
  end)

  it("takes no process for .NET because of a socket that somebody else left behind under its pid", function()
    local process = on {
      fake.process { pid = 20, runtime = "unseen", state = "unreachable", cause = "stale-socket", message = "refused" },
      fake.process { pid = 21, state = "unreachable", cause = "stale-socket", message = "refused" },
    }
    local found = process.discover()
    assert.equal(1, #found.unreachable)
    assert.equal(21, found.unreachable[1].pid)
  end)

  it("gives the six facts as the runtime tells them, with the pid of this machine", function()
    local p = fake.process { pid = 20 }
    p.info.processId, p.info.runtimeVersion = 7, "10.0.1+abc"
    local process = on { p }
    assert.same({
      processId = 20, commandLine = "/usr/bin/dotnet /app/App.dll", operatingSystem = "linux", processArchitecture = "x64",
      runtimeVersion = "10.0.1", managedEntrypointAssemblyName = "App",
    }, process.list()[1])
  end)

  it("shows, and is searched by, a command line without its secrets", function()
    local p = fake.process { pid = 20 }
    p.info.commandLine = "/app/App --db-password hunter2 Server=a;Password=hunter2;"
    local process = on { p }
    assert.equal("/app/App --db-password <redacted:sensitive> Server=a;Password=<redacted:sensitive>;", process.list()[1].commandLine)
    assert.equal(0, #process.list("hunter2"))
    assert.equal(1, #process.list("--DB-password"))
  end)

  it("cuts a command line that is too long for an answer between characters", function()
    local p = fake.process { pid = 20 }
    p.info.commandLine = ("é"):rep(3000)
    local row = on({ p }).list()[1]
    assert.is_true(#row.commandLine <= 2048 and #row.commandLine > 2040)
    assert.is_truthy(utf8.len(row.commandLine))
    assert.equal("...", row.commandLine:sub(-3))
  end)

  it("says NoDotnetProcessFound when there is none, and names those out of reach with cause and cure", function()
    local process = on { fake.process {
      pid = 9, state = "unreachable", cause = "permission", message = "belongs to uid 7", hint = "run as uid 7",
    } }
    local target, err = process.resolve(fake.ctx(), nil)
    assert.is_nil(target)
    assert.equal("NoDotnetProcessFound", err.kind)
    assert.matches("process 9 %(permission%): belongs to uid 7; run as uid 7", err.message)
    assert.matches("PID namespace", err.detail)
  end)

  it("says AmbiguousDotnetProcess with the candidates in detail when there are two and no pid", function()
    local process = on { fake.process { pid = 20 }, fake.process { pid = 21 } }
    local _, err = process.resolve(fake.ctx(), 0)
    assert.equal("AmbiguousDotnetProcess", err.kind)
    assert.equal(2, #err.detail.candidates)
    assert.equal(21, err.detail.candidates[2].processId)
  end)

  it("lists at most 64 candidates and says so", function()
    local many = {}
    for i = 1, 70 do many[i] = fake.process { pid = 100 + i } end
    local _, err = on(many).resolve(fake.ctx(), nil)
    assert.equal(64, #err.detail.candidates)
    assert.matches("first 64", err.message)
  end)

  it("takes the lone process and marks it auto-resolved; the digest tells what it is", function()
    local process = on { fake.process { pid = 20, start_time = 4200 } }
    local target = assert(process.resolve(fake.ctx(), nil))
    assert.equal(20, target.pid)
    assert.equal(1700000042000, target.start_unix_ms)
    assert.same({
      processId = 20, runtime = "CoreClr", runtimeVersion = "10.0.1", canSampleCpu = true, canCollectGcDump = true, autoResolved = true,
      bindingSource = "local-auto",
    }, target.digest)
  end)

  it("marks a given pid as explicit; NativeAOT can neither be sampled by the runtime nor give a gcdump", function()
    local target = assert(on({ fake.process { pid = 20, runtime = "NativeAot" } }).resolve(fake.ctx(), 20))
    local digest = target.digest
    assert.same({ "NativeAot", false, false, false, "explicit" }, {
      digest.runtime, digest.canSampleCpu, digest.canCollectGcDump, digest.autoResolved, digest.bindingSource,
    })
  end)

  it("tells ProcessNotFound, NotADotnetProcess and EndpointUnavailable apart, and names cause and cure", function()
    local other = fake.process {
      pid = 30, state = "unreachable", cause = "permission", message = "the socket is for uid 7", hint = "be uid 7",
    }
    local slow = fake.process { pid = 31, no_answer = "Timeout" }
    local native = fake.process { pid = 32 }
    native.runtime = nil
    local process = on { other, slow, native }
    local function kind(pid)
      local _, err = process.resolve(fake.ctx(), pid)
      return err.kind, err.message, err.detail
    end
    assert.equal("ProcessNotFound", (kind(99)))
    assert.equal("NotADotnetProcess", (kind(32)))
    assert.same({ "EndpointUnavailable", "Process 30 cannot be reached: the socket is for uid 7; be uid 7.", "permission" },
      { kind(30) })
    assert.same({ "EndpointUnavailable", "Process 31 cannot be reached: no answer.", "Timeout" }, { kind(31) })
  end)

  it("takes any process of the machine where that is allowed", function()
    local native = fake.process { pid = 32 }
    native.runtime = nil
    local process = on { native }
    local target = assert(process.resolve(fake.ctx(), 32, { any = true }))
    assert.is_nil(target.endpoint)
    assert.equal("NotADotnetProcess", target.why_not.kind)
    assert.same({ "Unknown", false }, { target.digest.runtime, target.digest.canSampleCpu })
    local _, err = process.resolve(fake.ctx(), 33, { any = true })
    assert.equal("ProcessNotFound", err.kind)
  end)

  it("knows whose memory we may read", function()
    local process = on { fake.process { pid = 20, environ = { "A=1" } } }
    assert.same({ true, false, false, false }, { process.can_read(20), process.can_read(nil), process.can_read(0), process.can_read(99) })
  end)

  it("gives the kernel's samplers a .NET process without a socket that can be used, with why, and no other", function()
    local process = on {
      fake.process { pid = 20 },
      fake.process { pid = 21, runtime = "NativeAot", state = "unreachable", cause = "diagnostics-disabled", message = "switched off" },
    }
    assert.equal("App", process.without_socket({}, 20).record.managedEntrypointAssemblyName)
    local target = process.without_socket({}, 21)
    assert.same({ 21, "NativeAot", "EndpointUnavailable" }, { target.pid, target.digest.runtime, target.why_not.kind })
    assert.is_nil(target.record)
    local _, err = process.without_socket({}, 99)
    assert.equal("ProcessNotFound", err.kind)
    local native = fake.process { pid = 22 }
    native.runtime = nil
    _, err = on({ native }).without_socket({}, 22)
    assert.equal("NotADotnetProcess", err.kind)
  end)

  it("remembers by pid and start time, for a minute, and not without end", function()
    local process = on {}
    process.remember({ pid = 5, start_time = 1 }, "runtime", "CoreClr")
    assert.equal("CoreClr", process.recall({ pid = 5, start_time = 1 }, "runtime"))
    assert.is_nil(process.recall({ pid = 5, start_time = 2 }, "runtime")) -- the pid was reused
    process.CACHE_MS = -1
    process.remember({ pid = 6, start_time = 1 }, "runtime", "CoreClr")
    assert.is_nil(process.recall({ pid = 6, start_time = 1 }, "runtime"))
    process.CACHE_MS, process.CACHE_MAX = 60000, 3
    for pid = 10, 20 do process.remember({ pid = pid, start_time = 1 }, "x", pid) end
    local kept = 0
    for pid = 10, 20 do kept = kept + (process.recall({ pid = pid, start_time = 1 }, "x") and 1 or 0) end
    assert.is_true(kept <= 3 and kept >= 1)
  end)

  it("completes process ids by what was typed", function()
    local process = on { fake.process { pid = 20 }, fake.process { pid = 201 }, fake.process { pid = 33 } }
    assert.same({ "20", "201" }, process.complete(nil, "20"))
    assert.same({ "20", "201", "33" }, process.complete(nil, ""))
  end)
end)
