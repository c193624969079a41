-- SPDX-License-Identifier: MIT
-- contention.by-call-site and waits.by-call-site: a grouping where one site has half of the waiting, silence elsewhere.
local contention = require("signals.contention_by_call_site")
local waits = require("signals.waits_by_call_site")

local MS <const> = 1000000

local function site(method, n, total_ms, more)
  local s = {
    site = { method = method, module = "m" }, n = n, total_ns = total_ms * MS, still = 0, still_ns = 0, idle = false,
    reason = "WaitHandle",
  }
  for k, v in pairs(more or {}) do s[k] = v end
  return s
end

--- As contention has it: sites, longest first.
local function contended(sites)
  local a = { sites = sites, total = 0, total_ns = 0 }
  for _, s in ipairs(sites) do a.total, a.total_ns = a.total + s.n, a.total_ns + s.total_ns end
  return a
end

local function brief(list) return { #list, list[1] and list[1].salience, list[1] and list[1].buckets[1].key } end

describe("signals.contention_by_call_site", function()
  it("names the site with half of the time or more", function()
    local list = contention.of(contended { site("App.A()", 6, 60), site("App.B()", 4, 40) }, "H")
    assert.same({ 1, 0.6, "App.A()" }, brief(list))
    assert.same({ "App.A()", 60, "ms", "H" }, {
      list[1].buckets[1].key, list[1].buckets[1].magnitude, list[1].buckets[1].unit, list[1].buckets[1].handle,
    })
    assert.same({ 2, "byBlame" }, { #list[1].buckets, list[1].nextAction.suggestedArguments.view })
    assert.matches("60 %% of 100.0 ms of waiting for locks is at one call site of 2", list[1].summary)
  end)

  it("keeps its buckets few", function()
    local sites = { site("App.A()", 50, 900) }
    for i = 1, 9 do sites[#sites + 1] = site(("App.B%d()"):format(i), 1, 10 - i) end
    assert.equal(contention.buckets, #contention.of(contended(sites))[1].buckets)
  end)

  it("is silent when contentions are few, short, spread or without a name", function()
    for _, sites in ipairs {
      {}, { site("App.A()", 4, 4000) }, { site("App.A()", 500, 9) },
      { site("App.A()", 5, 49), site("App.B()", 5, 48), site("App.C()", 5, 3) },
      { site("(unknown)", 50, 5000) },
    } do
      assert.same({}, contention.of(contended(sites), "H"))
    end
  end)
end)

describe("signals.waits_by_call_site", function()
  local idle <const> = { idle = true }

  it("names the site with half of the waiting, those aside that have nothing to do, those counted that still wait", function()
    local list = waits.of({ where = {
      site("App.A()", 6, 20, { still = 1, still_ns = 40 * MS, reason = "LockContention" }), site("App.B()", 4, 40),
      site("Timer()", 900, 90000, idle),
    } }, "H")
    assert.same({ 1, 0.6, "App.A()" }, brief(list))
    assert.same({ 60, 2, "whereThreadsWait" }, {
      list[1].buckets[1].magnitude, #list[1].buckets, list[1].nextAction.suggestedArguments.view,
    })
    assert.matches("at one call site: App.A() (LockContention)", list[1].summary, 1, true)
  end)

  it("is silent when waits are few, short, spread, idle or without a name", function()
    for _, where in ipairs {
      {}, { site("App.A()", 4, 400) }, { site("App.A()", 50, 9) },
      { site("App.A()", 5, 49), site("App.B()", 5, 48), site("App.C()", 5, 3) },
      { site("Timer()", 50, 5000, idle) }, { site("(unknown)", 50, 5000) },
    } do
      assert.same({}, waits.of({ where = where }, "H"))
    end
  end)
end)
