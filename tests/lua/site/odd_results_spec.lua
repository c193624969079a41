-- SPDX-License-Identifier: MIT
-- What functions of a site's files give, when it is not what it should be: what adds to an answer costs what it adds, what is the answer is
-- an error of the answer's shape, in words for who wrote the script. Nothing of it is met on the wire.
local build = require("lunette.generation.build")
local context = require("lunette.mcp.context")
local generation = require("lunette.generation")
local json = require("lunette.json")
local kinds = require("lunette.kinds")
local kit = require("support.site_kit")
local run = require("lunette.mcp.run")
local scopes = require("lunette.scopes")
local site = require("lunette.site")
local sys = require("lunette.sys")

local RECORDING <const> = sys.home .. "/share/shop.nettrace"
local COLLECTOR <const> = 'return collector { kind = "mine", collect = function() return { n = 1 } end,\n%s }'
local SIGNAL <const> = 'return signal { handle = "mine", id = "x.s",\nof = function() return %s end }'
local TOOL <const> = 'return tool { name = "mine", description = "d", risk = "low", run = function() return {} end,\n%s }'

describe("what a site's functions give #unit", function()
  local dir, was, product

  setup(function()
    was = generation.newest()
    product = build.build(site.named({ site.PRODUCT }))
  end)
  before_each(function() dir = kit.folder() end)
  after_each(function() generation.use(was) end)

  local function call(files, tool, arguments)
    for path, body in pairs(files) do kit.write(dir, path, body) end
    local g = build.build(site.named({ site.PRODUCT, dir }), product)
    assert.same({}, g.problems)
    generation.use(g)
    kinds.use(generation.current)
    local ctx = context.new({ principal = scopes.principal("t", { "eventpipe", "read-counters" }), transport = "cli" }, function() end)
    local kind, result = run.invoke(ctx, function(c, a) return g.tools[tool]:handle(c, a) end, arguments)
    assert.equal("result", kind, type(result) == "table" and result.message or nil)
    return json.decode(result.structuredContent[1])
  end

  local function collect(files) return call(files, "collect_events", { kind = "mine", traceFilePath = RECORDING }) end

  for field, says in pairs {
    ["signals = function() return 5 end"] = "'signals' of the collector mine failed and is missing here: it must give a list",
    ["signals = function() return { {} } end"] = "its element 1 is no signal",
    ['signals = function() return { { signal = "a", summary = "b", salience = 0/0 } } end'] = "has a salience that is no number",
    ['signals = function() return { { signal = "a", summary = "b", salience = 1, buckets = { 5 } } } end'] = "1 has a bucket that is none",
    ["hints = function() return { 5 } end"] = "'hints' of the collector mine failed and is missing here: its element 1 is no hint",
    ['hints = function() return { { nextTool = "x", reason = "r", suggestedArguments = { print } } } end'] = "as its suggestedArguments",
  } do
    it("costs a collector what it adds: " .. field, function()
      local e = collect { ["collectors/mine.lua"] = COLLECTOR:format(field) }
      assert.matches(says, e.summary, 1, true)
      assert.equal(1, e.data.mine.n)
      assert.is_nil(e.error)
    end)
  end

  for found, says in pairs {
    ['{ summary = "s", salience = 0/0, buckets = {} }'] = "failed and is missing here: it needs a 'salience' between",
    ['{ summary = "s", salience = 1, buckets = {}, next = 5 }'] = "The signal x.s failed and is missing here: ",
    ['{ summary = "s", salience = 1, buckets = {}, next = { view = "summary" } }'] = "The signal x.s failed and is missing here: ",
  } do
    it("costs a signal itself: " .. found, function()
      local e = collect { ["collectors/mine.lua"] = COLLECTOR:format(""), ["signals/s.lua"] = SIGNAL:format(found) }
      assert.matches(says, e.summary, 1, true)
      assert.equal(1, e.data.mine.n)
      assert.is_nil(e.signals)
    end)
  end

  for field, says in pairs {
    ['check = function() return nil, { rpc_code = "x", message = "m" } end'] = "the rpc_code of its error must be a whole number",
    ['check = function() return nil, { rpc_code = -1, message = "m", rpc_data = print } end'] = "the rpc_data of its error cannot be told",
    ['check = function() return nil, { kind = "NotFound", message = "m", hints = 5 } end'] = "the hints of its error must be a list",
    ["check = function() error('no') end"] = "tools/mine.lua:2: no. The script is at fault",
    ["call_scopes = function() return nil, { rpc_code = {}, message = 'm' } end"] = "the rpc_code of its error must be a whole number",
  } do
    it("is an error of the answer: " .. field, function()
      local e = call({ ["tools/mine.lua"] = TOOL:format(field) }, "mine", {})
      assert.equal("Internal", e.error.kind)
      assert.equal("ScriptError", e.error.detail)
      assert.matches(says, e.error.message, 1, true)
    end)
  end

  it("is told where a program holds itself", function()
    local e = collect { ["collectors/mine.lua"] = [[return collector { kind = "mine",
      program = function() local t = {} t.t = t return t end }]] }
    assert.matches("a declaration may hold at most", e.error.message, 1, true)
  end)
end)
