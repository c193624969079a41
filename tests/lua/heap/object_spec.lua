-- SPDX-License-Identifier: MIT
-- What the view `object` shows of a field's value: by the flag and the scope, by its text, and by the names beside it.
local scopes = require("lunette.scopes")
local sys = require("lunette.sys")
local view = require("lunette.view")
local walk = require("heap.walk")

local SECRET <const>, HIDDEN <const> = "<redacted:sensitive>", "<redacted:metadata-only>"

local function text(name, value, more)
  local row = { name = name, typeFullName = "System.String", value = value, isValue = true, objectAddress = "0x10",
    referencedTypeFullName = "System.String" }
  for k, v in pairs(more or {}) do row[k] = v end
  return row
end

describe("heap-snapshot/object #unit", function()
  local before = walk.object
  after_each(function() walk.object = before end)

  --- Values by name of an object with these fields, as a caller with or without the scope sees them.
  local function shown(rows, list, asked)
    local one = view.find("heap-snapshot", "object")
      or assert(loadfile(sys.home .. "/lua/views/heap-snapshot/object.lua"))()
    walk.object = function()
      return { address = "0x8", typeFullName = "Shop.Settings", size = 40, generation = "gen2", isArray = false, isString = false,
        fields = rows }
    end
    local artifact = { origin = "dump", graph = {} }
    local ctx = { principal = scopes.principal("spec", list or { "heap-read", "sensitive-heap-read" }) }
    local data = assert(one.project(artifact, { address = "0x8", includeSensitiveValues = asked ~= false }, {}, ctx))
    local values = {}
    for _, field in ipairs(data.fields) do values[field.name] = field.value end
    return values
  end

  local ROWS <const> = {
    text("<Password>k__BackingField", "hunter2"), text("title", "a title"), text("dsn", "Server=db;Password=hunter2"),
    { name = "count", typeFullName = "System.Int32", value = "7", isValue = true },
    text("next", "null", { isValue = false, objectAddress = 0 }),
  }

  it("hides every value without flag and scope", function()
    for _, values in ipairs { shown(ROWS, { "heap-read" }), shown(ROWS, { "root" }), shown(ROWS, nil, false) } do
      for _, name in ipairs { "<Password>k__BackingField", "title", "dsn", "count" } do assert.equal(HIDDEN, values[name], name) end
      assert.equal("null", values.next)
    end
  end)

  it("hides secrets by their text and by the name of their field", function()
    local values = shown(ROWS)
    assert.same({ SECRET, "a title", "Server=db;Password=" .. SECRET, "7" },
      { values["<Password>k__BackingField"], values.title, values.dsn, values.count })
  end)

  it("hides a value whose key is one of a secret", function()
    for _, names in ipairs { { "key", "value" }, { "<Key>k__BackingField", "<Value>k__BackingField" }, { "inner._key", "inner._value" } } do
      local values = shown { text(names[1], "ConnectionStrings:Password"), text(names[2], "hunter2"), text("other.value", "plain") }
      assert.same({ "ConnectionStrings:Password", SECRET, "plain" },
        { values[names[1]], values[names[2]], values["other.value"] }, names[1])
      assert.equal("hunter2", shown({ text(names[1], "Colour"), text(names[2], "hunter2") })[names[2]])
    end
  end)

  it("says of an address that is no object what gcroot says", function()
    local errors = require("lunette.errors")
    local one = view.find("heap-snapshot", "object") or assert(loadfile(sys.home .. "/lua/views/heap-snapshot/object.lua"))()
    local ctx = { principal = scopes.principal("spec", { "heap-read" }) }
    walk.object = function() return nil, errors.new("NotFound", "no object begins at 0x10") end
    local none, err = one.project({ origin = "dump", graph = {} }, { address = "0x10" }, { process_id = 7 }, ctx)
    local _, other = require("heap.objects").find({ graph = { object = function() end } }, "0x10")
    assert.is_nil(none)
    assert.same({ "InvalidArgument", "address" }, { err.kind, err.detail })
    assert.same({ err.kind, err.detail, (err.message:gsub(" begins", " of this snapshot begins")) },
      { other.kind, other.detail, other.message })
    walk.object = function() return nil, errors.new("ProcessNotFound", "process 7 is not there") end
    _, err = one.project({ origin = "dump", graph = {} }, { address = "0x10" }, { process_id = 7 }, ctx)
    assert.equal("ProcessExited", err.kind)
  end)
end)
