-- SPDX-License-Identifier: MIT
-- The HTTP header rules of the modern era.
local headers = require("lunette.mcp.headers")
local param_headers = require("lunette.mcp.param_headers")

describe("mcp.headers", function()
  describe("the Base64 sentinel", function()
    for _, case in ipairs({
      { "=?base64?SGVsbG8sIOS4lueVjA==?=", "Hello, 世界" }, { "=?base64?IHBhZGRlZCA=?=", " padded " },
      { "=?base64?bGluZTEKbGluZTI=?=", "line1\nline2" }, { "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=", "=?base64?literal?=" },
      { "=?base64??=", "" },
      { "plain", "plain" }, { "=?base64?SGVsbG8=", "=?base64?SGVsbG8=" }, { "SGVsbG8=?=", "SGVsbG8=?=" },
      { "=?BASE64?SGVsbG8=?=", "=?BASE64?SGVsbG8=?=" },
      { "=?base64?SGVsbG8?=", nil }, { "=?base64?SGVs!!!bG8=?=", nil }, { "=?base64?SGVsbG9=?=", nil }, { "=?base64?/w==?=", nil },
    }) do
      it("reads " .. case[1], function() assert.equal(case[2], headers.decode_sentinel(case[1])) end)
    end
  end)

  describe("Mcp-Method and Mcp-Name", function()
    local function check(method, params, given)
      local ok, err = headers.check_standard(method, params, given)
      return ok, err and err.rpc_code
    end

    it("accepts what repeats the body, blanks around it, and Base64", function()
      assert.is_true((check("tools/list", {}, { ["mcp-method"] = "tools/list" })))
      assert.is_true((check("tools/call", { name = "a" }, { ["mcp-method"] = " tools/call\t", ["mcp-name"] = "  a " })))
      assert.is_true((check("tools/call", { name = "世界" }, { ["mcp-method"] = "tools/call", ["mcp-name"] = "=?base64?5LiW55WM?=" })))
      assert.is_true((check("resources/read", { uri = "x://y" }, { ["mcp-method"] = "resources/read", ["mcp-name"] = "x://y" })))
      assert.is_true((check("tasks/get", { taskId = "t" }, { ["mcp-method"] = "tasks/get", ["mcp-name"] = "t" })))
    end)

    for name, case in pairs({
      ["no method"] = { "tools/list", {}, {} },
      ["another case of the method"] = { "tools/list", {}, { ["mcp-method"] = "TOOLS/LIST" } },
      ["another method"] = { "tools/list", {}, { ["mcp-method"] = "tools/call" } },
      ["no name"] = { "tools/call", { name = "a" }, { ["mcp-method"] = "tools/call" } },
      ["another name"] = { "tools/call", { name = "a" }, { ["mcp-method"] = "tools/call", ["mcp-name"] = "b" } },
      ["broken Base64"] = { "tools/call", { name = "a" }, { ["mcp-method"] = "tools/call", ["mcp-name"] = "=?base64?Y?=" } },
      ["a body without name"] = { "tools/call", {}, { ["mcp-method"] = "tools/call", ["mcp-name"] = "a" } },
      ["a Base64 method"] = { "tools/list", {}, { ["mcp-method"] = "=?base64?dG9vbHMvbGlzdA==?=" } },
    }) do
      it("refuses " .. name, function()
        local ok, code = check(case[1], case[2], case[3])
        assert.is_nil(ok)
        assert.equal(-32020, code)
      end)
    end
  end)

  describe("Mcp-Param-*", function()
    local mirrored = param_headers.of_schema({ type = "object", properties = {
      region = { type = "string", ["x-mcp-header"] = "Region" }, level = { type = "integer", ["x-mcp-header"] = "Level" },
      deep = { type = "object", properties = { on = { type = "boolean", ["x-mcp-header"] = "On" } } },
    } })

    local function check(arguments, given) return (headers.check_params(mirrored, arguments, given)) end

    it("accepts what equals the argument", function()
      assert.is_true(check({ region = "eu" }, { ["mcp-param-region"] = "eu" }))
      assert.is_true(check({ region = " eu" }, { ["mcp-param-region"] = "=?base64?IGV1?=" }))
      assert.is_true(check({ level = 42 }, { ["mcp-param-level"] = "42.0" }))
      assert.is_true(check({ deep = { on = true } }, { ["mcp-param-on"] = "true" }))
      assert.is_true(check({}, {}))
      assert.is_true(check({}, { ["mcp-param-other"] = "ignored" }))
    end)

    it("refuses a missing, a different and an unexpected header", function()
      assert.is_nil(check({ region = "eu" }, {}))
      assert.is_nil(check({ region = "eu" }, { ["mcp-param-region"] = "us" }))
      assert.is_nil(check({ level = 42 }, { ["mcp-param-level"] = "0x2a" }))
      assert.is_nil(check({ deep = { on = true } }, { ["mcp-param-on"] = "TRUE" }))
      assert.is_nil(check({}, { ["mcp-param-region"] = "eu" }))
    end)
  end)

  describe("Accept and Content-Type", function()
    for value, expected in pairs({
      ["application/json, text/event-stream"] = { true, true }, ["text/event-stream;q=0.5,application/json"] = { true, true },
      ["*/*"] = { true, true }, ["application/json"] = { true, false }, ["text/event-stream"] = { false, true },
      ["application/json, text/event-stream;q=0"] = { true, false }, ["text/html"] = { false, false },
    }) do
      it("reads Accept: " .. value, function()
        local found = headers.accept(value)
        assert.same(expected, { found.json, found.sse })
      end)
    end

    it("takes an absent Accept for anything", function() assert.is_true(headers.accept(nil).sse) end)

    it("knows JSON by its media type", function()
      assert.is_true(headers.is_json("application/json"))
      assert.is_true(headers.is_json("Application/JSON; charset=utf-8"))
      assert.is_false(headers.is_json("text/plain"))
      assert.is_false(headers.is_json(nil))
    end)
  end)
end)

describe("mcp.param_headers", function()
  local function of(properties, more)
    local schema = { type = "object", properties = properties }
    for k, v in pairs(more or {}) do schema[k] = v end
    return param_headers.of_schema(schema)
  end

  it("finds nested properties, sorted", function()
    local found = of({ b = { type = "string", ["x-mcp-header"] = "B" },
      a = { type = "object", properties = { x = { type = "boolean", ["x-mcp-header"] = "A" } } } })
    assert.equal("mcp-param-a", found[1].field)
    assert.same({ "a", "x" }, found[1].path)
    assert.equal("mcp-param-b", found[2].field)
  end)

  for name, properties in pairs({
    ["an empty name"] = { a = { type = "string", ["x-mcp-header"] = "" } },
    ["a blank in the name"] = { a = { type = "string", ["x-mcp-header"] = "a b" } },
    ["a number"] = { a = { type = "number", ["x-mcp-header"] = "A" } },
    ["an array item"] = { a = { type = "array", items = { type = "string", ["x-mcp-header"] = "A" } } },
    ["two of one name"] = { a = { type = "string", ["x-mcp-header"] = "A" }, b = { type = "string", ["x-mcp-header"] = "a" } },
  }) do
    it("refuses " .. name, function()
      local found, why = of(properties)
      assert.is_nil(found)
      assert.is_string(why)
    end)
  end

  it("refuses an annotation below anyOf", function()
    assert.is_nil(of({}, { anyOf = { { properties = { a = { type = "string", ["x-mcp-header"] = "A" } } } } }))
  end)
end)
