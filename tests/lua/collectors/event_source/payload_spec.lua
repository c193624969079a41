-- SPDX-License-Identifier: MIT
-- Payloads as text values: without secrets, cut to size, valid UTF-8, whatever the target wrote.
local json = require("lunette.json")
local payload = require("collectors.event_source.payload")

local SECRET <const> = "<redacted:sensitive>"

describe("collectors.event_source.payload #unit", function()
  it("writes numbers, booleans, texts and what is nested", function()
    assert.same({ n = "42", x = "1.25", yes = "true", text = "ping 1", list = "[1,2]", struct = '{"a":1}', none = "null" },
      (payload.of { n = 42, x = 1.25, yes = true, text = "ping 1", list = { 1, 2 }, struct = { a = 1 }, none = json.null }))
    assert.same({}, (payload.of(nil)))
    assert.equal("nan", payload.of({ x = 0 / 0 }).x:gsub("-", ""))
  end)

  it("takes out secrets by the name of the field and by what stands in a text", function()
    local p = payload.of {
      password = "hunter2 and more", ApiKey = "abc", message = "login with password=hunter2 ok", header = "Bearer abcdef0123456789",
      userName = "ada", count = 7, clientSecret = 12345,
    }
    assert.same({ SECRET, SECRET, SECRET }, { p.password, p.ApiKey, p.clientSecret })
    assert.is_nil(p.message:find("hunter2", 1, true))
    assert.is_nil(p.header:find("abcdef", 1, true))
    assert.same({ "ada", "7" }, { p.userName, p.count })
  end)

  it("takes out secrets that stand in the names of fields and keys", function()
    local p = payload.of {
      ["password=hunter2"] = 1, nested = { ["Bearer hunter2-abcdef"] = { ["ghp_hunter2hunter2hunter2hunter2"] = 2 } },
      list = { { Key = "token=hunter2hunter2", Value = "x" } },
    }
    assert.is_nil(json.encode(p):find("hunter2", 1, true), json.encode(p))
    assert.equal(SECRET, p["password=" .. SECRET])
    assert.equal('{"Bearer <redacted:sensitive>":{"<redacted:sensitive>":"<redacted:sensitive>"}}', p.nested)
  end)

  it("takes a text under a doubtful name for a secret only when it looks like one", function()
    local p = payload.of {
      token = "q1w2e3r4t5", Token = 0x06000001, csrfToken = "short", MethodToken = "123456789", sig = "0123456789abcdef0",
    }
    assert.same({ SECRET, "100663297", "short", "123456789", SECRET }, { p.token, p.Token, p.csrfToken, p.MethodToken, p.sig })
  end)

  it("takes out secrets inside lists of keys and values, and structures", function()
    local p = payload.of {
      Arguments = { { Key = "user", Value = "ada" }, { Key = "Password", Value = "hunter2" } },
      nested = { inner = { secret = "s3cret", plain = "x" } },
    }
    assert.equal('{"Password":"<redacted:sensitive>","user":"ada"}', p.Arguments)
    assert.equal('{"inner":{"plain":"x","secret":"<redacted:sensitive>"}}', p.nested)
  end)

  it("redacts before it cuts: no half of a secret is left at the edge", function()
    local edge = ("x"):rep(payload.MAX_VALUE - 12) .. " password=hunter2hunter2hunter2"
    local text = payload.of({ text = edge }).text
    assert.is_true(#text <= payload.MAX_VALUE)
    assert.is_nil(text:find("hunter", 1, true))
    assert.equal("...", text:sub(-3))
  end)

  it("cuts a value, an event and the number of fields", function()
    local many = {}
    for i = 1, 100 do many[("f%03d"):format(i)] = ("y"):rep(5000) end
    local p, bytes = payload.of(many)
    local n, total = 0, 0
    for _, text in pairs(p) do
      n, total = n + 1, total + #text
      assert.is_true(#text <= payload.MAX_VALUE)
    end
    assert.is_true(n <= payload.MAX_FIELDS and total <= payload.MAX_EVENT)
    assert.is_true(bytes <= payload.MAX_EVENT + payload.MAX_FIELDS * 4)
    local names = {}
    for i = 1, 100 do names[("g%03d"):format(i)] = i end
    n = 0
    for _ in pairs((payload.of(names))) do n = n + 1 end
    assert.equal(payload.MAX_FIELDS, n)
  end)

  it("gives valid UTF-8 for bytes that are none, and never splits a character", function()
    local text = payload.of({ bytes = "a\xff\xfeb" }).bytes
    assert.is_truthy(utf8.len(text))
    local long = payload.of({ text = ("é"):rep(2000) }).text
    assert.is_truthy(utf8.len(long))
    assert.is_true(#long <= payload.MAX_VALUE)
  end)

  it("ends in something nested too deep, and in a list that is too long", function()
    local deep = {}
    local at = deep
    for _ = 1, 50 do
      at.next = {}
      at = at.next
    end
    assert.is_truthy(payload.of({ deep = deep }).deep:find("...", 1, true))
    local long = {}
    for i = 1, 1000 do long[i] = i end
    assert.is_true(#payload.text(long, "long") < 1100)
  end)
end)
