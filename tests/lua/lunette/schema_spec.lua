-- SPDX-License-Identifier: MIT
local app = require("lunette.app")
local json = require("lunette.json")
local kinds = require("lunette.kinds")
local loop = require("lunette.loop")
local registry = require("lunette.registry")
local schema = require("lunette.schema")
local sys = require("lunette.sys")
local validate = require("lunette.validate")

assert(schema.load_records(sys.home .. "/schemas/records.json"))

describe("schemas #unit", function()
  setup(function() app.load({}) end)

  it("schemas/ is up to date with the declarations", function()
    local done = assert(loop.exec({ argv = { "/proc/self/exe", "lua", sys.home .. "/scripts/gen-schemas.lua", "--check" },
      timeout_ms = 60000 }))
    assert.equal("", done.stderr)
    assert.equal(0, done.code)
  end)

  it("every input schema is a plain object at its top", function()
    for name, tool in pairs(app.tools) do
      local input = schema.input(tool)
      assert.equal("object", input.type, name)
      for _, word in ipairs({ "anyOf", "oneOf", "allOf", "$ref", "additionalProperties" }) do assert.is_nil(input[word],
        name .. " " .. word) end
      assert.is_true(#name <= 60)
    end
  end)

  it("the whole tools/list is below 48 KB, and what is left is enough for the tools of the contract to come", function()
    local total, n = 0, 0
    for _, def in ipairs(registry.tools()) do
      if app.tools[def.name] then
        local row = { name = def.name, title = def.title, description = def.description, inputSchema = def.inputSchema,
          outputSchema = def.outputSchema, annotations = def.annotations, _meta = def.meta({ name = "root", scopes = { root = true },
            is_root = true }) }
        total, n = total + #json.encode(row), n + 1
      end
    end
    assert.is_true(total < 48 * 1024)
    assert.is_true((48 * 1024 - total) / math.max(1, 17 - n) > 1800, total .. " bytes for " .. n .. " tools")
  end)

  it("every tool says who may call it, what it may do at most, and whether a call may do less", function()
    local seen = 0
    for _, def in ipairs(registry.tools()) do
      if app.tools[def.name] then
        local meta = def.meta({ name = "nobody", scopes = {} }).dotnetDiagnostics
        assert.is_true(#meta.auth.requiredScopes > 0 and (meta.auth.semantics == "any" or meta.auth.semantics == "all"), def.name)
        assert.is_false(meta.auth.authorized, def.name)
        assert.is_true(def.meta(require("lunette.auth").local_principal("stdio")).dotnetDiagnostics.auth.authorized, def.name)
        assert.is_truthy(("low moderate high critical"):find(meta.safety.riskLevel, 1, true), def.name)
        assert.is_truthy(("none acknowledge approve"):find(meta.safety.approvalPolicy, 1, true), def.name)
        assert.is_boolean(meta.hasConditionalSafety)
        seen = seen + 1
      end
    end
    assert.is_true(seen >= 4)
  end)

  it("every view of every kind has a schema", function()
    for _, kind in ipairs(kinds.names()) do
      for _, view in ipairs(kinds.get(kind).view_names) do
        assert.equal("object", schema.view_output(kind, view).type)
      end
    end
  end)

  it("every tool answer in tools/list fits the full schema's envelope", function()
    local full = schema.output({ name = "x", declared = {} })
    for name in pairs(schema.envelope().properties) do assert.is_table(full.properties[name], name) end
  end)
end)

describe("lunette.validate #unit", function()
  local function faults(value, text_of_type)
    local s = schema.output({ name = "x", declared = { payload = text_of_type } })
    local ok, list = validate.check(value, setmetatable({ ["$defs"] = s["$defs"] }, { __index = s.properties.data["$ref"]
      and s.properties.data or s.properties.data }))
    return ok and {} or list
  end

  it("finds a member that lacks, one that is unknown, and a wrong type, with their paths", function()
    local process = { processId = 1, commandLine = "x", operatingSystem = "linux", processArchitecture = "x64", runtimeVersion = "10.0.0" }
    assert.same({}, faults(process, "DotnetProcess"))
    process.processId = "1"
    process.runtimeVersion = nil
    process.extra = true
    local list = table.concat(faults(process, "DotnetProcess"), "\n")
    assert.matches("processId: is string, not \"integer\"", list, 1, true)
    assert.matches("lacks runtimeVersion", list, 1, true)
    assert.matches("extra: is not a member", list, 1, true)
  end)

  it("follows lists, maps, generics, enums and formats", function()
    assert.same({}, faults(json.array({}), "DotnetProcess[]"))
    assert.matches("[1]: lacks", faults(json.array({ {} }), "DotnetProcess[]")[1], 1, true)
    assert.matches("b: is string", faults({ a = 1, b = "2" }, "map<string,int>")[1], 1, true)
    assert.matches("none of its words", faults("Sideways", "enum:HintPriority")[1], 1, true)
    assert.same({}, faults("high", "enum:HintPriority"))
    assert.matches("is no address", faults("1F", "address")[1], 1, true)
    assert.same({}, faults("0x1f", "address"))
    assert.same({}, faults("2026-11-30T06:44:19.123Z", "datetime"))
    assert.matches("is no date-time", faults("yesterday", "datetime")[1], 1, true)
    assert.same({}, faults("00:00:05.2500000", "timespan"))
  end)
end)
