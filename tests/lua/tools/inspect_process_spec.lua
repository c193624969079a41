-- SPDX-License-Identifier: MIT
-- inspect_process through the framework: arguments, scopes, envelope, sizes. The views have specs of their own.
local fake = require("support.fake_machine")
local fs = require("lunette.fs")
local json = require("lunette.json")
local kit = require("support.framework_kit")
local schema = require("lunette.schema")
local sys = require("lunette.sys")
local validate = require("lunette.validate")

local VIEWS <const> = {
  "list", "info", "capabilities", "container", "memory_trend", "runtime-config", "resources", "requests-now", "triage", "preflight",
}
local MEMBER <const> = {
  list = "list", info = "info", capabilities = "capabilities", container = "container", memory_trend = "memoryTrend",
  resources = "resources", preflight = "preflight",
}

local function load_tool(processes)
  local machine = fake.new { processes = processes or { fake.process { pid = 42 } } }
  local path = sys.home .. "/lua/tools/inspect_process.lua"
  local tool = assert(load(assert(fs.read(path, 1 << 20)), "@" .. path, "t"))()
  require("views.process.capabilities").PROBE_MS = 20
  local resources = require("views.process.resources")
  resources.PROBE_SECONDS, resources.INTERVAL_SECONDS = 0.02, 0.01
  return tool, machine
end

-- Calls a view; the answer's data must fit its record.
local function call(tool, arguments, scopes)
  local envelope, result = kit.call(tool, arguments, kit.ctx { scopes = scopes })
  if envelope.data then
    assert(schema.load_records(sys.home .. "/schemas/records.json"))
    local ok, faults = validate.check(envelope, schema.output(tool))
    assert.is_true(ok, ok and "" or table.concat(faults, "; "))
  end
  return envelope, result
end

