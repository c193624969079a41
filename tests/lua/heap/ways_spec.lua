-- SPDX-License-Identifier: MIT
-- What is cut in views that tell ways from roots: a way of more than 64 objects, and more collectible contexts than get a way.
local json = require("lunette.json")
local sys = require("lunette.sys")

local function view(name) return assert(loadfile(("%s/lua/views/heap-snapshot/%s.lua"):format(sys.home, name)))() end

local function node(i) return { name = "T" .. i, address = 0x1000 + i, size = 24, retained = 24 } end

-- A graph in which the way to any object is `length` objects long; of it no more than asked are told.
local function graph_of(length)
  return {
    object = function(_, address) return { address = address, name = "T", retained = 24 } end,
    ways = function(_, asked)
      local way = { kind = "StaticVar", root = "App.Cache", length = length }
      for i = 1, math.min(length, asked.depth) do way[i] = node(i) end
      return { way }
    end,
  }
end

local function artifact_of(length, sections)
  return { origin = "dump", graph = graph_of(length), info = { roots = 1, reached = 1, bytes = 100 }, sections = sections or {} }
end

describe("ways of a heap #unit", function()
  it("gcroot stops at 64 objects and says so", function()
    local project = view("gcroot").project
    for length, cut in pairs { [64] = false, [65] = true, [1000] = true } do
      local data = assert(project(artifact_of(length), { address = "0x1234" }, {}))
      assert.same({ math.min(length, 64), cut }, { #data.chain, data.truncated })
      assert.same({ "StaticVar", "App.Cache" }, { data.chain[1].rootKind, data.chain[1].rootName })
    end
  end)

  it("gcroot says in words what holds an object, and tells an address in one form", function()
    local project = view("gcroot").project
    for length, text in pairs { "refers to it directly.", "keeps it over 1 reference.", "keeps it over 2 references." } do
      local data, extras = project(artifact_of(length), { address = "4660" }, {})
      assert.same({ "StaticVar App.Cache " .. text, "0x1234", "0x1234" }, { extras.summary, data.address, extras.fields.address })
    end
  end)

  it("alc lists every context, those that can be collected first, and gives 16 of them a way", function()
    local rows = json.array({})
    for i = 1, 40 do
      rows[i] = { name = "c" .. i, typeFullName = "Context", address = ("0x%x"):format(i), isCollectible = i > 10, isDefault = i == 1,
        isUnloading = i > 38, assemblies = json.array({}), loaderAllocatorAddress = i > 10 and ("0x%x"):format(0x100 + i) or json.null }
    end
    local data, extras = view("alc").project(artifact_of(3, { alc = { rows = rows } }), {}, {})
    local with_way = 0
    for i, row in ipairs(data.contexts) do
      assert.equal(i <= 30, row.isCollectible)
      with_way = with_way + (row.retention and 1 or 0)
    end
    assert.same({ 40, 16 }, { #data.contexts, with_way })
    assert.matches("40 load contexts; 2 of them were told to unload", extras.summary)
  end)
end)
