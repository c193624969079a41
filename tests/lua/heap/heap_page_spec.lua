-- SPDX-License-Identifier: MIT
-- The page of heaps as a browser runs it: what it draws and says, against the tree of what keeps what and the view of it.
local browser = require("support.browser")
local export = require("heap.export")
local handles = require("lunette.handles")
local json = require("lunette.json")
local kit = require("support.framework_kit")
local sys = require("lunette.sys")
local view = require("lunette.view")

local inspect_heap = require("tools.inspect_heap")
local query = require("tools.query_snapshot")

local HEAD <const>, GAP <const> = 17, 2 -- pixels
local DICTIONARY <const> = "System.Collections.Generic.Dictionary<System.String,Lunette.Target.CustomerSession>"

local function ctx()
  local c = kit.ctx { scopes = { "root", "sensitive-heap-read" } }
  c.transport = "cli"
  return c
end

local function open()
  local path = sys.home .. "/tests/data/heap/leak.gcdump"
  local envelope = kit.call(inspect_heap, { source = "dump", dumpFilePath = path }, ctx())
  return handles.get(envelope.handle)
end

-- The tree out of the page's own data: { name, count, value, own, kids }, the widest kids first.
local function tree_of(page)
  local data = assert(json.decode(page:match('<script type="application/json" id="data">(.-)</script>')))
  local nodes = {}
  for i = 1, #data.v do
    local name = i == 1 and "all roots" or data.n[i] < 0 and "(smaller ones)" or data.names[data.n[i] + 1]
    nodes[i] = { name = name, count = data.c[i], value = data.v[i], own = data.o[i], kids = {}, number = i }
    if i > 1 then table.insert(nodes[data.p[i] + 1].kids, nodes[i]) end
  end
  for _, node in ipairs(nodes) do
    table.sort(node.kids, function(a, b) return a.value > b.value or a.value == b.value and a.number < b.number end)
  end
  return nodes[1], data
end

local function bytes(n)
  local units, k = { "B", "KiB", "MiB" }, 1
  while n >= 1024 do n, k = n / 1024, k + 1 end
  local digits = k == 1 and 0 or n < 10 and 2 or 1
  return ("%%.%df %%s"):format(digits):format(math.floor(n * 10 ^ digits + 0.5) / 10 ^ digits, units[k]) -- halves go up, as in a browser
end

local function tip_of(node, total)
  local one = node.count == 1
  return {
    node.name, ("%d object%s, %s of their own"):format(node.count, one and "" or "s", bytes(node.own)),
    ("keep%s %s alive: %.1f %% of what can be reached"):format(one and "s" or "", bytes(node.value), 100 * node.value / total),
  }
end

