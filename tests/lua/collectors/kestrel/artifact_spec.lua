-- SPDX-License-Identifier: MIT
-- What becomes of the engine's result for a web server: merged operations, queues over time, several servers, notes.
local artifacts = require("collectors.kestrel.artifact")
local json = require("lunette.json")
local rules = require("lunette.rules.index")
local signal = require("signals.kestrel_by_operation")
local wire = require("collectors.kestrel.wire")

local MS <const> = 1000000
local NONE <const> = { n = 0 }

local function q(n, p50, p95, max) return { n = n, p50 = p50 * MS, p95 = p95 * MS, max = max * MS } end
local function pair(more)
  local p = { pairs = 0, unmatched = 0, dropped = 0, time = NONE }
  for k, v in pairs(more or {}) do p[k] = v end
  return p
end

local function result(more)
  local r = {
    connections = pair(), tls = pair(), tls_protocols = { rows = {} }, options = { rows = {} }, queues = { rows = {} },
    counters = { rows = {} }, requests = pair { operations = { rows = {}, evicted = 0 }, total = nil },
  }
  for _, name in ipairs { "connection", "connection_stop", "rejected", "request", "request_stop", "tls", "tls_stop", "tls_failed" } do
    r["n_" .. name] = 0
  end
  for k, v in pairs(more or {}) do r[k] = v end
  return r
end

local function artifact(more, source)
  return artifacts.new(result(more), { process_id = 7, started_unix_ms = 0, duration_ms = 1000, notes = {} }, source or { process = {} })
end

local function said(a) return table.concat(a.notes, "\n") end
local COUNTER <const> = { rows = { { name = "current-connections", display = "Current Connections", mean = 3, unit = "" } } }

describe("collectors.kestrel.artifact", function()
  it("puts operations together that differ only in a secret", function()
    local function op(path, n, p95, total)
      return { method = "GET", path = path, version = "HTTP/1.1", time = q(n, 1, p95, p95), total = total * MS }
    end
    local a = artifact {
      n_request = 9, requests = pair {
        pairs = 9, time = q(9, 1, 9, 9), total = 30 * MS,
        operations = {
          rows = { op("/a/password=one", 5, 4, 10), op("/a/password=two", 3, 9, 15), op("/b", 1, 1, 5) }, evicted = 2,
          other = { time = { n = 4 } },
        },
      },
    }
    assert.same({ 2, "/a/password=<redacted:sensitive>", 8, 9.0, 25.0 },
      { #a.operations, a.operations[1].path, a.operations[1].n, a.operations[1].p95, a.operations[1].total_ms })
    assert.is_truthy(said(a):find("Merged: 1 operations", 1, true))
    assert.is_truthy(said(a):find("OperationLimit", 1, true))
  end)

  it("makes points of the two queues, tick by tick", function()
    local function reading(at, name, value) return { at = at * MS, name = name .. "-queue-length", value = value } end
    local a = artifact { counters = COUNTER, queues = { rows = {
      reading(1000, "connection", 0), reading(1000, "request", 2), reading(2000, "connection", 5), reading(2001, "request", 1),
      reading(3000, "request", 7), -- the other one was lost
      reading(4000, "connection", 1),
    } } }
    assert.same({ connection = 5, request = 7 }, a.peaks)
    local points = {}
    for i, p in ipairs(a.points) do points[i] = { p.unix_ms, p.connection or -1, p.request or -1 } end
    assert.same({ { 1000, 0, 2 }, { 2000, 5, 1 }, { 3000, 1, 7 } }, points)
    local first = rules.hints("kestrel-snapshot", { artifact = a, handle_id = "H", process_id = 7 })[1]
    assert.same({ "queues", "high" }, { first.suggestedArguments.view, first.priority })
  end)

  it("lists the options of several servers, without secrets", function()
    local rows = { { id = 1, json = '{"a":1}' }, { id = 2, json = '{"Password":"S3cret"}' } }
    local a = artifact { counters = COUNTER, options = { rows = rows } }
    assert.same({ { a = 1 }, { Password = "<redacted:sensitive>" } }, json.decode(a.options))
    assert.is_nil(said(a):find("Configuration", 1, true))
    assert.is_truthy(said(artifact { options = { rows = { { json = '{"a":' } } } }):find("ConfigurationCut", 1, true))
    assert.is_truthy(said(artifact { counters = COUNTER }):find("NoConfiguration", 1, true))
  end)

  it("leaves out readings that are no number", function()
    local a = artifact {
      counters = { rows = { { name = "a", mean = 0 / 0 }, { name = "b", rate = math.huge }, { name = "c", mean = 2 } } },
      queues = {
        rows = { { at = MS, name = "request-queue-length", value = 0 / 0 }, { at = MS, name = "request-queue-length", value = 4 } },
      },
    }
    assert.same({ 1, "c", 1, 4 }, { #a.counters, a.counters[1].name, #a.points, a.peaks.request })
  end)

  it("takes secrets out of protocols and of what counters are called", function()
    local a = artifact {
      tls_protocols = { rows = { { protocol = "Tls13" }, { protocol = "password=S3cret" }, { protocol = ("x"):rep(1000) } } },
      counters = { rows = { { name = "password=S3cret", display = "api_key=S3cret", unit = "pwd=S3cret" .. ("x"):rep(1000), mean = 1 } } },
    }
    local told = table.concat(a.tls.protocols, "\n")
    assert.is_truthy(told:find("Tls13", 1, true) and #told < 100)
    local c = a.counters[1]
    for _, text in ipairs { told, c.name, c.display, c.unit } do
      assert.is_nil(text:find("S3cret", 1, true), text)
      assert.is_true(#text <= 128)
    end
  end)

  it("tells silence from no traffic, and missing counters", function()
    assert.is_truthy(said(artifact()):find("ProviderSilent", 1, true))
    local quiet = artifact { counters = COUNTER, options = { rows = { { json = "{}" } } } }
    assert.equal("NoTraffic", said(quiet):match("^%a+"))
    local s = wire.snapshot(quiet, "Detail")
    assert.same({ 0, 0, "00:00:00", {} }, { s.connectionsStarted, s.requestsStarted, s.requestP95, s.byOperation })
    assert.is_truthy(said(artifact { n_request = 1 }):find("NoCounters", 1, true))
    assert.equal("", said(artifact({}, { path = "x" })))
  end)

  it("says what ended without a start, and what no start was kept of", function()
    local a = artifact { n_request = 1, connections = pair { unmatched = 3, dropped = 2 } }
    assert.is_truthy(said(a):find("EndedOnly: 3 connections", 1, true))
    assert.is_truthy(said(a):find("PairLimit: 2 connections", 1, true))
  end)

  it("stands out by one operation only when there are several and enough", function()
    local function with(n, total, ops)
      return { requests = { time = { n = n }, total_ms = total }, operations = ops }
    end
    local ops = { { method = "GET", path = "/a", n = 9, total_ms = 1 }, { method = "GET", path = "/b", n = 1, total_ms = 9 } }
    local found = signal.of(with(10, 10, ops), "H")[1]
    assert.same({ "GET /b", 9, 0.9 }, { found.buckets[1].key, found.buckets[1].magnitude, found.salience })
    assert.same({}, signal.of(with(9, 10, ops), "H"))
    assert.same({}, signal.of(with(10, 10, { ops[2] }), "H"))
    assert.same({}, signal.of(with(10, 100, ops), "H"))
  end)
end)