describe("inspect_process", function()
  it("`view` absent is list", function()
    assert.equal("list", call((load_tool())).data.view)
  end)

  it("Unknown view: InvalidArgument, detail `view`, message with the accepted values and the nearest one", function()
    local answer, result = call(load_tool(), { view = "memory-trend" })
    assert.same({ "InvalidArgument", "view" }, { answer.error.kind, answer.error.detail })
    for _, view in ipairs(VIEWS) do assert.is_truthy(answer.error.message:find(view, 1, true), view) end
    assert.matches('Did you mean "memory_trend"', answer.error.message)
    assert.is_nil(result.isError)
  end)

  it("Each successful answer fills exactly one view member of data, the one that `view` asked for", function()
    local tool = load_tool()
    for view, member in pairs(MEMBER) do
      local seconds = view == "memory_trend" and 2 or nil
      local answer = call(tool, { view = view, processId = 42, durationSeconds = seconds, sampleEverySeconds = 1 })
      assert.is_nil(answer.error, view)
      local members = {}
      for name in pairs(answer.data) do
        if name ~= "view" then members[#members + 1] = name end
      end
      assert.same({ view, { member } }, { answer.data.view, members })
    end
  end)

  it("resolvedProcess is on every success against a live process; autoResolved only without a pid", function()
    local tool = load_tool()
    for _, view in ipairs { "info", "capabilities", "container", "resources" } do
      local given, found = call(tool, { view = view, processId = 42 }), call(tool, { view = view })
      assert.same({ 42, false, "explicit" }, {
        given.resolvedProcess.processId, given.resolvedProcess.autoResolved, given.resolvedProcess.bindingSource }, view)
      assert.same({ 42, true, "local-auto" }, {
        found.resolvedProcess.processId, found.resolvedProcess.autoResolved, found.resolvedProcess.bindingSource }, view)
    end
    assert.is_nil(call(tool, { view = "list" }).resolvedProcess)
  end)

  it("A bearer with only read-counters gets every view but runtime-config and requests-now", function()
    local tool = load_tool()
    for view in pairs(MEMBER) do
      local answer = call(tool, { view = view, processId = 42, durationSeconds = view == "memory_trend" and 2 or nil }, { "read-counters" })
      assert.is_nil(answer.error, view)
    end
    for _, view in ipairs { "runtime-config", "requests-now" } do
      local answer, result = call(tool, { view = view, processId = 42 }, { "read-counters" })
      assert.same({ "PermissionDenied", "ptrace", true }, { answer.error.kind, answer.error.detail, result.isError })
    end
  end)

  it("A bearer with only ptrace gets runtime-config and requests-now and is refused the others with PermissionDenied", function()
    local tool, machine = load_tool()
    for _, view in ipairs(VIEWS) do
      local answer, result = call(tool, { view = view, processId = 42 }, { "ptrace" })
      if view == "runtime-config" or view == "requests-now" then
        assert.is_nil(answer.error)
        assert.truthy(answer.safetyApproval) -- it attaches: that is acknowledged first
        assert.is_nil(result.isError)
      else
        assert.same({ "PermissionDenied", "read-counters", true }, { answer.error.kind, answer.error.detail, result.isError }, view)
      end
    end
    assert.same({ 0, 0 }, { machine.discoveries, #machine.sessions })
  end)

  it("runtime-config without the ptrace scope is refused before any attach", function()
    local tool, machine = load_tool()
    call(tool, { view = "runtime-config", processId = 42 }, { "read-counters" })
    assert.same({}, machine.reads)
  end)

  it("a bearer with neither scope is refused at the gate", function()
    local answer, result = call(load_tool(), {}, { "heap-read" })
    assert.same({ "PermissionDenied", true }, { answer.error.kind, result.isError })
  end)

  it("list needs no processId and ignores one that is given", function()
    for _, pid in ipairs { 42, 999999, 0 } do
      local answer = call(load_tool(), { view = "list", processId = pid })
      assert.equal(42, answer.data.list[1].processId)
    end
  end)

  it("No .NET process: NoDotnetProcessFound. Two and no pid: AmbiguousDotnetProcess with candidates in detail", function()
    local none = call(load_tool {}, { view = "info" })
    assert.equal("NoDotnetProcessFound", none.error.kind)
    assert.same({ view = "list" }, none.hints[1].suggestedArguments)
    local two = call(load_tool { fake.process { pid = 42 }, fake.process { pid = 43 } }, { view = "container" })
    assert.equal("AmbiguousDotnetProcess", two.error.kind)
    assert.same({ 42, 43 }, { two.error.detail.candidates[1].processId, two.error.detail.candidates[2].processId })
  end)

  it("durationSeconds below 2 or sampleEverySeconds below 1 is InvalidArgument for memory_trend", function()
    local tool = load_tool()
    for name, value in pairs { durationSeconds = 1, sampleEverySeconds = 0 } do
      local answer = call(tool, { view = "memory_trend", processId = 42, [name] = value })
      assert.same({ "InvalidArgument", name }, { answer.error.kind, answer.error.detail })
    end
  end)

  it("durationSeconds 0 is one snapshot of resources, 1 is InvalidArgument; 0 is InvalidArgument for triage", function()
    local tool = load_tool()
    assert.is_nil(call(tool, { view = "resources", processId = 42, durationSeconds = 0 }).data.resources.trend)
    local answer = call(tool, { view = "resources", processId = 42, durationSeconds = 1 })
    assert.same({ "InvalidArgument", "durationSeconds" }, { answer.error.kind, answer.error.detail })
    answer = call(tool, { view = "triage", processId = 42, durationSeconds = 0 })
    assert.same({ "InvalidArgument", "durationSeconds" }, { answer.error.kind, answer.error.detail })
  end)

  it("a parameter of another view is ignored, not refused", function()
    local answer = call(load_tool(), { view = "list", durationSeconds = 0, sampleEverySeconds = 0, depth = "nonsense" })
    assert.is_nil(answer.error)
  end)

  it("a process of which nothing can be said keeps its kind of error", function()
    local native = fake.process { pid = 7 }
    native.runtime = nil
    local tool = load_tool { native, fake.process { pid = 8, state = "unreachable", message = "no answer", hint = "wait" } }
    for _, view in ipairs { "capabilities", "container" } do
      assert.equal("NotADotnetProcess", call(tool, { view = view, processId = 7 }).error.kind)
      assert.equal("ProcessNotFound", call(tool, { view = view, processId = 99 }).error.kind)
      assert.equal("EndpointUnavailable", call(tool, { view = view, processId = 8 }).error.kind)
    end
    assert.equal("ProcessNotFound", call(tool, { view = "memory_trend", processId = 99, durationSeconds = 2 }).error.kind)
  end)

  it("stays within 16 KB however many processes there are, and says what was cut", function()
    local many = {}
    for i = 1, 300 do many[i] = fake.process { pid = 1000 + i } end
    local answer, result = call((load_tool(many)))
    assert.is_true(#result.content[1].text <= 16 * 1024)
    assert.matches("Cut to fit: list %(%d+ of 300 rows%)", answer.summary)
  end)

  it("names processes out of reach in notes beside the list", function()
    local tool = load_tool { fake.process { pid = 8, state = "unreachable", cause = "tmpdir", message = "m", hint = "h" } }
    local answer = call(tool)
    assert.same({ "Not reachable: process 8 (tmpdir): m; h" }, { table.unpack(answer.data.notes) })
  end)

  it("nulls stay off the wire", function()
    local body = select(2, load_tool():invoke(kit.ctx {}, { view = "container", processId = 42 }))
    assert.is_nil(body:find("null", 1, true))
    assert.is_truthy(json.decode(body))
  end)
end)
