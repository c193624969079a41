-- SPDX-License-Identifier: MIT
-- The page of flame graphs as a browser runs it: what it draws and says, against the same call tree written as folded stacks.
local browser = require("support.browser")
local export = require("samplers.export")
local handles = require("lunette.handles")
local sampled = require("support.sampled")

local ROW <const> = 18 -- pixels
local SEEN <const> = 2 -- narrower boxes are not pointed at

-- {name, value, own, kids = {name -> …}} of "a;b;c 12" lines; upside down when asked.
local function tree_of(folded, reversed)
  local root = { name = "all", value = 0, own = 0, kids = {} }
  for stack, count in folded:gmatch("([^\n]*) (%d+)\n") do
    local names, at, n = {}, root, math.tointeger(count)
    for name in stack:gmatch("[^;]+") do table.insert(names, reversed and 1 or #names + 1, name) end
    root.value = root.value + n
    for _, name in ipairs(names) do
      at.kids[name] = at.kids[name] or { name = name, value = 0, own = 0, kids = {} }
      at = at.kids[name]
      at.value = at.value + n
    end
    at.own = at.own + n
  end
  return root
end

local function each(node, fn, depth)
  fn(node, depth or 0)
  for _, kid in pairs(node.kids) do each(kid, fn, (depth or 0) + 1) end
end

-- "Module!Method · 1,234 samples, 5.67 %; itself …" -> the name, 1234, the share.
local function told(box)
  local name, count, share = box.detail:match("^(.*) · ([%d,]+) samples?, ([%d.]+) %%")
  assert(name, box.detail)
  return name, math.tointeger((count:gsub(",", ""))), tonumber(share)
end

-- Both trees in one, each node with what it was before, and as wide (w) as what it is, was, or keeps below it needs.
local function overlay(after, before)
  local scale, merge = after.value / before.value, nil
  function merge(a, b)
    local out, below = { name = (a or b).name, value = a and a.value or 0, before = b and b.value or 0, kids = {} }, 0
    for _, side in ipairs { a or { kids = {} }, b or { kids = {} } } do
      for name in pairs(side.kids) do out.kids[name] = out.kids[name] or merge(a and a.kids[name], b and b.kids[name]) end
    end
    for _, kid in pairs(out.kids) do below = below + kid.w end
    out.w = math.max(out.value, out.before * scale, below)
    return out
  end
  return merge(after, before)
end

-- Holds drawn boxes against a tree whose root is as wide as the canvas: each stands below its caller, is named, counted and as wide as it
-- should be, and none is missing. Callers come before callees. `also` is asked of each box and its node.
local function agree(boxes, tree, width, y_of, also)
  local open, scale, seen = {}, width / (tree.w or tree.value), 0
  for _, box in ipairs(boxes) do
    local depth = y_of(box)
    local name, value, share = told(box)
    local up, middle = open[depth], box.x + box.w / 2
    local node
    if depth == 0 then
      node = tree
    else
      local below
      for _, other in ipairs(up) do
        if middle > other.x and middle < other.x + other.w + 1 then below = other.node end
      end
      assert(below, "nothing below " .. box.detail)
      node = assert(below.kids[name], name .. " is not called by " .. below.name)
    end
    assert.same({ node.name, node.value }, { name, value })
    assert.near(100 * node.value / tree.value, share, 0.006)
    assert.near(math.max((node.w or node.value) * scale - 0.6, 0.4), box.w, 0.01)
    if also then also(box, node) end
    open[depth + 1] = open[depth + 1] or {}
    table.insert(open[depth + 1], { x = box.x, w = box.w, node = node })
    seen = seen + 1
  end
  local wanted = 0
  each(tree, function(node) wanted = wanted + ((node.w or node.value) * scale - 0.6 >= SEEN and 1 or 0) end)
  assert.equal(wanted, seen)
end

-- The share of samples that have a method with the text on their stack.
local function share_with(folded, text)
  local with, all = 0, 0
  for stack, count in folded:gmatch("([^\n]*) (%d+)\n") do
    all = all + count
    if stack:find(text, 1, true) then with = with + count end
  end
  return ("%.2f"):format(100 * with / all)
end

-- A text as decodeURIComponent reads it, so that it can stand in a script.
local function escaped(text)
  return (text:gsub("[^%w]", function(c) return ("%%%02X"):format(c:byte()) end))
end

local STEPS <const> = [[
  const $ = probe.$, out = { width: $("canvas").clientWidth, height: $("canvas").clientHeight };
  out.title = $("title").textContent;
  out.boxes = probe.boxes();
  const of = (text) => out.boxes.find((b) => b.detail.includes(text));
  out.found = probe.type("hot.tightloop\\(");
  out.marked = probe.boxes().filter((b) => b.fill === "#e25ae2").map((b) => b.detail);
  out.odd = probe.type("TightLoop(");                 // no regular expression: taken as it is
  out.none = probe.type("NoSuchMethod");
  out.cleared = probe.type("");
  const hot = of("Hot.Turn()");
  probe.mouse("click", hot.x + hot.w / 2, hot.y + 8);
  out.zoomed = probe.boxes();
  probe.key("Escape");
  out.back = probe.boxes();
  $("flip").click();
  out.flipped = probe.boxes(); out.flippedHeight = $("canvas").clientHeight; out.flipPressed = $("flip").getAttribute("aria-pressed");
  $("flip").click();
  $("reverse").click();
  out.reversed = probe.boxes(); out.reversedFound = probe.type("hot.tightloop\\("); probe.type("");
  $("reverse").click();
  out.forward = probe.boxes();
  $("colour").value = "wait";
  $("colour").dispatchEvent(new Event("change"));
  out.waits = probe.boxes(); out.legend = $("legend").textContent;
  return out;
]]

local function top_down(box) return (box.y - 2) // ROW end

describe("the page of flame graphs", function()
  after_each(handles.clear)

  local function captured(kind, name)
    local _, envelope = sampled.capture(kind, name)
    return handles.get(envelope.handle)
  end

  it("draws the call tree, searches, zooms, reverses and flips it", function()
    local entry = captured("cpu", "cpu")
    local folded = assert(export.content(entry, "folded"))
    local page, why = browser.run(assert(export.content(entry, "flamegraph")), STEPS)
    if not page then return pending(why) end
    local tree = tree_of(folded)
    assert.matches(" · 5,427 samples$", page.title)
    agree(page.boxes, tree, page.width, top_down)
    assert.same({ page.boxes, page.boxes }, { page.back, page.forward })
    agree(page.reversed, tree_of(folded, true), page.width, top_down)
    agree(page.flipped, tree, page.width, function(box) return (page.flippedHeight - 2 - box.y) // ROW - 1 end)
    assert.equal("true", page.flipPressed)

    local share = share_with(folded, "Hot.TightLoop(")
    local sentence = "found: " .. share .. " % of the whole in 1 method"
    assert.same({ sentence, sentence, sentence }, { page.found, page.reversedFound, page.odd })
    assert.same({ "found: 0.00 % of the whole in 0 methods", "" }, { page.none, page.cleared })
    local hot = 0
    for _, box in ipairs(page.boxes) do hot = hot + (box.detail:find("Hot.TightLoop(", 1, true) and 1 or 0) end
    assert.is_true(hot > 0)
    assert.equal(hot, #page.marked)
    for _, detail in ipairs(page.marked) do assert.matches("^lunette%-target!Lunette%.Target%.Hot%.TightLoop%(", detail) end

    local line, below = {}, {}
    for _, box in ipairs(page.zoomed) do table.insert(box.w > page.width - 1 and line or below, box) end
    local turn
    each(tree, function(node) turn = node.name:find("Hot.Turn()", 1, true) and node or turn end)
    assert.is_true(#line >= 2 and #below > 5)
    for _, box in ipairs(below) do
      local name, value = told(box)
      if top_down(box) == top_down(line[#line]) + 1 then assert.equal(turn.kids[name].value, value) end
      assert.near(value / turn.value * page.width - 0.6, box.w, 0.01)
    end

    assert.equal("known waitall else", page.legend)
    local colours = {}
    for _, box in ipairs(page.waits) do
      local waits = table.concat(box.tip, "\n"):find("known wait: ", 1, true) ~= nil
      assert.is_true(colours[waits] == nil or colours[waits] == box.fill, box.detail)
      colours[waits] = box.fill
    end
    assert.is_true(colours[true] ~= nil and colours[false] ~= nil and colours[true] ~= colours[false])
  end)

  it("shows what grew, what shrank and what is gone", function()
    local after, before = captured("cpu", "cpu"), captured("cpu", "stand")
    local now, was = assert(export.content(after, "folded")), assert(export.content(before, "folded"))
    local page, why = browser.run(assert(export.content(after, "flamegraph", { baseline = before })), [[
      const $ = probe.$;
      return { width: $("canvas").clientWidth, boxes: probe.boxes(), note: $("note").textContent, title: $("title").textContent,
        hidden: $("colour").hidden };
    ]])
    if not page then return pending(why) end
    local tree, colours = overlay(tree_of(now), tree_of(was)), { red = 0, blue = 0 }
    assert.matches(" · 5,427 samples against 1,009 samples$", page.title)
    assert.same({ true, "red: more than before, blue: less (shares of the whole)" }, { page.hidden, page.note })
    agree(page.boxes, tree, page.width, top_down, function(box, node)
      local count, share, points = box.tip[3]:match("^before ([%d,]+) samples?, ([%d.]+) %%: ([+-][%d.]+) points of the whole$")
      local share_now, share_was = 100 * node.value / tree.value, 100 * node.before / tree.before
      assert.equal(node.before, math.tointeger((count:gsub(",", ""))))
      assert.near(share_was, tonumber(share), 0.006)
      assert.near(share_now - share_was, tonumber(points), 0.006)
      local red, blue = tonumber(box.fill:sub(2, 3), 16), tonumber(box.fill:sub(6, 7), 16)
      local change = (share_now - share_was) / math.max(share_now, share_was)
      if math.abs(change) > 0.05 then
        assert.equal(change > 0, red > blue, box.detail .. " " .. box.fill)
        colours[red > blue and "red" or "blue"] = colours[red > blue and "red" or "blue"] + 1
      end
    end)
    assert.is_true(colours.red > 10 and colours.blue > 10)
  end)

  it("counts bytes of allocations, and opens as its address says", function()
    local entry = captured("allocation", "sites")
    local folded = assert(export.content(entry, "folded"))
    local page, why = browser.run(assert(export.content(entry, "flamegraph")), [[
      const $ = probe.$;
      return { title: $("title").textContent, search: $("search").value, found: $("found").textContent, tip: probe.boxes()[0].tip,
        reversed: $("reverse").getAttribute("aria-pressed") };
    ]], "#search=Sites%2EStr&reverse")
    if not page then return pending(why) end
    local tree = tree_of(folded)
    local shown = ("%.1f MiB"):format(tree.value / (1 << 20))
    assert.matches(" · " .. shown .. "$", page.title)
    assert.same({ "all", shown .. ", 100.00 %" }, page.tip)
    assert.same({ "Sites.Str", "true" }, { page.search, page.reversed })
    assert.matches("^found: " .. share_with(folded, "Sites.Str"):gsub("%.", "%%.") .. " %% of the whole in %d+ methods?$", page.found)
  end)

  it("takes its data from a client that shows pages of tools", function()
    local entry = captured("cpu", "cpu")
    local page, why = browser.run("<!DOCTYPE html><html><head></head><body></body></html>", ([[
      const page = decodeURIComponent("%s"), flame = decodeURIComponent("%s"), seen = [];
      const frame = document.createElement("iframe");
      const done = new Promise((resolve) => addEventListener("message", ({ data: m }) => {
        const say = (message) => frame.contentWindow.postMessage({ jsonrpc: "2.0", ...message }, "*");
        seen.push(m.method + (m.params.uri ? " " + m.params.uri : ""));
        if (m.method === "ui/initialize") say({ id: m.id, result: { protocolVersion: m.params.protocolVersion } });
        if (m.method === "ui/notifications/initialized")
          say({ method: "ui/notifications/tool-result", params: { structuredContent: { data: { flameUri: "profile://X/flame" } } } });
        if (m.method === "resources/read") {
          say({ id: m.id, result: { contents: [{ uri: m.params.uri, text: flame }] } });
          setTimeout(resolve, 100);
        }
      }));
      frame.srcdoc = page;
      frame.width = 1000;
      document.body.append(frame);
      await done;
      const canvas = frame.contentDocument.getElementById("canvas");
      const row = canvas.getContext("2d").getImageData(0, 8, canvas.width, 1).data;
      return { seen, title: frame.contentDocument.getElementById("title").textContent, width: canvas.width,
        filled: row.filter((v, i) => i %% 4 === 3 && v > 0).length };
    ]]):format(escaped(assert(export.page())), escaped(assert(export.content(entry, "flame")))))
    if not page then return pending(why) end
    assert.same({ "ui/initialize", "ui/notifications/initialized", "ui/notifications/size-changed", "resources/read profile://X/flame" },
      page.seen)
    assert.matches(" · 5,427 samples$", page.title)
    assert.is_true(page.filled >= page.width - 2)
  end)
end)
