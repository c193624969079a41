-- SPDX-License-Identifier: MIT
-- Tags out of the one text in which they come.
local memo = require("collectors.memo")
local redaction = require("lunette.redaction")
local tags = require("collectors.activities.tags")

local ROW_MAX <const> = 16384

local function parse(text, row_max)
  local got = tags.parse(text, row_max or ROW_MAX, memo.new())
  return got, getmetatable(got).__order
end

describe("collectors.activities.tags", function()
  it("takes them apart in their order", function()
    local got, order = parse("[http.request.method, GET],[server.port, 80],[empty, ],[comma, a, b]")
    assert.same({ ["http.request.method"] = "GET", ["server.port"] = "80", empty = "", comma = "a, b" }, got)
    assert.same({ "http.request.method", "server.port", "empty", "comma" }, order)
  end)

  it("gives none for none", function()
    assert.same({}, (parse("")))
    assert.same({}, (parse(nil)))
    assert.same({}, (parse("no brackets")))
  end)

  it("keeps brackets in values that do not look like another tag", function()
    assert.same({ a = "[1],[2]", b = "x" }, (parse("[a, [1],[2]],[b, x]")))
  end)

  it("hides values by the name of the tag, and secrets in values and names", function()
    assert.same({
      ["db.password"] = "<redacted:sensitive>", note = "password=<redacted:sensitive>",
      ["secret=<redacted:sensitive>"] = "<redacted:sensitive>", auth = "Bearer <redacted:sensitive>",
    }, (parse("[db.password, hunter2],[note, password=hunter2],[secret=hunter2, x],[auth, Bearer hunter2x]")))
  end)

  it("takes the values out of statements", function()
    assert.same({
      ["db.statement"] = "select a from t where b=<redacted:literal> and c=<redacted:literal>",
      ["db.query.parameter.0"] = "<redacted:literal>", ["db.query.text"] = "exec p <redacted:literal>", other = "it's 'x'",
    }, (parse("[db.statement, select a from t where b='hunter2' and c=4711 -- hunter2],[db.query.text, exec p 'hunter2],"
      .. "[db.query.parameter.0, hunter2],[other, it's 'x']")))
  end)

  it("applies the operator's patterns", function()
    redaction.configure { "[a-z.]+@example\\.com" }
    local got = parse("[mail, jane.doe@example.com]")
    redaction.configure {}
    assert.same({ mail = "<redacted:sensitive>" }, got)
  end)

  it("is valid UTF-8 and short", function()
    local got = parse("[lone, a\xED\xA0\x80b],[long, " .. ("é"):rep(1000) .. "],[emoji, \u{1F600}]")
    assert.is_truthy(utf8.len(got.lone))
    assert.equal("\u{1F600}", got.emoji)
    assert.is_true(#got.long <= 1024 and utf8.len(got.long) ~= nil)
    assert.equal("é...", got.long:sub(-5))
  end)

  it("drops the half word at the end of a text that the engine cut", function()
    local got = parse("[a, " .. ("x "):rep(40) .. "AKIAIOSFODNN...", 64)
    assert.is_nil(got.a:find("AKIA", 1, true))
    assert.equal("...", got.a:sub(-3))
  end)

  it("keeps so many and no more", function()
    local parts = {}
    for i = 1, 100 do parts[i] = ("[k%d, %d]"):format(i, i) end
    local got, order = parse(table.concat(parts, ","))
    assert.same({ 64, "64" }, { #order, got.k64 })
    assert.is_nil(got.k65)
  end)
end)
