-- SPDX-License-Identifier: MIT
-- startup: from a recording with known contents to its rows; who may launch; what a launch refuses.
local asked = require("support.asked")
local collect_events = require("tools.collect_events")
local config = require("lunette.config")
local kit = require("support.framework_kit")
local rows = require("collectors.startup.rows")
local startup = require("collectors.startup")
local sys = require("lunette.sys")

local SERVICES <const> = sys.home .. "/tests/data/recordings/services.nettrace"
local ALLOWED <const> = { "Diagnostics__AllowProcessLaunch=true" }

local function recorded(depth, path)
  local data, extras = startup.run({ transport = "cli", progress = function() end },
    { traceFilePath = path or SERVICES, depth = depth, durationSeconds = 10 })
  return assert(data, extras), extras
end

local function joined(notes) return table.concat(notes, "\n") end

describe("collectors.startup, from a recording", function()
  it("counts what was loaded and resolved", function()
    local data, extras = recorded("Detail")
    asked.fits(data, "StartupSnapshot")
    assert.equal(9, data.assemblyLoadCount)
    assert.equal(9, data.moduleLoadCount)
    assert.same({
      ServiceProviderBuilt = 1, ServiceProviderDescriptors = 1, -- in two chunks, which are one event
      CallSiteBuilt = 16, ServiceResolved = 31, DynamicMethodBuilt = 10, ScopeDisposed = 2,
    }, data.diEventCounts)
    assert.equal(61, data.diEventCount)
    assert.equal(61, #data.diEvents)
    assert.is_false(data.launched)
    assert.equal("trace", extras.handle.origin)
    assert.matches("9 assemblies and 9 modules loaded, 61 DependencyInjection events %(1 container with 60 services%)", extras.summary)
  end)

  it("says of a recording without loads that they may not have been recorded", function()
    local notes = joined(recorded("Summary", sys.home .. "/tests/data/recordings/gcs.nettrace").notes)
    assert.matches("NotInRecording: the recording has no load of an assembly or module", notes, 1, true)
    assert.matches("NoDependencyInjection: .*or that source was not recorded", notes)
  end)

  it("tells the services of a container", function()
    local provider = recorded("Detail").serviceProviders[1]
    assert.same({ 60, 10, 20, 30, 60, 0 }, {
      provider.services, provider.singletonServices, provider.scopedServices, provider.transientServices, provider.closedGenericsServices,
      provider.openGenericsServices,
    })
  end)

  it("gives an assembly the path of its module", function()
    for _, row in ipairs(recorded("Detail").assemblies) do
      assert.equal("AssemblyLoad", row.eventName)
      local simple = row.name:match("^[^,]+")
      assert.equal(simple .. ".dll", row.path:match("[^/]+$"))
    end
  end)

  it("merges all lists in order of time", function()
    local timeline = recorded("Detail").timeline
    assert.equal(79, #timeline)
    local by_category = {}
    for i, entry in ipairs(timeline) do
      assert.is_true(i == 1 or timeline[i - 1].timestamp <= entry.timestamp)
      by_category[entry.category] = (by_category[entry.category] or 0) + 1
    end
    assert.same({ assembly = 9, module = 9, di = 61 }, by_category)
  end)

  it("drops the lists at Summary, and says where they are", function()
    local data = recorded("Summary")
    asked.fits(data, "StartupSnapshot")
    assert.same({ 9, 9, 10, 0 }, { #data.assemblies, #data.modules, #data.diEvents, #data.timeline })
    assert.matches("Inline: the first 10", joined(data.notes))
  end)

  it("always says what an attach misses, and that static constructors are not told", function()
    for _, depth in ipairs({ "Summary", "Detail", "Raw" }) do
      local notes = joined(recorded(depth).notes)
      assert.matches("PreAttach:", notes)
      assert.matches("StaticConstructors:", notes)
      assert.matches("ContainersToldAgain:", notes)
    end
  end)
end)

describe("collectors.startup, the views", function()
  local artifact
  before_each(function()
    local _, extras = recorded("Summary")
    artifact = extras.handle.artifact
  end)

  it("lists each kind in order of time, topN of it", function()
    for name, total in pairs({ assemblies = 9, modules = 9, di = 61, timeline = 79 }) do
      local payload = asked.view("startup-snapshot", artifact, name, { topN = 100 })
      assert.equal(total, payload.returned)
      assert.equal(total, #payload[name])
      local few, envelope = asked.view("startup-snapshot", artifact, name, { topN = 3 })
      assert.equal(3, few.returned)
      assert.matches("^3 of " .. total, envelope.summary)
    end
  end)

  it("the summary has counts, first loads and the notes", function()
    local payload = asked.view("startup-snapshot", artifact, "summary", { topN = 2 })
    assert.same({ 9, 9, 61, 2, 2 }, {
      payload.assemblyLoadCount, payload.moduleLoadCount, payload.diEventCount, #payload.topAssemblies, #payload.topModules,
    })
    assert.matches("^00:00:00%.%d+$", payload.diActivitySpan)
    assert.matches("PreAttach:", joined(payload.notes))
  end)

  it("a window in which nothing happened is no error", function()
    local empty = {
      process_id = 1, started_unix_ms = 0, duration_ms = 1000, launched = false, assembly_count = 0, module_count = 0, di_count = 0,
      di_counts = {}, assemblies = {}, modules = {}, di = {}, containers = {}, notes = {}, origin = "trace",
    }
    assert.equal(0, asked.view("startup-snapshot", empty, "timeline").returned)
    assert.is_nil(asked.view("startup-snapshot", empty, "summary").diActivitySpan)
  end)

  it("writes times with the digits of a tick", function()
    assert.equal("2026-11-30T10:05:51.1234567Z", rows.timestamp(1796033151123456789))
    assert.equal("1970-01-01T00:00:00.0000001Z", rows.timestamp(100))
  end)
end)

describe("collectors.startup, launch", function()
  local function call(arguments, transport, variables)
    config.use(config.load({ environ = variables or {} }))
    local ctx = kit.ctx()
    ctx.transport = transport
    arguments.kind = arguments.kind or "startup"
    local envelope = kit.call(collect_events, arguments, ctx)
    config.use(nil)
    return envelope
  end
  local function kind_of(envelope) return envelope.error and envelope.error.kind, envelope.error and envelope.error.detail end
  local TRUE <const> = { fileName = "/bin/true" }

  it("works over stdio only", function()
    assert.equal("NotSupported", (kind_of(call({ launch = TRUE }, "http", ALLOWED))))
  end)

  it("must be allowed by the operator", function()
    local kind, detail = kind_of(call({ launch = TRUE }, "stdio"))
    assert.same({ "ProcessLaunchDisabled", "Diagnostics:AllowProcessLaunch" }, { kind, detail })
  end)

  it("is a critical call: nothing is started before somebody agrees", function()
    local envelope = call({ launch = { fileName = "/bin/sh", arguments = { "-c", "echo started >&2; exit 1" } } }, "stdio", ALLOWED)
    assert.equal("critical", envelope.safety.riskLevel)
    assert.is_nil(envelope.data)
    assert.not_equal("ProcessExited", (kind_of(envelope)))
  end)

  it("excludes processId and traceFilePath, and belongs to this kind", function()
    assert.equal("InvalidArgument", (kind_of(call({ launch = TRUE, traceFilePath = "x.nettrace" }, "stdio", ALLOWED))))
    assert.equal("InvalidArgument", (kind_of(call({ launch = TRUE, processId = 1 }, "stdio", ALLOWED))))
    assert.equal("InvalidArgument", (kind_of(call({ launch = TRUE, kind = "jit" }, "stdio", ALLOWED))))
  end)

  it("refuses what cannot be passed to a program", function()
    local bad = {
      fileName = { { fileName = "" }, { fileName = "a\0b" } }, arguments = { { fileName = "x", arguments = { "a\0b" } } },
      workingDirectory = { { fileName = "x", workingDirectory = "a\0b" } },
      environmentVariables = {
        { fileName = "x", environmentVariables = { ["A=B"] = "1" } }, { fileName = "x", environmentVariables = { A = 1 } },
        { fileName = "x", environmentVariables = { A = "a\0b" } },
      },
      connectTimeoutSeconds = { { fileName = "x", connectTimeoutSeconds = 301 }, { fileName = "x", connectTimeoutSeconds = 0 } },
    }
    for name, specs in pairs(bad) do
      for _, spec in ipairs(specs) do
        local kind, detail = kind_of(call({ launch = spec }, "stdio", ALLOWED))
        assert.equal("InvalidArgument", kind)
        assert.matches(spec.connectTimeoutSeconds == 0 and "^launch" or "^launch%." .. name, detail)
      end
    end
  end)
end)

describe("collectors.startup.program", function()
  local program = require("collectors.startup.program")
  local EMPTY <const> = { rows = {}, seen = 0 }

  --- A result as probe.run gives it; `kept` replaces what is empty.
  local function result(kept)
    local r = {
      di = { rows = {} }, di_time = { n = 0 }, assemblies = EMPTY, modules = EMPTY, ServiceProviderDescriptors_more = 0,
      CallSiteBuilt_more = 0,
    }
    for _, name in ipairs({
      "ServiceProviderBuilt", "ServiceProviderDescriptors", "CallSiteBuilt", "ServiceResolved", "ExpressionTreeGenerated",
      "DynamicMethodBuilt",
      "ScopeDisposed", "ServiceRealizationFailed",
    }) do r[name] = EMPTY end
    for name, value in pairs(kept) do r[name] = value end
    return r
  end

  it("merges many events by time, and keeps the first of them", function()
    local resolved, built = {}, {}
    for i = 1, program.MAX_DI do
      resolved[i] = { at = 10 * i, service = "S" .. i }
      built[i] = { at = 10 * i - 5, service = "S" .. i }
    end
    local artifact = program.artifact(result {
      ServiceResolved = { rows = resolved, seen = 50000 }, CallSiteBuilt = { rows = built, seen = program.MAX_DI },
      di = { rows = { { key = "ServiceResolved", n = 50000 }, { key = "CallSiteBuilt", n = program.MAX_DI + 20 } } },
      CallSiteBuilt_more = 20, di_time = { n = 60020, min = 5, max = 500000 },
    })
    assert.equal(program.MAX_DI, #artifact.di)
    assert.same({ "CallSiteBuilt", "ServiceResolved", "CallSiteBuilt" },
      { artifact.di[1].event, artifact.di[2].event, artifact.di[3].event })
    for i = 2, #artifact.di do assert.is_true(artifact.di[i - 1].unix_ns <= artifact.di[i].unix_ns) end
    assert.same({ ServiceResolved = 50000, CallSiteBuilt = program.MAX_DI }, artifact.di_counts)
    assert.equal(50000 + program.MAX_DI, artifact.di_count)
  end)

  it("has names for what comes without one", function()
    local artifact = program.artifact(result {
      assemblies = { rows = { { at = 1, event = "Loader/AssemblyLoad", id = 7 } }, seen = 1 },
      modules = { rows = { { at = 2, event = "Loader/ModuleLoad", path = "", id = 7 } }, seen = 1 },
      ServiceRealizationFailed = { rows = { { at = 3, failure = "no constructor" } }, seen = 1 },
    })
    assert.same({ unix_ns = 1, event = "AssemblyLoad", name = "(unnamed)" }, artifact.assemblies[1])
    assert.same({ unix_ns = 2, event = "ModuleLoad", name = "(dynamic)" }, artifact.modules[1])
    assert.same({ unix_ns = 3, event = "ServiceRealizationFailed", detail = "no constructor" }, artifact.di[1])
  end)
end)
