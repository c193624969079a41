-- SPDX-License-Identifier: MIT
-- Which of our own tools may run as tasks: collect_sample, collect_events and inspect_heap (a live process or a dump), and no other.
local fs = require("lunette.fs")

local MAY <const> = { collect_sample = true, collect_events = true, inspect_heap = true }

local function definitions()
  local list = {}
  local folder = package.searchpath("tools.collect_events", package.path):match("^(.*)/")
  for _, file in ipairs(fs.list(folder)) do
    local name = file:match("^([%w_]+)%.lua$")
    if name then list[name] = require("tools." .. name):definition() end
  end
  return list
end

describe("our tools", function()
  it("are tasks where they are long, and nowhere else", function()
    local seen = 0
    for name, def in pairs(definitions()) do
      seen = seen + 1
      if MAY[name] then
        assert.truthy(def.task, name)
      else
        assert.is_nil(def.task, name)
      end
    end
    assert.is_true(seen >= 3)
  end)

  it("collect_events is one with every kind, and leaves it open with a word that is none", function()
    local def = definitions().collect_events
    local kinds = def.inputSchema.properties.kind.enum
    assert.is_true(#kinds >= 20)
    for _, kind in ipairs(kinds) do assert.is_true(def.task({ kind = kind }), kind) end
    assert.is_true(def.task({}), "the default")
    assert.is_nil(def.task({ kind = "no-such-kind" }))
  end)

  local heap = definitions().inspect_heap
  if not heap then
    pending("inspect_heap is one with a live process and a dump: it is not built yet")
    return
  end
  it("inspect_heap is one with a live process and a dump", function()
    assert.same({ true, true, false }, { heap.task({ source = "live" }), heap.task({ source = "dump" }), heap.task({ source = "gcdump" }) })
  end)
end)
