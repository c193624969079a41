-- SPDX-License-Identifier: MIT
-- A page of ours in a headless Chromium, used as somebody with a mouse would: what it draws is taken from its canvas, the rest from its
-- text.
local crypto = require("lunette.crypto")
local fs = require("lunette.fs")
local json = require("lunette.json")
local loop = require("lunette.loop")

local M = {}

local BROWSERS <const> = { "chromium", "chromium-browser", "google-chrome" }
local MARK <const> = "probe_result"
local MAX <const> = 64 * 1024 * 1024

-- Before the page's scripts: what is drawn since a drawing began is kept in probe.drawn.
local BEFORE <const> = [[
"use strict";
const probe = { drawn: [], errors: [] };
addEventListener("error", (e) => probe.errors.push(String(e.message)));
{
  const methods = CanvasRenderingContext2D.prototype;
  const watch = (name, seen) => {
    const was = methods[name];
    methods[name] = function (...given) { seen(this, ...given); return was.apply(this, given); };
  };
  watch("setTransform", () => { probe.drawn = []; });
  watch("fillRect", (g, x, y, w, h) => probe.drawn.push({ x, y, w, h, fill: g.fillStyle }));
  watch("arc", (g, x, y, r, from, to, back) => { if (!back) probe.drawn.push({ x, y, r, from, to }); });
  watch("fillText", (g, text) => { if (probe.drawn.length) probe.drawn[probe.drawn.length - 1].label = text; });
}
probe.$ = (id) => document.getElementById(id);
probe.mouse = (type, x, y) => {
  const canvas = probe.$("canvas"), r = canvas.getBoundingClientRect();
  canvas.dispatchEvent(new MouseEvent(type, { clientX: r.left + x, clientY: r.top + y, bubbles: true }));
};
// What the page says of each box that is wide enough to be pointed at.
probe.boxes = (least = 2) => {
  const list = probe.drawn.filter((b) => b.w >= least);
  for (const b of list) {
    probe.mouse("mousemove", b.x + b.w / 2, b.y + Math.min(8, b.h / 2));
    b.detail = probe.$("detail").textContent;
    b.tip = [...probe.$("tip").children].map((e) => e.textContent);
  }
  probe.mouse("mouseleave", 0, 0);
  return list;
};
probe.type = (text) => {
  probe.$("search").value = text;
  probe.$("search").dispatchEvent(new Event("input"));
  return probe.$("found").textContent;
};
probe.key = (key) => dispatchEvent(new KeyboardEvent("keydown", { key }));
]]

-- Behind them: the steps of the spec, in an async function that gives what is to be looked at.
local AFTER <const> = [[
addEventListener("load", () => setTimeout(async () => {
  let result;
  try {
    result = { value: await (async () => {%s})() };
  } catch (e) {
    result = { threw: String(e.stack || e) };
  }
  result.errors = probe.errors;
  const out = document.createElement("pre");
  out.id = "%s";
  out.textContent = btoa(unescape(encodeURIComponent(JSON.stringify(result))));
  document.body.append(out);
}, 50));
]]

local function found()
  for _, name in ipairs(BROWSERS) do
    local done = loop.exec { argv = { "sh", "-c", "command -v " .. name }, timeout_ms = 5000 }
    if done and done.code == 0 then return name end
  end
  return nil, "there is no Chromium"
end

local function dumped(browser, folder, page, hash)
  local done, err = loop.exec {
    argv = { browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--window-size=1200,900",
      "--user-data-dir=" .. folder .. "/profile", "--virtual-time-budget=10000", "--dump-dom", "file://" .. page .. (hash or "") },
    timeout_ms = 120000, max_output = MAX,
  }
  if not done then return nil, tostring(err and err.message) end
  if not done.stdout:find("<html", 1, true) then return nil, done.stderr:sub(-300) end
  return done.stdout
end

--- What `script`, the body of an async function, gives once the page has started. nil, why: there is no browser that runs here.
---@param html string
---@param script string
---@param hash? string   behind the address
---@return table? value, string? why
function M.run(html, script, hash)
  local browser, why = found()
  if not browser then return nil, why end
  local folder = os.tmpname()
  assert(fs.remove(folder))
  assert(fs.mkdirs(folder))
  local page = folder .. "/page.html"
  local head, body = html:find("<head>", 1, true), html:find("</body>", 1, true)
  assert(fs.write_private(page, html:sub(1, head + 5) .. "<script>" .. BEFORE .. "</script>" .. html:sub(head + 6, body - 1)
    .. "<script>" .. AFTER:format(script, MARK) .. "</script>" .. html:sub(body)))
  local dom
  dom, why = dumped(browser, folder, page, hash)
  loop.exec { argv = { "rm", "-rf", folder }, timeout_ms = 30000 }
  if not dom then return nil, "Chromium does not run here: " .. why end
  local text = assert(dom:match('<pre id="' .. MARK .. '">([^<]*)</pre>'), "the page gave nothing")
  local result = assert(json.decode(assert(crypto.unbase64(text))))
  assert(not result.threw, result.threw)
  assert(#result.errors == 0, result.errors[1])
  return result.value
end

return M
