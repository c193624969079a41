-- SPDX-License-Identifier: MIT
--- lunette.json: what is written, what is read, and what is refused.
local json = require("lunette.json")

describe("json.encode", function()
  it("writes each kind of value", function()
    for _, case in ipairs({
      { nil, "null" }, { json.null, "null" }, { true, "true" }, { false, "false" }, { 0, "0" }, { -7, "-7" },
      { 9007199254740993, "9007199254740993" }, { math.mininteger, "-9223372036854775808" }, { 1.5, "1.5" }, { 0.1, "0.1" },
      { 1 / 0, "null" }, { 0 / 0, "null" }, { "", '""' }, { 'a"\\\n\t\1', '"a\\"\\\\\\n\\t\\u0001"' }, { "é€😀", '"é€😀"' },
      { {}, "{}" }, { json.array({}), "[]" }, { { 1, "a", false }, '[1,"a",false]' }, { { a = { b = {} } }, '{"a":{"b":{}}}' },
    }) do
      assert.equal(case[2], json.encode(case[1]))
    end
  end)

  it("sorts keys, numbers among them as text", function()
    assert.equal('{"10":1,"9":2,"B":3,"a":4,"b":5}', json.encode({ b = 5, a = 4, B = 3, [10] = 1, [9] = 2 }))
  end)

  it("writes the keys of __order first", function()
    local t = setmetatable({ a = 1, b = 2, c = 3, z = 4 }, { __order = { "z", "missing", "b" } })
    assert.equal('{"z":4,"b":2,"a":1,"c":3}', json.encode(t))
  end)

  it("makes valid UTF-8 of any bytes", function()
    assert.equal('"x\u{FFFD}y"', json.encode("x\xffy"))
    assert.equal('{"\u{FFFD}":1}', json.encode({ ["\xc0"] = 1 }))
  end)

  it("passes raw text through", function()
    assert.equal('{"a":[1, 2]}', json.encode({ a = json.raw("[1, 2]") }))
  end)

  it("writes a hole in a marked array as null", function()
    assert.equal("[1,null,3]", json.encode(json.array({ 1, nil, 3 })))
  end)

  it("names the place of what cannot be written", function()
    local loop = {}
    loop.self = loop
    for _, case in ipairs({
      { { a = { b = print } }, "cannot encode a.b: a value of type function" },
      { { { x = io.stdout } }, "cannot encode 1.x: a value of type userdata" },
      { { 1, 2, x = 3 }, "cannot encode the value: a list that has other keys too" },
      { { [true] = 1 }, "cannot encode the value: a key is neither text nor a number" },
      { { [1.5] = 1 }, "cannot encode the value: a key is a fraction" },
    }) do
      assert.has_error(function() json.encode(case[1]) end, case[2])
    end
    local ok, why = pcall(json.encode, loop)
    assert.is_false(ok)
    assert.matches("nested too deep, or it contains itself", why, 1, true)
  end)

  it("works after it has failed", function()
    pcall(json.encode, { 1, { 2, print } })
    assert.equal("[1]", json.encode({ 1 }))
  end)

  it("writes big objects and long lists", function()
    local t, list = {}, {}
    for i = 1, 20000 do t["k" .. i], list[i] = i, i end
    assert.same(t, json.decode(json.encode(t)))
    assert.same(list, json.decode(json.encode(list)))
  end)
end)

describe("json.decode", function()
  it("keeps integers, floats and null apart", function()
    local v = json.decode('{"i":9007199254740993,"f":1.0,"e":1e2,"n":null,"big":123456789012345678901234567890}')
    assert.equal("integer", math.type(v.i))
    assert.equal(9007199254740993, v.i)
    assert.equal("float", math.type(v.f))
    assert.equal(100.0, v.e)
    assert.equal(json.null, v.n)
    assert.equal(1.2345678901234568e29, v.big)
  end)

  it("marks arrays, so that an empty one stays one", function()
    local text = '{"a":[],"b":[[],{}],"o":{}}'
    assert.equal(text, json.encode(json.decode(text)))
    assert.is_true(json.is_array(json.decode("[]")))
    assert.is_false(json.is_array(json.decode("{}")))
  end)

  it("keeps the order of keys when asked", function()
    local text = '{"z":1,"a":{"y":[{"k":1,"b":2}],"c":{}},"m":null}'
    local v = json.decode(text, true)
    assert.equal(text, json.encode(v))
    assert.same({ "z", "a", "m" }, getmetatable(v).__order)
    assert.equal('{"b":1,"a":3}', json.encode(json.decode('{"b":1,"a":2,"a":3}', true))) -- a key that comes twice counts once
    assert.is_nil(getmetatable(json.decode("{}", 1)))
    local many = {}
    for i = 1, 20000 do many[i] = ('"k%d":%d'):format(20000 - i, i) end
    local long = "{" .. table.concat(many, ",") .. "}"
    v = json.decode(long, true)
    local before = os.clock()
    assert.equal(long, json.encode(v))
    assert.is_true(os.clock() - before < 2, "in one pass: " .. os.clock() - before .. " s")
    v.beside = true -- what the order does not name follows
    assert.equal(long:sub(1, -2) .. ',"beside":true}', json.encode(v))
    assert.equal('{"a":{"c":{},"y":[{"b":2,"k":1}]},"m":null,"z":1}', json.encode(json.decode(text)))
  end)

  it("refuses malformed text with a place", function()
    for _, text in ipairs({ "", "{", "[1,]", "{a:1}", "nul", "1 2", '"\\x"', "[1", '{"a" 1}', "01", "NaN", "'a'", "[1]//" }) do
      local v, err = json.decode(text)
      assert.is_nil(v)
      assert.equal("MalformedInput", err.kind)
      assert.is_true(err.offset >= 0 and err.offset <= #text)
      assert.matches("MalformedInput: ", tostring(err), 1, true)
    end
  end)

  it("refuses what is nested too deep", function()
    assert.is_not_nil(json.decode(("["):rep(128) .. ("]"):rep(128)))
    local v, err = json.decode(("["):rep(100000))
    assert.is_nil(v)
    assert.equal("MalformedInput", err.kind)
  end)

  it("may be used by a finalizer while it runs", function()
    local seen = 0
    for _ = 1, 2000 do
      setmetatable({}, { __gc = function() if json.decode("[1]")[1] == 1 then seen = seen + 1 end end })
      assert.equal(3, #json.decode('[{"a":1},{"b":2},{"c":3}]'))
    end
    collectgarbage()
    assert.equal(2000, seen)
  end)
end)

describe("json.array", function()
  it("marks a table in place and makes a new one", function()
    local t = {}
    assert.equal(t, json.array(t))
    assert.equal("[]", json.encode(json.array()))
    assert.equal(t, json.array(t))
  end)

  it("refuses a table with a metatable of its own", function()
    assert.has_error(function() json.array(setmetatable({}, {})) end, "bad argument #1 to 'array' (has a metatable of its own)")
  end)
end)
