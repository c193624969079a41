-- SPDX-License-Identifier: MIT
-- The built-in runner of specs: each assertion holds and fails as busted's does, hooks run in order, and what fails is told.
local kit = require("support.site_kit")
local mini = require("lunette.testing.mini")

-- Runs a spec's text; what it counted, what it wrote.
local function run(body, filter)
  local dir = kit.folder()
  kit.write(dir, "some_spec.lua", body)
  local written = {}
  local seen = mini.run { roots = { dir }, filter = filter or {}, write = function(text) written[#written + 1] = text end }
  return seen, table.concat(written)
end

-- Assertions that hold; each with its opposite fails.
local HOLD <const> = {
  "assert.equal(1, 1)", "assert.are.equal('a', 'a')", "assert.same({ 1, { a = {} } }, { 1, { a = {} } })", "assert.is_true(true)",
  "assert.is_false(false)", "assert.is_nil(nil)", "assert.truthy(0)", "assert.is_truthy('x')", "assert.falsy(nil)",
  "assert.near(1, 1.05, 0.1)", "assert.matches('%d+', 'a12')", "assert.has_error(function() error('x') end)",
  "assert.has.error(function() error('x', 0) end, 'x')", "assert.is_function(print)", "assert.is_table({})", "assert.is_string('')",
  "assert.is_number(1)", "assert.are_not.equal(1, 2)", "assert.is_not_nil(1)", "assert.not_same({}, { 1 })", "assert.is_not.truthy(false)",
  "assert(1)",
}
local FAIL <const> = {
  "assert.equal(1, 2)", "assert.same({ 1 }, { 1, 2 })", "assert.same({ 1, 2 }, { 1 })", "assert.is_true(1)", "assert.is_false(nil)",
  "assert.is_nil(false)", "assert.truthy(nil)", "assert.falsy(0)", "assert.near(1, 1.2, 0.1)", "assert.near(1, 'x', 0.1)",
  "assert.matches('%d+', 'a')", "assert.has_error(function() end)", "assert.has_error(function() error('x', 0) end, 'y')",
  "assert.has_no.error(function() error('x') end)", "assert.are_not.equal(1, 1)", "assert.is_not_nil(nil)", "assert(nil)",
  "assert(false, 'why')", "assert.no_such_thing(1)", "error('thrown')", "local t = nil; return t.x",
}

describe("the built-in runner", function()
  it("holds what holds", function()
    local body = {}
    for i, line in ipairs(HOLD) do body[i] = ("it('%d', function() %s end)"):format(i, line) end
    local seen, text = run(table.concat(body, "\n"))
    assert.same({ #HOLD, 0 }, { seen.ran, seen.failed }, text)
  end)

  it("fails what fails", function()
    local body = {}
    for i, line in ipairs(FAIL) do body[i] = ("it('%d', function() %s end)"):format(i, line) end
    local seen, text = run(table.concat(body, "\n"))
    assert.equal(#FAIL, seen.failed, text)
    assert.matches("expected 1\n     got 2", text, 1, true)
    assert.matches("there is no such assertion", text, 1, true)
    assert.matches("some_spec.lua:1: expected", text, 1, true)
  end)

  it("runs hooks around each test, the outer ones outside, also when the test fails", function()
    local _, text = run [[
local log = {}
local function say(word) return function() log[#log + 1] = word end end
describe("outer", function()
  setup(say("S")) teardown(function() error(table.concat(log, " "), 0) end)
  before_each(say("b1")) after_each(say("a1"))
  describe("inner", function()
    before_each(say("b2")) after_each(say("a2"))
    it("one", say("t"))
    it("two", function() error("x", 0) end)
  end)
end)]]
    assert.matches("S b1 b2 t a2 a1 b1 b2 a2 a1", text, 1, true)
  end)

  it("counts what is pending, filters by the full name, and tells of a block or file that cannot run", function()
    local seen = run("describe('a', function() it('b', function() end) it('c', function() end) pending('d') end)", { "a b" })
    assert.same({ 1, 0, 0 }, { seen.ran, seen.failed, seen.pending })
    seen = run("pending('x')")
    assert.same({ 0, 1 }, { seen.ran, seen.pending })
    local text
    seen, text = run("describe('broken', function() error('here') end)")
    assert.equal(1, seen.failed)
    assert.matches("here", text, 1, true)
    seen, text = run("it('x'")
    assert.equal(1, seen.failed)
    assert.matches("some_spec.lua:1", text, 1, true)
  end)

  it("runs each test as a task: it may wait, and what it opened is closed", function()
    local seen, text = run [[
local loop = require("lunette.loop")
it("waits", function()
  loop.sleep_ms(1)
  loop.on_cleanup(function() CLOSED_BY_SPEC = true end)
end)
it("is closed", function()
  for _ = 1, 500 do
    if CLOSED_BY_SPEC then break end
    loop.sleep_ms(10)
  end
  assert.is_true(CLOSED_BY_SPEC)
end)]]
    assert.same({ 2, 0 }, { seen.ran, seen.failed }, text)
  end)

  it("looks into folders below", function()
    local dir = kit.folder()
    kit.write(dir, "deep/er/x_spec.lua", "it('x', function() end)")
    kit.write(dir, "deep/helper.lua", "error('not a spec')")
    local seen = mini.run { roots = { dir }, filter = {}, write = function() end }
    assert.same({ 1, 0 }, { seen.ran, seen.failed })
  end)
end)
