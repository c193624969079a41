-- SPDX-License-Identifier: MIT
-- Every tool and every branch, called through the protocol layer: each reply fits its full schema and its size.
local app = require("lunette.app")
local fs = require("lunette.fs")
local json = require("lunette.json")
local kinds = require("lunette.kinds")
local kit = require("support.framework_kit")
local mcp = require("lunette.mcp")
local registry = require("lunette.registry")
local scopes = require("lunette.scopes")
local sys = require("lunette.sys")
local tool = require("lunette.tool")
local view = require("lunette.view")

local RECORDING <const> = sys.home .. "/tests/data/demo.nettrace"
local DEFAULT_BYTES <const>, MAX_BYTES <const> = 16 * 1024, 80 * 1024
-- What a branch needs to be called at all.
local ARGUMENTS <const> = {
  event_source = { providerName = "System.Runtime" }, distributed_trace = { traceId = ("a"):rep(32) },
  ["method-params"] = { includeSensitiveValues = true, methods = { { moduleName = "shop", typeName = "Shop.Cart", methodName = "Add" } } },
}

local function call(name, arguments, options)
  local result = assert(mcp.call_local(name, arguments, options or {}))
  local body = result.content[1].text
  return json.decode(body), #body, result
end

local function assert_conforms(envelope, ...)
  local ok, faults = kit.conforms(envelope, ...)
  assert.is_true(ok, faults)
end

describe("replies #unit", function()
  setup(function() app.load({}) end)

  it("every branch of every tool answers within its schema and 16 KB, built or not", function()
    for name, compiled in pairs(app.tools) do
      for _, value in ipairs(compiled.branch_names or {}) do
        local branch = compiled.branches[value]
        local arguments = { [compiled.discriminator] = value, processId = 4194304 } -- above the largest process id
        for k, v in pairs(ARGUMENTS[value] or {}) do arguments[k] = v end
        local e, size = call(name, arguments, { principal = scopes.principal("spec", { "root", "sensitive-parameter-read" }) })
        assert_conforms(e, compiled)
        assert.is_true(size <= DEFAULT_BYTES, name .. " " .. value)
        if branch.missing then assert.equal("NotSupported", e.error.kind, name .. " " .. value) end
        if not e.error and not e.safetyApproval then assert.equal(value, e.data[compiled.discriminator]) end
      end
    end
  end)

  it("a recorded capture: the default answer is small, and every view of it fits its schema", function()
    if not fs.stat(RECORDING) then return pending("there is no " .. RECORDING) end
    local e, size = call("collect_events", { kind = "counters", traceFilePath = RECORDING })
    assert.is_nil(e.error)
    assert_conforms(e, app.tools.collect_events)
    assert.is_true(size <= DEFAULT_BYTES)
    assert.is_string(e.handle)
    assert.is_true(e.handleExpiresInSeconds > 590 and e.handleExpiresInSeconds <= 600)
    local kind, built = kinds.get("counters"), 0
    for _, name in ipairs(kind.view_names) do
      local answer
      answer, size = call("query_snapshot", { handle = e.handle, view = name })
      assert_conforms(answer, nil, "counters", name)
      assert.is_true(size <= MAX_BYTES)
      if name == "diff" then -- needs a second capture
        assert.same({ "InvalidArgument", "baselineHandle" }, { answer.error.kind, answer.error.detail })
      elseif view.find("counters", name) then
        built = built + 1
        assert.equal(name, answer.data.view)
      else
        assert.equal("NotSupported", answer.error.kind)
      end
    end
    assert.is_true(built >= 2)
  end)

  it("an elicitation reaches the client through the protocol layer, and its answer decides", function()
    local ran = 0
    registry.add_tool(tool({ name = "spec_critical", description = "A critical tool of the specs.", risk = "critical", run = function()
      ran = ran + 1
      return {}, { summary = "Ran." }
    end }):definition())
    local asked = {}
    local function with(action, content)
      return { elicit = function(params)
        asked[#asked + 1] = params
        return { action = action, content = content }
      end }
    end
    assert.equal("approval_declined", call("spec_critical", {}, with("decline")).data.kind)
    assert.equal(0, ran)
    assert.equal("Ran.", call("spec_critical", {}, with("accept", { approve = true })).summary)
    assert.equal(1, ran)
    assert.equal(2, #asked)
    assert.is_table(call("spec_critical", {}).safetyApproval)
    registry.remove_tool("spec_critical")
  end)

  it("prompts and resources of the product are in the registry", function()
    assert.is_table(registry.prompt("diagnose-high-latency"))
    assert.is_table(registry.resource("diag://guides/investigation"))
    for _, template in ipairs({ "signals://cpu-sample/{handle}", "heap-snapshot://{handle}", "journey://diff/{handle}" }) do
      assert.is_table(registry.template(template), template)
    end
    for _, name in ipairs({ "get_collection_status", "cancel_collection" }) do assert.is_nil(registry.tool(name)) end
  end)
end)
