-- SPDX-License-Identifier: MIT
-- What becomes of the engine's result for requests: counts, ages, and what is said of requests that nobody can list.
local artifacts = require("collectors.requests.artifact")
local bridge = require("collectors.diagnostic_source")
local program = require("collectors.requests.program")
local rules = require("lunette.rules.index")

local START_MS <const> = 1700000000000
local MS <const> = 1000000

local function row(at_ms, path, id) return { at = (START_MS + at_ms) * MS, method = "GET", path = path or "/a", id = id } end

local function result(more)
  local pair = { pairs = 0, unmatched = 0, replaced = 0, dropped = 0, open = 0, open_rows = {}, by_slice = { buckets = {} } }
  for k, v in pairs(more and more.pair or {}) do pair[k] = v end
  return {
    started = more and more.started or 0, stopped = 0, requests = pair, served_started = 0, settings = more and more.settings or 0,
    served = { pairs = 0, unmatched = 0, replaced = 0, dropped = 0, open = 0, open_rows = {} }, counters = more and more.counters or {},
  }
end

local function artifact(more, options)
  options = options or {}
  local window = { process_id = 7, started_unix_ms = START_MS, duration_ms = 5000, notes = {}, lost = options.lost }
  return artifacts.new(result(more), window, { process = { pid = 7 } }, options.threshold or 1000,
    options.window or { pid = 7, settings = #program.LINES })
end

local function said(a) return table.concat(a.notes, "\n") end
local function counted(n, first, last, at_ms)
  return { total = { n = 2, min = first, max = last }, current = n, at = at_ms * MS, at_unix = (START_MS + at_ms) * MS }
end

describe("collectors.requests.artifact", function()
  it("tells ages to the end of the window; above the threshold is long", function()
    local rows = { row(1000, "/x"), row(4000, "/y"), row(6000, "/z") } -- the last one began while the session was stopped
    local a = artifact { started = 5, pair = { pairs = 2, open = 3, open_rows = rows } }
    assert.same({ 4000.0, 1000.0, 0.0 }, { a.rows[1].elapsed_ms, a.rows[2].elapsed_ms, a.rows[3].elapsed_ms + 0.0 })
    assert.same({ true, false, false }, { a.rows[1].long, a.rows[2].long, a.rows[3].long })
    assert.same({ 5, 2, 3, 1, 4000.0 }, { a.started, a.completed, a.in_flight, a.long_running, a.oldest_ms })
  end)

  it("reads ids of W3C; others are no trace", function()
    local trace, span = ("ab"):rep(16), ("cd"):rep(8)
    local a = artifact { started = 2, pair = {
      open = 2, open_rows = { row(0, nil, ("00-%s-%s-01"):format(trace, span)), row(1, nil, "|root.1.2.") },
    } }
    assert.same({ trace, span }, { a.rows[1].trace_id, a.rows[1].span_id })
    assert.is_nil(a.rows[2].trace_id)
  end)

  it("counts requests that began before the window", function()
    local a = artifact { started = 1, pair = { open = 1, open_rows = { row(100) } }, counters = counted(4, 10, 11, 4000) }
    assert.is_truthy(said(a):find("BegunBefore: the server counts 3 requests", 1, true))
    -- what ended since the last count may have been among them
    a = artifact {
      started = 3, counters = counted(4, 10, 13, 4000),
      pair = {
        pairs = 2, open = 1, open_rows = { row(100) }, by_slice = { buckets = { { at_ns = 4000 * MS, n = 2 }, { at_ns = 0, n = 9 } } },
      },
    }
    assert.is_truthy(said(a):find("BegunBefore: the server counts 1 requests", 1, true))
    a = artifact { started = 1, pair = { open = 1, open_rows = { row(100) } }, counters = counted(1, 10, 11, 4000) }
    assert.equal("", said(a))
  end)

  it("says why there is nothing", function()
    assert.is_truthy(said(artifact()):find("NoAspNetCore", 1, true))
    assert.is_truthy(said(artifact { counters = counted(0, 5, 5, 4000) }):find("NothingStarted", 1, true))
  end)

  it("says when somebody took the events", function()
    local missing = said(artifact { started = 10, counters = counted(0, 100, 300, 4000) })
    assert.is_truthy(missing:find("RequestsMissing: the server counted 200", 1, true))
    assert.is_truthy(said(artifact { started = 1, settings = #program.LINES + 1 }):find("BridgeTaken", 1, true))
    -- nothing is claimed of requests that nobody could tell of
    local all = said(artifact { settings = #program.LINES + 1, counters = counted(1, 5, 5, 4000) })
    assert.is_truthy(all:find("^BridgeTaken"))
    all = said(artifact { settings = #program.LINES + 1, counters = counted(0, 100, 101, 4000) })
    assert.is_truthy(all:find("RequestsMissing: the server counted 1 requests, the events of 0", 1, true))
    assert.is_nil(all:find("NothingStarted", 1, true))
    assert.is_truthy(said(artifact { counters = counted(0, 100, 112, 4000) }):find("RequestsMissing: the server counted 12", 1, true))
    assert.equal("", said(artifact { started = 1, settings = #program.LINES }))
    local beside = { pid = 7, shared = true, settings = 9, gaps = 0, gap_ms = 0 }
    assert.is_truthy(said(artifact({ started = 1 }, { window = beside })):find("BridgeShared", 1, true))
  end)

  it("says what the caps and losses cost", function()
    local a = artifact({ started = 30, pair = { pairs = 1, unmatched = 2, replaced = 3, dropped = 4, open = 20, open_rows = { row(0) } } },
      { lost = 9 })
    for _, word in ipairs { "EndedOnly: 2", "Replaced: 3", "RequestLimit: 4", "RowLimit: the oldest 1 of 20", "LossInFlight" } do
      assert.is_truthy(said(a):find(word, 1, true), word)
    end
  end)

  it("points at threads and pool when requests are stuck, elsewhere when none is", function()
    local function hints(of, pid)
      return rules.hints("in-flight-requests", { artifact = of, handle_id = "H", process_id = pid })
    end
    local stuck = hints({ long_running = 1 }, 7)
    assert.same({ "inspect_process", "requests-now" }, { stuck[1].nextTool, stuck[1].suggestedArguments.view })
    assert.equal("longRunning", hints({ long_running = 1 }, nil)[1].suggestedArguments.view)
    assert.equal("kestrel", hints({ long_running = 0 }, 7)[1].suggestedArguments.kind)
  end)
end)

describe("collectors.diagnostic_source", function()
  it("knows of windows side by side on one process", function()
    local alone <close> = bridge.enter(11, {})
    do
      local other <close> = bridge.enter(12, {})
      assert.is_false(other.shared)
      assert.is_false(bridge.enter(nil, {}).shared)
    end
    do
      local second <close> = bridge.enter(11, {})
      assert.same({ true, true }, { alone.shared, second.shared })
    end
    local later <close> = bridge.enter(12, {})
    assert.is_false(later.shared)
  end)
end)
