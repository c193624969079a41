-- SPDX-License-Identifier: MIT
-- Destinations are joined to spans by identity, and withheld as soon as something does not fit.
local destinations = require("collectors.activities.destinations")
local redaction = require("lunette.redaction")

local function span(id, at, source) return { source = source or "System.Net.Http", trace_id = "t", span_id = id, end_ns = at or 100 } end

local function start(id, host, more)
  local row = { at = 1, trace = "t", span = id, scheme = "http", host = host, port = 80 }
  for name, value in pairs(more or {}) do row[name] = value end
  return row
end

local function join(spans, rows, lost, seen)
  local account = destinations.join(spans, { rows = rows, seen = seen or #rows }, lost or 0)
  local words = {}
  for i, s in ipairs(spans) do words[i] = s.destination and s.destination.availability or "none" end
  return words, account, spans
end

describe("collectors.activities.destinations", function()
  it("joins by trace and span id", function()
    local words, account, spans = join({ span("a"), span("b") },
      { start("b", "two.example", { scheme = "HTTPS", port = 8443 }), start("a", "one.example") })
    assert.same({ "available", "available" }, words)
    assert.same({
      scheme = "http", host = "one.example", port = 80, availability = "available", provenance = "System.Net.Http.HttpRequestOut.Start",
    }, spans[1].destination)
    assert.same({ "https", "two.example", 8443 }, { spans[2].destination.scheme, spans[2].destination.host, spans[2].destination.port })
    assert.same({ matched = 2, missing = 0, duplicate = 0, conflicting = 0, withheld = 0, cap_limited = false, lost = 0 }, account)
  end)

  it("says nothing of spans that are no outgoing HTTP", function()
    local words, account = join({ span("a", 1, "Acme") }, {})
    assert.same({ "none" }, words)
    assert.equal(0, account.missing)
  end)

  it("takes a span of another source whose start was told", function()
    assert.same({ "available" }, (join({ span("a", 1, "Acme.Http") }, { start("a", "x") })))
  end)

  it("withholds what is missing, told twice, told in two ways, or of a span that came twice", function()
    local words, account, spans = join({ span("a"), span("b"), span("c"), span("d"), span("d") }, {
      start("b", "x"), start("b", "x"), start("c", "x"), start("c", "y"), start("d", "x"),
    })
    assert.same({ "missing", "duplicate", "conflicting", "duplicate", "duplicate" }, words)
    assert.same({ 0, 1, 3, 1, 0 }, { account.matched, account.missing, account.duplicate, account.conflicting, account.withheld })
    for _, s in ipairs(spans) do assert.is_nil(s.destination.host) end
  end)

  it("is in two ways when the scheme or the port alone differs", function()
    assert.same({ "conflicting", "conflicting" }, (join({ span("a"), span("b") },
      { start("a", "x"), start("a", "x", { port = 81 }), start("b", "x"), start("b", "x", { scheme = "https" }) })))
  end)

  it("withholds all when events were lost", function()
    local words, account = join({ span("a"), span("b") }, { start("a", "x") }, 3)
    assert.same({ "transport-loss", "transport-loss" }, words)
    assert.same({ 2, 3 }, { account.withheld, account.lost })
  end)

  it("past the cap is sure of the spans that had ended by then only", function()
    local words, account = join({ span("a", 5), span("b", 50) }, { start("a", "x", { at = 1 }), start("b", "x", { at = 20 }) }, 0, 3)
    assert.same({ "available", "cap-limited" }, words)
    assert.is_true(account.cap_limited)
  end)

  it("shows no host that is none, that looks like a secret, or that the operator hides", function()
    redaction.configure { "internal\\.example" }
    local words, account = join({ span("a"), span("b"), span("c"), span("d"), span("e"), span("f"), span("g"), span("h") }, {
      start("a", "user@x"), start("b", "x/path"), start("c", "ghp_abcdefghijklmnopqrstuvwxyz0123"), start("d", "db.internal.example"),
      start("e", ("x"):rep(254)), start("f", "x", { scheme = "no scheme" }), start("g", "x", { port = 65536 }),
      start("h", "x", { port = false }),
    })
    redaction.configure {}
    assert.same({ "malformed", "malformed", "redacted", "redacted", "malformed", "malformed", "malformed", "unavailable" }, words)
    assert.equal(8, account.withheld)
  end)

  it("knows nothing of a span without ids", function()
    assert.same({ "missing" }, (join({ { source = "System.Net.Http", end_ns = 1 } }, { start(nil, "x") })))
  end)
end)
