-- SPDX-License-Identifier: MIT
-- requestState: what is sealed comes back whole, for the same request, in time, or not at all. And the check of answers.
local answers = require("lunette.mcp.answers")
local json = require("lunette.json")
local loop = require("lunette.loop")
local mrtr = require("lunette.mcp.mrtr")

local PARAMS <const> = { name = "tool", arguments = { b = 1, a = "x" } }

describe("mcp.mrtr", function()
  local sealer, binding
  before_each(function()
    sealer = mrtr.new_sealer()
    binding = mrtr.binding("root", "tools/call", PARAMS)
  end)

  local function seal() return assert(sealer:seal(binding, { n = 1 }, { key = { action = "accept" } })) end

  it("gives back state and answers", function()
    local state, given = sealer:open(binding, seal())
    assert.equal(1, state.n)
    assert.equal("accept", given.key.action)
  end)

  it("seals the same thing differently each time", function() assert.not_equal(seal(), seal()) end)

  it("does not depend on the order of arguments or on what a retry adds", function()
    local again = mrtr.binding("root", "tools/call",
      { arguments = json.decode('{"a":"x","b":1}'), name = "tool", inputResponses = {}, _meta = {} })
    assert.equal(binding, again)
  end)

  for what, other in pairs({
    ["another principal"] = { "guest", "tools/call", PARAMS }, ["another method"] = { "root", "prompts/get", PARAMS },
    ["another tool"] = { "root", "tools/call", { name = "other", arguments = PARAMS.arguments } },
    ["other arguments"] = { "root", "tools/call", { name = "tool", arguments = { a = "x", b = 2 } } },
  }) do
    it("refuses the state of " .. what, function()
      local state, err = sealer:open(mrtr.binding(table.unpack(other)), seal())
      assert.is_nil(state)
      assert.equal(-32602, err.rpc_code)
    end)
  end

  it("refuses every change of a byte", function()
    local text = seal()
    for i = 1, #text do
      local c = text:sub(i, i)
      local changed = text:sub(1, i - 1) .. (c == "A" and "B" or "A") .. text:sub(i + 1)
      assert.is_nil((sealer:open(binding, changed)))
    end
    assert.is_nil((sealer:open(binding, text .. "-TAMPERED")))
    assert.is_nil((sealer:open(binding, "")))
    assert.is_nil((sealer:open(binding, ("v1.a."):rep(30000))))
  end)

  it("refuses a state of another process", function() assert.is_nil((mrtr.new_sealer():open(binding, seal()))) end)

  it("refuses a state that is older than ten minutes", function()
    local text, real = seal(), loop.unix_ms
    loop.unix_ms = function() return real() + 601 * 1000 end
    local state, err = sealer:open(binding, text)
    loop.unix_ms = real
    assert.is_nil(state)
    assert.truthy(err.message:find("expired"))
  end)

  it("does not seal more than a client can carry", function()
    local text, err = sealer:seal(binding, { big = ("x"):rep(70000) }, {})
    assert.is_nil(text)
    assert.equal(-32603, err.rpc_code)
  end)

  for what, params in pairs({
    ["null responses"] = { inputResponses = json.null }, ["a list"] = { inputResponses = json.array({}) },
    ["a number as answer"] = { inputResponses = { k = 5 } }, ["a state that is no string"] = { requestState = 5 },
  }) do
    it("refuses a malformed retry: " .. what, function()
      local given, err = mrtr.read_retry(params)
      assert.is_nil(given)
      assert.equal(-32602, err.rpc_code)
    end)
  end
end)

describe("mcp.answers", function()
  local function form(properties, required)
    local schema = { type = "object", properties = properties, required = required }
    return { method = "elicitation/create", params = { requestedSchema = schema } }
  end
  local function accept(content) return { action = "accept", content = content } end

  it("takes a form that fits", function()
    local all = form({
      s = { type = "string", minLength = 1 }, i = { type = "integer", minimum = 1 }, n = { type = "number" }, b = { type = "boolean" },
      e = { type = "string", enum = { "x", "y" } }, t = { type = "string", oneOf = { { const = "v", title = "V" } } },
      m = { type = "array", items = { type = "string", enum = { "x", "y" } } },
    }, { "s" })
    assert.is_true(answers.fits(all, accept({ s = "a", i = 2, n = 1.5, b = false, e = "x", t = "v", m = json.array({ "y" }) })))
    assert.is_true(answers.fits(all, { action = "decline" }))
    assert.is_true(answers.fits(all, { action = "cancel" }))
  end)

  for what, case in pairs({
    ["a missing field"] = { form({ s = { type = "string" } }, { "s" }), accept({}) },
    ["null for a required field"] = { form({ s = { type = "string" } }, { "s" }), accept({ s = json.null }) },
    ["no content"] = { form({ s = { type = "string" } }, { "s" }), { action = "accept" } },
    ["an unknown action"] = { form({}), { action = "maybe" } },
    ["text for a number"] = { form({ n = { type = "number" } }), accept({ n = "1" }) },
    ["a fraction for an integer"] = { form({ n = { type = "integer" } }), accept({ n = 1.5 }) },
    ["a number that is too small"] = { form({ n = { type = "integer", minimum = 5 } }), accept({ n = 1 }) },
    ["a word that is no choice"] = { form({ e = { type = "string", enum = { "x" } } }), accept({ e = "z" }) },
    ["a choice too many"] = {
      form({ m = { type = "array", maxItems = 1, items = { type = "string" } } }), accept({ m = json.array({ "a", "b" }) }),
    },
    ["roots that are no list"] = { { method = "roots/list", params = {} }, { roots = {} } },
    ["a sample without role"] = { { method = "sampling/createMessage", params = {} }, { content = { type = "text", text = "x" } } },
    ["no table"] = { form({}), 5 },
  }) do
    it("refuses " .. what, function() assert.is_false(answers.fits(case[1], case[2])) end)
  end
end)
