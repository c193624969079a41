-- SPDX-License-Identifier: MIT
-- Identities of methods: names without their instantiation, tokens, ids of modules, lines.
local identity = require("samplers.identity")
local sources = require("samplers.sources")
local sys = require("lunette.sys")

local MVID <const> = "a0ae0665-4f7c-44cd-b2cc-87f7d3711e29"

local function frame(more)
  local f = { kind = "managed", type = "A.B", name = "M", method = "A.B.M()", token = 0x06000012 }
  for k, v in pairs(more or {}) do f[k] = v end
  return f
end

describe("samplers.identity", function()
  it("takes the arguments off generic names, however they nest", function()
    local cases = {
      { "A.B", "A.B", {} }, { "List`1[System.Int32]", "List`1", { "System.Int32" } },
      { "D`2[System.String,List`1[A,B]]", "D`2", { "System.String", "List`1[A,B]" } }, { "System.Int32[]", "System.Int32[]", {} },
      { "X`1[System.Int32[,]]", "X`1", { "System.Int32[,]" } }, { "Outer`1+Inner[System.Byte]", "Outer`1+Inner", { "System.Byte" } },
    }
    for _, case in ipairs(cases) do
      local base, arguments = identity.split(case[1])
      assert.same({ case[2], case[3] }, { base, arguments })
    end
  end)

  it("is the pair of module version id and token, with names beside it", function()
    local found = identity.of(frame(), { name = "b", path = "/app/b.dll", mvid = MVID })
    assert.same({ "M", 0, "b", "/app/b.dll", MVID, 0x06000012, "A.B" }, { found.methodName, found.genericArity, found.moduleName,
      found.modulePath, found.moduleVersionId, found.metadataToken, found.typeFullName })
    assert.is_nil(found.source)
    assert.is_nil(identity.of(frame { token = 0 }, { name = "b", mvid = MVID }).moduleVersionId) -- half a pair is none
  end)

  it("tells closed instantiations, and not those that several share", function()
    local closed = identity.of(frame { type = "A.L`1[System.Int32]", name = "Max[System.Int64]" })
    assert.same({ "A.L`1", "Max", 1 }, { closed.typeFullName, closed.methodName, closed.genericArity })
    assert.same({ { "System.Int32" }, { "System.Int64" } }, { { table.unpack(closed.genericTypeArguments.type) },
      { table.unpack(closed.genericTypeArguments.method) } })
    assert.is_nil(identity.of(frame { type = "A.L`1[System.__Canon]" }).genericTypeArguments)
    assert.is_nil(identity.of(frame()).genericTypeArguments)
  end)

  it("is nothing for native code, the root and an address", function()
    for _, kind in ipairs { "native", "kernel", "root", "unresolved" } do assert.is_nil(identity.of(frame { kind = kind })) end
    assert.is_table(identity.of(frame { kind = "dynamic", token = 0, type = "" }))
  end)

  it("has the line of its source", function()
    local found = identity.of(frame(), nil, { file = "/src/a.cs", line = 7, end_line = 8, url = "https://example.com/a.cs" })
    assert.same({ "/src/a.cs", 7, 8, "https://example.com/a.cs" },
      { found.source.file, found.source.startLine, found.source.endLine, found.source.sourceLink })
  end)
end)

describe("samplers.sources", function()
  it("reads no id from a file that is not there, or is not the one that was loaded", function()
    local artifact = { modules = {
      { name = "gone", path = "/nonexistent/gone.dll" }, { name = "text", path = sys.home .. "/README.md" }, { name = "nowhere" },
      { name = "relative", path = "a.dll" },
    } }
    assert.is_number(sources.modules(artifact))
    for _, module in ipairs(artifact.modules) do assert.is_nil(module.mvid, module.name) end
  end)

  it("finds the PDB beside a bundle that holds the module, and no PDB of another", function()
    local folder = sys.home .. "/tests/data/symbols/"
    local function source_of(file, guid)
      local artifact = { notes = {}, hotspots = { { frame = 1 } }, modules = {
        { name = "Shop", path = folder .. file, pdb_guid = guid, pdb_age = 1, pdb_path = "/build/obj/Shop.pdb" },
      } }
      artifact.profile = {
        top_methods = function() return {} end,
        frame = function() return { module_index = 1, token = 0x06000005, addresses = { { il_offset = 1 } } } end,
      }
      sources.add({}, artifact, { resolveSourceLines = true, maxResolvedSources = 5 })
      return artifact.sources[1]
    end
    local guid = "802e6900-a8f5-4e1f-8e8a-f81bb46e5df0"
    local found = source_of("bundled.dll", guid)
    assert.same({ "/src/Shop.cs", 51, 50 }, { found.file, found.line, found.start_line })
    assert.is_nil(source_of("bundled.dll", "9" .. guid:sub(2)))
  end)

  it("looks for no line when none is wanted", function()
    local artifact = { modules = {}, profile = {} }
    local took = sources.add({}, artifact, { resolveSourceLines = false, maxResolvedSources = 5 })
    assert.same({ 0, nil }, { took.lines_ms, artifact.sources })
  end)
end)
