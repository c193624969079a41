-- SPDX-License-Identifier: MIT
-- Forests of made-up spans: links by ids alone, what is left of a span beside its children, the critical path.
local forest = require("collectors.activities.forest")

local MS <const> = 1000000

-- { id, parent, from ms, to ms, operation? } in the order in which they were kept.
local function spans(list)
  local out = {}
  for i, s in ipairs(list) do
    out[i] = {
      span_id = s[1] and (#s[1] == 1 and s[1]:rep(16) or s[1]) or nil,
      parent_span_id = s[2] and (#s[2] == 1 and s[2]:rep(16) or s[2]) or nil,
      start_unix_ns = s[3] * MS, took_ns = s[4] and (s[4] - s[3]) * MS or nil, source = "S", operation = s[5] or s[1] or "?", tags = {},
      ordinal = i,
    }
  end
  return out
end

local function build(list) return forest.build(spans(list)) end

-- "operation depth link residual" of each node in order.
local function told(tree)
  local rows = {}
  for i, node in ipairs(tree.nodes) do
    rows[i] = ("%s %d %s %s"):format(node.span.operation, node.depth, node.link, node.residual_ns and node.residual_ns // MS or "-")
    assert.equal(i - 1, node.index)
  end
  return rows
end

local function path(tree)
  local names = {}
  for i, node in ipairs(tree.path) do names[i] = node.span.operation end
  return table.concat(names, " > ")
end

describe("collectors.activities.forest", function()
  it("puts parents before children whatever the order in which they ended, siblings by start", function()
    local tree = build { { "c", "b", 30, 40 }, { "d", "a", 60, 70 }, { "b", "a", 20, 50 }, { "a", nil, 0, 100 } }
    assert.same({ "a 0 root 60", "b 1 linked 20", "c 2 linked 10", "d 1 linked 10" }, told(tree))
    assert.equal("a", tree.longest.span.operation)
  end)

  it("subtracts children side by side once, and clips them to their parent", function()
    local tree = build {
      { "a", nil, 100, 200 }, { "b", "a", 110, 150 }, { "c", "a", 120, 160 }, { "d", "a", 190, 290 }, { "e", "a", 10, 105 },
      { "f", "a", 130, 140 },
    }
    -- covered: 100-105, 110-160, 190-200
    assert.equal("a 0 root 35", told(tree)[1])
  end)

  it("never has two siblings in the critical path", function()
    local tree = build { { "a", nil, 0, 100 }, { "b", "a", 0, 40 }, { "c", "a", 40, 100 }, { "d", "c", 50, 60 } }
    assert.same({ "a 0 root 0", "b 1 linked 40", "c 1 linked 50", "d 2 linked 10" }, told(tree))
    assert.equal("a > c > d", path(tree))
    assert.equal(60 * MS, tree.path_ns)
  end)

  it("takes the first in order when two chains are alike", function()
    local tree = build { { "a", nil, 0, 100 }, { "c", "a", 50, 60 }, { "b", "a", 20, 30 } }
    assert.equal("a > b", path(tree))
  end)

  it("takes the root whose chain is longest", function()
    local tree = build { { "a", nil, 0, 10 }, { "b", nil, 0, 30 }, { "c", "a", 100, 125 } }
    assert.equal("a > c", path(tree)) -- 10 + 25: c ran after a had ended
    assert.equal(35 * MS, tree.path_ns)
  end)

  it("makes roots of orphans, malformed ids, duplicates and circles, and says which is which", function()
    local tree = build {
      { "a", nil, 0, 9 }, { "b", "9", 1, 2, "orphan" }, { "xyz", "a", 2, 3, "malformed span" }, { nil, "a", 3, 4, "no id" },
      { "c", "nonsense", 4, 5, "malformed parent" }, { "d", "a", 5, 6, "twice" }, { "d", "a", 6, 7, "twice" },
      { "e", "d", 7, 8, "of twice" }, { ("0"):rep(16), "a", 8, 9, "zeros" },
    }
    assert.same({
      "a 0 root 9", "orphan 0 orphan 1", "malformed span 0 malformed-span 1", "no id 0 malformed-span 1",
      "malformed parent 0 malformed-parent 1", "twice 0 duplicate 1", "twice 0 duplicate 1", "of twice 0 orphan 1",
      "zeros 0 malformed-span 1",
    }, told(tree))
    assert.same({ root = 1, orphan = 2, ["malformed-span"] = 3, ["malformed-parent"] = 1, duplicate = 2 }, tree.links)
  end)

  it("cuts a circle and keeps what hangs below it", function()
    local tree = build { { "a", "c", 0, 9 }, { "b", "a", 1, 8 }, { "c", "b", 2, 7 }, { "d", "c", 3, 4 }, { "e", "e", 5, 6 } }
    assert.same({ "a 0 cycle 9", "b 0 cycle 7", "c 0 cycle 4", "d 1 linked 1", "e 0 cycle 1" }, told(tree))
  end)

  it("gives no residual to a span that does not tell how long it took", function()
    local tree = build { { "a", nil, 0 }, { "b", "a", 10, 20 } }
    assert.same({ "a 0 root -", "b 1 linked 10" }, told(tree))
    assert.same({ 1, 10 * MS }, { tree.untimed, tree.path_ns })
  end)

  it("orders spans that are alike in all else by their place", function()
    local tree = build { { nil, nil, 0, 1, "x" }, { nil, nil, 0, 1, "x" } }
    assert.same({ 1, 2 }, { tree.nodes[1].span.ordinal, tree.nodes[2].span.ordinal })
  end)

  it("is empty for no spans", function()
    local tree = build {}
    assert.same({ 0, 0 }, { #tree.nodes, #tree.path })
    assert.is_nil(tree.path_ns)
  end)

  it("does a chain of ten thousand, and ten thousand children of one", function()
    local chain, wide = {}, { { "a", nil, 0, 20000 } }
    for i = 1, 10000 do
      chain[i] = { ("%016x"):format(i), i > 1 and ("%016x"):format(i - 1) or nil, i, 20001 - i }
      wide[i + 1] = { ("%016x"):format(i), "a", i, i + 2 }
    end
    local deep = build(chain)
    assert.same({ 9999, 10000, 19999 * MS }, { deep.nodes[10000].depth, #deep.path, deep.path_ns })
    assert.equal((20000 - 10001) * MS, build(wide).nodes[1].residual_ns)
  end)
end)
