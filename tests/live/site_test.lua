-- SPDX-License-Identifier: MIT
-- The site of docs/scripting/tutorial.md on a real shop: its rule fires in a live triage, its collector counts, its view answers, a change
-- is seen by the next call, and a broken file leaves the old one serving.
local h = require("harness")
package.path = package.path .. ";" .. h.source .. "/tests/lua/?.lua"
local tutorial = require("support.tutorial")

local RUNTIMES <const> = { "net10.0", "net9.0", "net8.0" }
local WAITING <const> = 80

local function edit(path, from, to)
  local body = h.fs.read(path, 100000)
  local changed = body:gsub(from, to)
  local file = assert(io.open(path, "w"))
  file:write(changed)
  file:close()
end

local function triage(server, target)
  local envelope = h.ok(server:call("inspect_process", { view = "triage", processId = target.pid, durationSeconds = 3 }))
  h.ok(not envelope.error, "triage without an error: " .. h.json.encode(envelope.error or {}))
  return envelope.data.triage
end

local function fires(server, target, level)
  local r = triage(server, target)
  local signal = h.ok(h.find(r.observedSignals, { name = "shop.orders-waiting" }), "the rule of the site fires: " .. h.json.encode(r))
  h.eq(level, signal.level, "level")
  h.eq(WAITING, signal.evidence[1].value, "the counter of the shop's own event source")
  return r
end

local function orders(server, target)
  local envelope = h.ok(server:call("collect_events", { kind = "orders", processId = target.pid, durationSeconds = 4 }))
  h.ok(not envelope.error, "orders without an error: " .. h.json.encode(envelope.error or {}))
  local data = envelope.data.orders
  h.eq(3, #data.kinds, "kinds of orders")
  local gift = h.ok(h.find(data.kinds, { kind = "gift" }), "gifts")
  h.ok(gift.p50Ms >= 200 and gift.p50Ms < 2000, "a gift takes 200 ms: " .. gift.p50Ms)
  h.ok(h.find(data.kinds, { kind = "book" }).p50Ms < gift.p50Ms, "a book takes less")
  local view = h.ok(server:call("query_snapshot", { handle = envelope.handle, view = "byKind", topN = 1 }))
  h.eq("gift", view.data.payload.kinds[1].kind, "the slowest kind first")
end

local function prompt(server)
  local result = h.ok(server:request("prompts/get", { name = "slow-orders", arguments = { processId = "1" } }))
  return result.messages[1].content.text
end

local function doctor(dir)
  return h.ok(h.loop.exec { argv = { "/proc/self/exe", "doctor", "--site", dir .. "/site" }, timeout_ms = 60000 }).stdout
end

local function site(runtime)
  return function(skip)
    local built, why = h.build_target(runtime)
    if not built then skip(why) end
    local target <close> = h.target(runtime, "shop", WAITING)
    local dir = h.scratch()
    tutorial.write("tutorial.md", dir)
    local server <close> = h.server { args = { "--site", dir .. "/site" } }
    local r = fires(server, target, "elevated")
    h.eq("shop.workers-too-slow", r.hypotheses[1] and r.hypotheses[1].name, "its hypothesis")
    orders(server, target)
    if runtime ~= "net10.0" then return end
    local rule = dir .. "/site/rules/orders-waiting.lua"
    edit(rule, "critical = 200", "critical = 60")
    h.wait_for("the changed rule", 10000, function()
      return h.find(triage(server, target).observedSignals, { name = "shop.orders-waiting", level = "critical" })
    end)
    edit(rule, "summary =", "sumary =")
    h.wait_for("word of the broken file", 10000, function() return server:log():find("sumary", 1, true) end)
    fires(server, target, "critical")
    h.ok(prompt(server):find("More than 50 waiting orders are too many.", 1, true), "the playbook names the threshold")
    h.ok(doctor(dir):find('orders-waiting.lua:5: there is no field "sumary" in a rule. Did you mean "summary"?', 1, true), doctor(dir))
    edit(rule, "sumary =", "summary =")
    edit(rule, "elevated = 50, critical = 60", "elevated = 70, critical = 90")
    h.wait_for("the repaired rule", 10000, function()
      return prompt(server):find("More than 70 waiting orders are too many.", 1, true)
    end)
    fires(server, target, "elevated")
    h.ok(doctor(dir):find("0 broken", 1, true), doctor(dir))
  end
end

local cases = {}
for _, runtime in ipairs(RUNTIMES) do cases[#cases + 1] = { "the tutorial on a live shop, " .. runtime, site(runtime) } end
return cases