-- Every box lies in the one of what keeps it, in order, and has its share of the room in area. How many there are.
local function agree(boxes, root, total)
  local placed = {}
  for i, box in ipairs(boxes) do
    local up
    for k = #placed, 1, -1 do
      local p = placed[k]
      local within = box.x + box.w <= p.x + p.w + 0.01 and box.y + box.h <= p.y + p.h + 0.01
      if not up and box.x >= p.x and box.y >= p.y and within then up = p end
    end
    assert(up or i == 1, "in no box: " .. box.detail)
    local node = up and table.remove(up.left, 1) or root
    local tip = { box.tip[1], box.tip[2], box.tip[3] }
    if up then
      local room = (up.w - 2 * GAP) * (up.h - HEAD - GAP) * math.min(1, up.below / math.max(1, up.node.value)) / up.below
      while room * node.value < 1.5 * math.max(up.w, up.h) and table.concat(tip) ~= table.concat(tip_of(node, total)) do
        node = table.remove(up.left, 1) -- too thin to be drawn
      end
      assert.near(room * node.value, box.w * box.h, room * up.below / 500 + 1, box.detail)
    end
    assert.same(tip_of(node, total), tip)
    box.node, box.below, box.left = node, 0, {}
    for k, kid in ipairs(node.kids) do box.left[k], box.below = kid, box.below + kid.value end
    placed[#placed + 1] = box
  end
  return #placed
end

local STEPS <const> = [[
  const $ = probe.$, out = { width: $("canvas").clientWidth, height: $("canvas").clientHeight };
  out.title = $("title").textContent; out.note = $("note").textContent;
  out.all = probe.drawn.length;
  out.boxes = probe.boxes(0);
  out.found = probe.type("customersession$");
  out.marked = probe.boxes(0).filter((b) => b.fill === "#d4359b").map((b) => b.tip[0]);
  out.odd = probe.type("Dictionary<("); out.none = probe.type("NoSuchType"); out.cleared = probe.type("");
  const kept = out.boxes.find((b) => b.tip[0].startsWith("System.Collections.Generic.Dictionary<System.String,Lunette"));
  probe.mouse("mousemove", kept.x + kept.w / 2, kept.y + 8);
  probe.mouse("click", kept.x + kept.w / 2, kept.y + 8);
  out.path = $("path").textContent;
  out.zoomed = probe.boxes(0);
  $("up").click();
  out.upPath = $("path").textContent;
  probe.key("Escape");
  out.back = probe.boxes(0).map((b) => b.tip[0]);
  $("sunburst").click();
  out.arcs = probe.drawn; out.pressed = $("sunburst").getAttribute("aria-pressed") + $("treemap").getAttribute("aria-pressed");
  const ring = Math.min(out.width, out.height) / 2 / 8 - 1;
  probe.mouse("mousemove", out.width / 2 + 1.5 * ring * Math.sin(0.2), out.height / 2 - 1.5 * ring * Math.cos(0.2));
  out.pointed = $("detail").textContent;
  return out;
]]

describe("the page of heaps", function()
  after_each(handles.clear)

  it("draws what keeps what, searches, zooms, and does it in rings", function()
    local entry = open()
    local html = assert(export.content(entry))
    local page, why = browser.run(html, STEPS)
    if not page then return pending(why) end
    local root, data = tree_of(html)
    assert.same({ data.title, entry.artifact.info.reached_bytes }, { page.title, root.value })
    assert.is_true(agree(page.boxes, root, data.total) > 20)

    local largest = root.kids[1]
    view.register(assert(loadfile(sys.home .. "/lua/views/heap-snapshot/dominators.lua"))())
    local asked = kit.call(query, { handle = entry.id, view = "dominators" }, ctx()).data.dominators.tree
    assert.same({ DICTIONARY, DICTIONARY }, { largest.name, asked.children[1].typeFullName })
    assert.equal(asked.children[1].retainedBytes, largest.value)

    local sum = 0
    local function match(node)
      if node.name:lower():find("customersession$") then sum = sum + node.value else for _, kid in ipairs(node.kids) do match(kid) end end
    end
    match(root)
    assert.is_true(sum > 0)
    assert.equal(("matched: %s (%.1f %%)"):format(bytes(sum), 100 * sum / data.total), page.found)
    assert.is_true(#page.marked > 0)
    for _, name in ipairs(page.marked) do assert.matches("CustomerSession$", name) end
    assert.same({ "matched: 0 B (0.0 %)", "matched: 0 B (0.0 %)", "" }, { page.odd, page.none, page.cleared })

    assert.same({ "all roots ▸ Dictionary<String,CustomerSession>", "all roots" }, { page.path, page.upPath })
    assert.same({ 0, 0, page.width, page.height }, { page.zoomed[1].x, page.zoomed[1].y, page.zoomed[1].w, page.zoomed[1].h })
    assert.is_true(agree(page.zoomed, largest, data.total) > 5)
    for i, box in ipairs(page.boxes) do assert.equal(box.tip[1], page.back[i]) end

    assert.equal("truefalse", page.pressed)
    local ring, at, seen = math.min(page.width, page.height) / 2 / 8 - 1, -math.pi / 2, 0
    for _, arc in ipairs(page.arcs) do
      if math.abs(arc.r - 2 * ring) < 0.01 then -- around the middle: what the roots keep
        seen = seen + 1
        while root.kids[seen].value / root.value * 2 * math.pi * ring < 1 do seen = seen + 1 end
        assert.near(at, arc.from, 1e-6)
        assert.near(2 * math.pi * root.kids[seen].value / root.value, arc.to - arc.from, 1e-6)
        at = arc.to
      end
    end
    assert.is_true(seen > 3)
    assert.matches("^" .. DICTIONARY:gsub("%p", "%%%0") .. " — keeps " .. bytes(largest.value), page.pointed)
  end)
end)
