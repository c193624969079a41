-- SPDX-License-Identifier: MIT
local args = require("lunette.args")
local json = require("lunette.json")

local function bind(params, raw, branch, in_task, relevant)
  return args.bind(args.compile(params, "t"), raw, branch, in_task, relevant)
end

local function value(p, given)
  local bound, err = bind({ p }, { [p[1]] = given })
  return bound and bound.args[p[1]], err
end

describe("lunette.args #unit", function()
  it("reads scalars leniently: text for numbers and booleans, numbers for text", function()
    local rows = {
      { "int", "12345", 12345 }, { "int", " 7 ", 7 }, { "int", 5.0, 5 }, { "int?", "-3", -3 }, { "long", "0xFF", 255 },
      { "long", "9007199254740993", 9007199254740993 }, { "double", "1.5", 1.5 }, { "double", 2, 2 }, { "bool", "true", true },
      { "bool", "False", false }, { "bool", 1, true }, { "string", 4096, "4096" }, { "string", true, "true" },
    }
    for _, row in ipairs(rows) do
      local got, err = value({ "x", row[1] }, row[2])
      assert.is_nil(err)
      assert.equal(row[3], got, row[1] .. " from " .. tostring(row[2]))
      assert.equal(math.type(row[3]), math.type(got))
    end
  end)

  it("refuses what is no value of the type, naming the parameter in detail", function()
    for _, row in ipairs({ { "int", "12x" }, { "int", 1.5 }, { "int", {} }, { "int", 4294967296 }, { "double", "nan" }, { "double",
      "1e999" },
      { "bool", "maybe" }, { "bool", 2 }, { "string", {} }, { "string[]", 5 }, { "string[]", { a = 1 } }, { "object", "[1]" },
        { "object", 3 } }) do
      local got, err = value({ "x", row[1] }, row[2])
      assert.is_nil(got, row[1])
      assert.equal("InvalidArgument", err.kind)
      assert.equal("x", err.detail)
    end
  end)

  it("reads lists from JSON text and takes one text as a list of one", function()
    assert.same({ "a", "b" }, { table.unpack(value({ "x", "string[]" }, '["a","b"]')) })
    assert.same({ "a" }, { table.unpack(value({ "x", "string[]" }, "a")) })
    local empty = value({ "x", "string[]" }, "[]")
    assert.is_true(json.is_array(empty))
    assert.equal(0, #empty)
  end)

  it("takes null for absent", function()
    local bound = assert(bind({ { "x", "int", default = 4 } }, { x = json.null }))
    assert.equal(4, bound.args.x)
    assert.is_nil(bound.explicit.x)
  end)

  it("names the nearest parameter for an unknown argument", function()
    local _, err = bind({ { "processId", "int?" }, { "view", "string?" } }, { proces_id = 1 })
    assert.equal("InvalidArgument", err.kind)
    assert.equal("proces_id", err.detail)
    assert.matches('Did you mean "processId"?', err.message, 1, true)
    assert.matches("processId, view", err.message, 1, true)
  end)

  it("tells the accepted words and the nearest one, case-sensitive after trimming", function()
    local p = { "view", "string", enum = { "list", "memory_trend" } }
    assert.equal("list", (value(p, " list ")))
    local got, err = value(p, "List")
    assert.is_nil(got)
    assert.equal("view", err.detail)
    assert.matches('list, memory_trend; got "List". Did you mean "list"?', err.message, 1, true)
  end)

  it("gives the declared spelling of a word in any letter case where ci is set", function()
    assert.equal("Summary", (value({ "depth", "string", enum = { "Summary", "Detail" }, ci = true }, "sUMMARY")))
  end)

  it("lets other words pass an open enum", function()
    assert.equal("new", (value({ "x", "string", enum = { "old" }, open_enum = true }, "new")))
  end)

  it("checks ranges, by branch too", function()
    local p = { "n", "int", min = 1, max = 10, min_by_branch = { slow = 5 }, default = 7, default_by_branch = { slow = 9 } }
    assert.equal(7, bind({ p }, {}, "fast").args.n)
    assert.equal(9, bind({ p }, {}, "slow").args.n)
    assert.equal(3, bind({ p }, { n = 3 }, "fast").args.n)
    local _, err = bind({ p }, { n = 3 }, "slow")
    assert.equal("n must be from 5 to 10; got 3.", err.message)
    _, err = bind({ p }, { n = 11 }, "fast")
    assert.equal("n", err.detail)
  end)

  it("tells the range that a parameter has of a number that is no int32, and cuts where larger ones are cut", function()
    local processId = { "processId", "int?", min = 0 }
    for _, row in ipairs { { 3000000000, "3000000000" }, { "3000000000", "3000000000" }, { 2147483648.0, "2147483648" },
      { "99999999999999999999", "1e+20" }, { -3000000000, "-3000000000" } } do
      local got, err = value(processId, row[1])
      assert.is_nil(got)
      assert.same({ "InvalidArgument", "processId", "processId must be from 0 to 2147483647; got " .. row[2] .. "." },
        { err.kind, err.detail, err.message })
    end
    assert.equal(2147483647, (value(processId, 2147483647)))
    local maxBytes = { "maxBytes", "int", min = 1, clamp_to = 16777216 }
    for _, given in ipairs { 3000000000, "3000000000", 2.0 ^ 70, "99999999999999999999" } do
      assert.equal(16777216, (value(maxBytes, given)))
      assert.equal("integer", math.type(value(maxBytes, given)))
    end
    assert.matches("must be from 1 to 2147483647", select(2, value(maxBytes, -3000000000)).message, 1, true)
    local _, err = bind({ { "s", "int", min = 1, max_without_task = 300 } }, { s = 3000000000 })
    assert.equal("s may be at most 300 unless the call runs as a task; got 3000000000.", err.message)
    _, err = value({ "n", "int", min = 1, max = 10 }, 3000000000)
    assert.equal("n must be from 1 to 10; got 3000000000.", err.message)
  end)

  it("cuts with clamp_to, lifts with floor_by_branch, and refuses at an exclusive minimum", function()
    assert.equal(500, (value({ "n", "int", min = 1, clamp_to = 500 }, 9999)))
    assert.equal(6, bind({ { "n", "int", min = 1, floor_by_branch = { sweep = 6 } } }, { n = 2 }, "sweep").args.n)
    local _, err = value({ "n", "double", exclusive_min = 0, max = 100 }, 0)
    assert.matches("above 0 and at most 100", err.message, 1, true)
  end)

  it("allows more than max_without_task only to a task", function()
    local p = { "durationSeconds", "int", min = 1, max_without_task = 300 }
    local _, err = bind({ p }, { durationSeconds = 301 })
    assert.equal("durationSeconds", err.detail)
    assert.equal(301, bind({ p }, { durationSeconds = 301 }, nil, true).args.durationSeconds)
  end)

  it("ignores a parameter of other branches whatever it holds, unless it is `only` for its own", function()
    local n = { "n", "int", min = 1, applies_to = { "a" } }
    local bound = assert(bind({ n }, { n = "nonsense" }, "b"))
    assert.is_nil(bound.args.n)
    local launch = { "launch", "object?", applies_to = { "startup" }, only = true }
    local _, err = bind({ launch }, { launch = {} }, "gc")
    assert.equal("launch", err.detail)
  end)

  it("reads only the relevant parameters when a tool says which", function()
    local params = { { "a", "int", min = 1, default = 3 }, { "b", "int", min = 1 } }
    local bound = assert(bind(params, { a = 0, b = 2 }, nil, false, { b = true }))
    assert.equal(3, bound.args.a)
    assert.same({ b = true }, bound.explicit)
  end)

  it("checks required, required_for, required_with and excludes", function()
    local _, err = bind({ { "x", "int", required = true } }, {})
    assert.equal("x", err.detail)
    _, err = bind({ { "x", "int?", required_for = { "b" } } }, {}, "b")
    assert.equal("x is required for b.", err.message)
    assert.is_truthy(bind({ { "x", "int?", required_for = { "b" } } }, {}, "a"))
    local pair = { { "when", "string?" }, { "what", "string?", required_with = "when" } }
    _, err = bind(pair, { when = "cpu>80" })
    assert.equal("what", err.detail)
    _, err = bind({ { "a", "int?", excludes = { "b" } }, { "b", "int?" } }, { a = 1, b = 2 })
    assert.equal("a and b exclude each other.", err.message)
  end)

  it("reads the members of an object like parameters", function()
    local launch = { "launch", "object", fields = { { "fileName", "string", required = true }, { "connectTimeoutSeconds", "int",
      default = 10 } } }
    assert.same({ fileName = "x", connectTimeoutSeconds = 10 }, (value(launch, { fileName = "x" })))
    local _, err = value(launch, { connectTimeoutSeconds = 1 })
    assert.equal("launch.fileName is required.", err.message)
    _, err = value(launch, { fileName = "x", fileNam = "y" })
    assert.matches('Did you mean "fileName"?', err.message, 1, true)
    assert.matches("It takes fileName, connectTimeoutSeconds.", err.message, 1, true)
    assert.equal("launch", err.detail)
  end)

  it("caps the length of text and of lists", function()
    local _, err = value({ "x", "string" }, ("a"):rep(65537))
    assert.matches("at most 65536 bytes", err.message, 1, true)
    _, err = value({ "x", "string[]" }, { "a", ("a"):rep(65537) })
    assert.matches("x item 2 must be at most 65536 bytes long", err.message, 1, true)
    local list = {}
    for i = 1, 257 do list[i] = "a" end
    _, err = value({ "x", "string[]" }, list)
    assert.matches("at most 256 items", err.message, 1, true)
  end)

  it("is strict about declarations", function()
    assert.has_error(function() args.compile({ { "x", "integer" } }, "t") end)
    assert.has_error(function() args.compile({ { "x", "int" }, { "x", "int" } }, "t") end)
  end)
end)
