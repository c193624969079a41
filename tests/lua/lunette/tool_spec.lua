-- SPDX-License-Identifier: MIT
local errors = require("lunette.errors")
local handles = require("lunette.handles")
local hints = require("lunette.hints")
local json = require("lunette.json")
local kit = require("support.framework_kit")
local tool = require("lunette.tool")

-- A tool with a branch of every level; `ran` counts what was done.
local function sample(overrides)
  local ran = { n = 0 }
  local function run(_, args)
    ran.n = ran.n + 1
    ran.args = args
    return { n = args.n }, { summary = "Done.", hints = { hints.new("sample", "Again.") } }
  end
  local declared = {
    name = "sample", title = "Sample", description = "A tool of the specs.", scopes = { list = { "read-counters", "ptrace" },
      semantics = "any" },
    params = {
      { "view", "string", enum = { "low", "moderate", "high", "critical", "later", "broken" }, default = "low" }, tool.process_id(),
      { "n", "int", default = 3, min = 1 }, tool.depth(),
    },
    discriminator = "view",
    branches = {
      low = { risk = "low", scopes = { "read-counters" }, data_field = "low", run = run },
      moderate = { risk = { level = "moderate", reason = "May show content.", side_effects = { "loads a provider" } },
        data_field = "moderate", run = run },
      high = { risk = { level = "high", reason = "Stops the target." }, scopes = { "ptrace" }, data_field = "high", run = run },
      critical = { risk = "critical", data_field = "critical", run = run },
      later = { risk = "low", missing = "nobody wrote it yet" },
      broken = { risk = "low", run = function() error("boom") end },
    },
  }
  for k, v in pairs(overrides or {}) do declared[k] = v end
  return tool(declared), ran
end

