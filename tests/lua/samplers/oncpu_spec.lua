-- SPDX-License-Identifier: MIT
-- samplers.oncpu over a program that is no .NET at all: a shell that works, sampled by this kernel.
local kit = require("support.framework_kit")
local loop = require("lunette.loop")
local native = require("lunette.oncpu")
local oncpu = require("samplers.oncpu")
local proc = require("lunette.proc")
local sys = require("lunette.sys")

local function refused()
  local probe = proc.perf_probe(sys.pid)
  return not (probe and probe.cpu_clock.ok)
end

local function busy()
  local child = assert(loop.child { argv = { "/bin/sh", "-c", "while :; do :; done" }, stdout = "null", dies_with_us = true })
  return child, { process = { pid = child.pid, digest = { runtime = "NativeAot" } } }
end

describe("samplers.oncpu", function()
  it("samples a program while it runs, with a stack from its first function on", function()
    if refused() then pending("perf_event_open is refused here") return end
    local child <close>, source = busy()
    local artifact, phases = oncpu.run(kit.ctx(), source, { durationSeconds = 1 })
    assert.is_truthy(artifact, tostring(phases))
    assert.same({ "LinuxPerf", "OsOnCpuSamples" }, { artifact.evidence.backend, artifact.evidence.kind })
    local info, stats = artifact.info, artifact.sampling
    assert.is_true(info.samples > 20 and info.samples < 1300, info.samples)
    assert.same({ info.samples, 0, 0 }, { info.running, info.waiting, info.unknown })
    assert.same({ stats.samples, 1, 0 }, { info.samples, info.threads, stats.lost })
    assert.is_true(stats.broken * 20 <= stats.samples, stats.broken)
    local top = artifact.profile:top_methods { top = 3, rank_by = "inclusive" }
    assert.is_true(top[1].inclusive * 10 >= 9 * info.samples, top[1].method)
    assert.is_true(phases.window >= 1000 and phases.build >= 0 and phases.names <= phases.build)
    artifact.close()
    child:kill("KILL")
  end)

  it("says when the program ended within the window, and keeps what came before", function()
    if refused() then pending("perf_event_open is refused here") return end
    local child <close>, source = busy()
    local open = native.open
    native.open = function(options)
      local session, why = open(options)
      loop.timer(200, function() child:kill("KILL") end)
      return session, why
    end
    local artifact, err = oncpu.run(kit.ctx(), source, { durationSeconds = 30 })
    native.open = open
    assert.is_truthy(artifact, tostring(err))
    assert.matches("^ProcessEnded: the process ended %d", artifact.notes[1])
    assert.is_true(artifact.duration_ms < 20000)
    artifact.close()
  end)

  it("names what a capture's names are worth by its hottest methods", function()
    local function source_of(list)
      local rows, frames = {}, {}
      for i, f in ipairs(list) do rows[i], frames[i] = { frame = i, method = f[2] }, { kind = f[1] } end
      return oncpu.symbol_source { hotspots = rows, profile = { frame = function(_, n) return frames[n] end } }
    end
    assert.equal("ElfDemangled", source_of { { "managed", "A.B()" }, { "native", "start_thread" }, { "kernel", "schedule" } })
    assert.equal("Mixed", source_of { { "managed", "A.B()" }, { "native", "libcoreclr.so+0x1234" } })
    assert.equal("Stripped", source_of { { "native", "libcoreclr.so+0x1234" }, { "unresolved", "0x12" } })
    assert.equal("ElfMangled", source_of { { "native", "_ZN1a1bEv" } })
    assert.equal("Unknown", source_of {})
  end)

  it("fails for a process that is not there, in its own words", function()
    local nobody <const> = { process = { pid = 2147483000, digest = { runtime = "NativeAot" } } }
    local artifact, err = oncpu.run(kit.ctx(), nobody, { durationSeconds = 1 })
    assert.is_nil(artifact)
    assert.equal("ProcessNotFound", err.kind)
  end)
end)