describe("envelope and safety #unit", function()
  it("every answer has summary, hints and cancelled; null members are absent", function()
    local e = kit.call((sample()))
    assert.equal("Done.", e.summary)
    assert.equal("sample", e.hints[1].nextTool)
    assert.is_false(e.cancelled)
    assert.same({ view = "low", low = { n = 3 } }, e.data)
    for _, name in ipairs({ "error", "handle", "handleExpiresAt", "signals", "safetyWarnings", "safetyApproval", "resolvedProcess" }) do
      assert.is_nil(e[name], name)
    end
  end)

  it("hint priority is high, normal or low", function()
    assert.equal("normal", hints.new("t", "r").priority)
    assert.equal("low", hints.new("t", "r", nil, "low").priority)
    assert.has_error(function() hints.new("t", "r", nil, "urgent") end)
  end)

  it("signals are absent when nothing stands out, else sorted by salience in 0..1, bounded, and their buckets refer to a handle", function()
    local list = {}
    for i = 1, 12 do list[i] = { signal = "s" .. i, summary = "x", salience = i / 10, buckets = { { key = "k", magnitude = 1,
      unit = "u" } } } end
    local handle = handles.put({ kind = "counters", artifact = {}, origin = "trace" })
    local t = tool({ name = "t", description = "d", risk = "low", run = function() return {}, { summary = "s", signals = list,
      handle = handle } end })
    local e = kit.call(t)
    assert.equal(8, #e.signals)
    for i = 2, #e.signals do assert.is_true(e.signals[i - 1].salience >= e.signals[i].salience) end
    assert.equal(1, e.signals[1].salience)
    assert.equal(handle.id, e.signals[1].buckets[1].handle)
    assert.equal(handle.id, e.handle)
    assert.is_nil(kit.call(tool({ name = "t", description = "d", risk = "low", run = function() return {}, { summary = "s",
      signals = {} } end })).signals)
    handles.invalidate(handle.id)
  end)

  it("safety is on every answer; low carries no warnings, moderate runs with safetyWarnings", function()
    local t, ran = sample()
    local e = kit.call(t, { view = "low" })
    assert.equal("low", e.safety.riskLevel)
    assert.is_nil(e.safetyWarnings)
    e = kit.call(t, { view = "moderate" })
    assert.equal(2, ran.n)
    assert.same({ "May show content.", "Side effect: loads a provider" }, { table.unpack(e.safetyWarnings) })
    assert.equal("none", e.safety.approvalPolicy)
    for _, arguments in ipairs({ { view = "nonsense" }, { n = 0 }, { x = 1 }, { view = "later" }, { view = "broken" } }) do
      assert.is_string(kit.call(t, arguments).safety.riskLevel)
    end
  end)

  it("high call without acknowledgement: safetyApproval, no error, no data, nothing done", function()
    local t, ran = sample()
    local e, result = kit.call(t, { view = "high", n = 5 })
    assert.equal(0, ran.n)
    assert.is_nil(e.error)
    assert.is_nil(e.data)
    assert.is_nil(result.isError)
    local ack = e.safetyApproval.requiredAcknowledgement
    assert.equal("sample/high", ack.operation)
    assert.same({ view = "high", n = 5 }, ack.arguments)
    assert.same(e.safety, ack.descriptor)
    assert.equal(1, #e.hints)
    assert.equal("sample", e.hints[1].nextTool)
    assert.same(ack, e.hints[1].suggestedArguments._dotnetDiagnostics.acknowledgement)
  end)

  it("the same call with the copied acknowledgement runs", function()
    local t, ran = sample()
    local preview = kit.call(t, { view = "high", n = "5" })
    local e = kit.call(t, preview.hints[1].suggestedArguments)
    assert.equal(1, ran.n)
    assert.same({ view = "high", high = { n = 5 } }, e.data)
    assert.is_nil(e.safetyApproval)
  end)

  it("a changed argument, or an edited descriptor, makes the acknowledgement void", function()
    local t, ran = sample()
    local function copy() return kit.call(t, { view = "high", n = 5 }).hints[1].suggestedArguments end
    local changed = {}
    for i = 1, 6 do changed[i] = copy() end
    local function ack(i) return changed[i]._dotnetDiagnostics.acknowledgement end
    changed[1].n = 6
    changed[2].processId = 1
    ack(3).descriptor.riskLevel = "low"
    ack(4).operation = "sample/low"
    ack(5).arguments.n = 6
    ack(6).descriptor.mitigations = json.array({ "none" })
    for i, arguments in ipairs(changed) do assert.is_table(kit.call(t, arguments).safetyApproval, "change " .. i) end
    kit.call(t, { view = "high", _dotnetDiagnostics = { acknowledgement = "yes" } })
    kit.call(t, { view = "high", _dotnetDiagnostics = "yes" })
    assert.equal(0, ran.n)
  end)

  it("a root token does not skip the preview", function()
    local t, ran = sample()
    assert.is_table(kit.call(t, { view = "high" }, kit.ctx({ scopes = { "root", "*" } })).safetyApproval)
    assert.equal(0, ran.n)
  end)

  it("critical call with elicitation asks; without it the preview comes back", function()
    local t, ran = sample()
    local e = kit.call(t, { view = "critical" })
    assert.equal("elicitation-fallback", e.safetyApproval.mode)
    assert.equal(0, ran.n)
    local ctx = kit.ctx({ elicit = function() return { action = "accept", content = { approve = true } } end })
    assert.same({ n = 3 }, kit.call(t, { view = "critical" }, ctx).data.critical)
    assert.equal(1, #ctx.asked)
    assert.equal("boolean", ctx.asked[1].params.requestedSchema.properties.approve.type)
    for _, answer in ipairs({ { action = "decline" }, { action = "cancel" }, { action = "accept", content = { approve = false } },
      { action = "accept" } }) do
      e = kit.call(t, { view = "critical" }, kit.ctx({ elicit = function() return answer end }))
      assert.equal("approval_declined", e.data.kind)
      assert.equal(0, #e.hints)
      assert.is_nil(e.error)
    end
    assert.equal(1, ran.n)
  end)

  it("critical: a client that can be asked is asked, also with an acknowledgement in hand", function()
    local t, ran = sample()
    local with_ack = kit.call(t, { view = "critical" }).hints[1].suggestedArguments
    local ctx = kit.ctx({ elicit = function() return { action = "decline" } end })
    assert.equal("approval_declined", kit.call(t, with_ack, ctx).data.kind)
    assert.equal(0, ran.n)
    kit.call(t, with_ack)
    assert.equal(1, ran.n)
  end)

  it("_dotnetDiagnostics never reaches a tool nor causes an unknown-argument error", function()
    local t, ran = sample()
    local e = kit.call(t, { view = "low", _dotnetDiagnostics = { acknowledgement = { operation = "x" } } })
    assert.is_nil(e.error)
    assert.is_nil(ran.args._dotnetDiagnostics)
  end)

  it("investigationHandleId is accepted, and is told that it needs the orchestrator when it names one", function()
    local t = sample()
    assert.is_nil(kit.call(t, { investigationHandleId = json.null }).error)
    assert.equal("OrchestratorDisabled", kit.call(t, { investigationHandleId = "abc" }).error.kind)
  end)

  it("tools/list has _meta.dotnetDiagnostics with auth, safety and hasConditionalSafety", function()
    local t = sample()
    local meta = t:definition().meta(kit.ctx().principal).dotnetDiagnostics
    assert.same({ "read-counters", "ptrace" }, { table.unpack(meta.auth.requiredScopes) })
    assert.equal("any", meta.auth.semantics)
    assert.equal("critical", meta.safety.riskLevel)
    assert.is_true(meta.hasConditionalSafety)
    local plain = tool({ name = "t", description = "d", risk = "moderate", run = function() return {} end })
    assert.is_false(plain:meta(kit.ctx().principal).dotnetDiagnostics.hasConditionalSafety)
  end)

  it("auth.authorized follows the bearer and is true under stdio", function()
    local t = sample()
    local function authorized(list) return t:meta(kit.ctx({ scopes = list }).principal).dotnetDiagnostics.auth.authorized end
    assert.is_true(authorized({ "ptrace" }))
    assert.is_false(authorized({ "eventpipe" }))
    assert.is_true(t:meta(require("lunette.auth").local_principal("stdio")).dotnetDiagnostics.auth.authorized)
  end)

  it("riskLevel, targetImpact, dataExposure and approvalPolicy hold only the decided words", function()
    local safety = require("lunette.safety")
    local policies = {}
    for _, level in ipairs(safety.LEVELS) do policies[level] = safety.descriptor(level).approvalPolicy end
    assert.same({ low = "none", moderate = "none", high = "acknowledge", critical = "approve" }, policies)
    for _, risk in ipairs({ "severe", { level = "low", target_impact = "huge" }, { level = "low", data_exposure = "all" } }) do
      assert.has_error(function() safety.descriptor(risk) end)
    end
  end)

  it("a missing scope is PermissionDenied with isError true and the scope in detail, for static and inner checks", function()
    local t, ran = sample()
    local e, result = kit.call(t, { view = "low" }, kit.ctx({ scopes = { "eventpipe" } }))
    assert.equal("PermissionDenied", e.error.kind)
    assert.equal("read-counters or ptrace", e.error.detail)
    assert.is_true(result.isError)
    e, result = kit.call(t, { view = "high" }, kit.ctx({ scopes = { "read-counters" } }))
    assert.equal("PermissionDenied", e.error.kind)
    assert.equal("ptrace", e.error.detail)
    assert.is_true(result.isError)
    assert.equal(0, ran.n)
  end)

  it("isError is false for classified failures and for previews", function()
    local t = sample()
    for _, arguments in ipairs({ { view = "nonsense" }, { view = "later" }, { view = "high" } }) do
      local _, result = kit.call(t, arguments)
      assert.is_nil(result.isError)
    end
  end)

  it("an unknown branch is InvalidArgument, detail the discriminator, with the accepted values and the nearest", function()
    local e = kit.call((sample()), { view = "moderat" })
    assert.equal("InvalidArgument", e.error.kind)
    assert.equal("view", e.error.detail)
    assert.matches('low, moderate, high, critical, later, broken; got "moderat". Did you mean "moderate"?', e.error.message, 1, true)
  end)

  it("a branch that is not built answers NotSupported and what is missing", function()
    local e = kit.call((sample()), { view = "later" })
    assert.equal("NotSupported", e.error.kind)
    assert.matches("nobody wrote it yet", e.error.message, 1, true)
    assert.is_nil(e.data)
  end)

  it("a bug in a script is an error that names script and line, isError true, and the next call works", function()
    local t = sample()
    local e, result = kit.call(t, { view = "broken" })
    assert.equal("Internal", e.error.kind)
    assert.matches("tool_spec.lua:%d+: boom", e.error.message)
    assert.is_true(result.isError)
    assert.is_nil(kit.call(t).error)
  end)

  it("what the protocol layer throws to ask the client passes through", function()
    local signal = setmetatable({}, { __tostring = function() return "pending" end })
    local t = tool({ name = "t", description = "d", risk = "low", run = function() error(signal, 0) end })
    local ok, thrown = pcall(t.handle, t, kit.ctx(), {})
    assert.is_false(ok)
    assert.equal(signal, thrown)
  end)

  it("an error with rpc_code is an error of the protocol", function()
    local t = tool({ name = "t", description = "d", risk = "low", run = function() return nil, errors.protocol(-32602, "no",
      { uri = "x" }) end })
    local result, err = t:handle(kit.ctx(), {})
    assert.is_nil(result)
    assert.equal(-32602, err.rpc_code)
  end)

  it("an error of the protocol without a kind is passed on, one that cannot be told is a bug of the script", function()
    local t = tool({ name = "t", description = "d", risk = "low", params = { { "n", "int" } }, run = function(_, args)
      return nil, ({
        { rpc_code = -32021, message = "no", rpc_data = { a = 1 } }, { rpc_code = "x", message = "no" },
        { rpc_code = -1, message = "no", rpc_data = print }, { kind = "NotFound", message = "no", hints = { 1 } },
        { message = "no kind" }, { kind = {}, message = "no" },
      })[args.n]
    end })
    local result, err = t:handle(kit.ctx(), { n = 1 })
    assert.is_nil(result)
    assert.same({ -32021, "no", { a = 1 } }, { err.rpc_code, err.message, err.rpc_data })
    for n, why in ipairs({ false, "the rpc_code of its error must be a whole number", "the rpc_data of its error cannot be told as JSON",
      "hints[1] of its error is no hint", "no kind", "no" }) do
      if why then
        local e = kit.call(t, { n = n })
        assert.equal("Internal", e.error.kind)
        assert.matches(why, e.error.message, 1, true)
        assert.is_nil(e.error.message:find("table: ", 1, true))
      end
    end
  end)

  it("cancelled: true, no data, no error, when the wait was cancelled", function()
    local t = tool({ name = "t", description = "d", risk = "low", run = function() return nil, { kind = "Cancelled",
      message = "gone" } end })
    local e = kit.call(t)
    assert.is_true(e.cancelled)
    assert.is_nil(e.data)
    assert.is_nil(e.error)
  end)

  it("a native error keeps its text and gets a kind of the contract, with its advice", function()
    local t = tool({ name = "t", description = "d", risk = "low", params = { tool.process_id() },
      run = function() return nil, { kind = "Timeout", message = "no answer in 2 s", hint = "Is it stopped?" } end })
    local e = kit.call(t, { processId = 42 })
    assert.equal("EndpointUnavailable", e.error.kind)
    assert.equal("no answer in 2 s. Is it stopped?", e.error.message)
    assert.equal("Timeout", e.error.detail)
    assert.equal(42, e.hints[2].suggestedArguments.processId)
  end)

  it("resolvedProcess is what process.resolve gave", function()
    local digest = { processId = 7, runtime = "CoreClr", canSampleCpu = true, canCollectGcDump = false, autoResolved = true }
    local t = tool({ name = "t", description = "d", risk = "low", run = function() return {}, { summary = "s", process = { pid = 7,
      digest = digest } } end })
    assert.same(digest, kit.call(t).resolvedProcess)
  end)

  it("children: childSafety has an entry each and safety is the maximum", function()
    local safety = require("lunette.safety")
    local t = tool({ name = "t", description = "d", risk = "low", max_risk = "high", run = function() return {}, { summary = "s" } end,
      children = function()
        return {
          { tool = "a", kind = "x", safety = safety.descriptor("moderate") },
          { tool = "b", kind = "y", safety = safety.descriptor({ level = "high", side_effects = { "stops it" } }) },
        }
      end })
    local e = kit.call(t)
    assert.equal(2, #e.childSafety)
    assert.equal("high", e.safety.riskLevel)
    assert.same({ "stops it" }, { table.unpack(e.safety.sideEffects) })
    assert.equal(2, #e.safetyApproval.requiredAcknowledgement.children)
    assert.is_nil(kit.call(t, e.hints[1].suggestedArguments).safetyApproval)
  end)

  it("the risk of a call is computed from its real arguments", function()
    local t = tool({ name = "t", description = "d", params = { { "deep", "bool", default = false } }, max_risk = "high",
      risk = function(_, args) return args.deep and "high" or "low" end, run = function() return {}, { summary = "s" } end })
    assert.equal("low", kit.call(t).safety.riskLevel)
    assert.is_table(kit.call(t, { deep = true }).safetyApproval)
    assert.equal("high", t.max_safety.riskLevel)
  end)

  it("a check between parameters refuses the call", function()
    local t = sample({ check = function(args) return args.n ~= 9 or nil, errors.invalid("n", "n must not be 9.") end })
    assert.equal("n", kit.call(t, { n = 9 }).error.detail)
    assert.is_nil(kit.call(t, { n = 8 }).error)
  end)

  it("the final progress of a success is 100; a failure sends none", function()
    local t = sample()
    local ctx = kit.ctx()
    kit.call(t, {}, ctx)
    assert.same({ { 100, 100 } }, ctx.reported)
    ctx = kit.ctx()
    kit.call(t, { view = "later" }, ctx)
    assert.same({}, ctx.reported)
  end)

  it("task: a branch may become one, others never", function()
    local t = tool({ name = "t", description = "d", discriminator = "kind", params = { { "kind", "string", enum = { "a", "b" },
      default = "a" } },
      branches = { a = { risk = "low", task = true, run = function() return {} end }, b = { risk = "low",
        run = function() return {} end } } })
    local task = t:definition().task
    assert.is_true(task({}))
    assert.is_false(task({ kind = "b" }))
    assert.is_nil(task({ kind = "nonsense" })) -- not a refusal: the call says what is wrong
    assert.is_nil(sample():definition().task)
  end)

  it("is strict about declarations", function()
    local run = function() return {} end
    for _, declared in ipairs({
      { description = "no name", run = run }, { name = "t", description = "d" }, { name = "t", description = "d", run = run,
        missing = "x" },
      { name = "t", description = "d", run = run, risk = "severe" }, { name = "t", description = "d", run = run,
        scopes = { list = { "nosuch" } } },
      { name = "t", description = "d", discriminator = "view", params = { { "view", "string", enum = { "a" } } }, branches = {} },
      { name = "t", description = "d", run = run, risk = function() return "low" end },
    }) do
      assert.has_error(function() tool(declared) end)
    end
  end)
end)
