-- SPDX-License-Identifier: MIT
-- What was captured is the same for all who look at it: a script of a site can read an artifact, and change nothing of it.
local build = require("lunette.generation.build")
local declare = require("lunette.declare")
local generation = require("lunette.generation")
local handles = require("lunette.handles")
local json = require("lunette.json")
local kinds = require("lunette.kinds")
local kit = require("support.site_kit")
local loop = require("lunette.loop")
local rules = require("lunette.rules.index")
local signal = require("lunette.signal")
local site = require("lunette.site")
local view = require("lunette.view")

local COUNTERS <const> = "counters"

-- Ways to write to a table `a` with a list `a.rows`; those that do not fail write to nothing of ours.
local WRITES <const> = [[
  local function attempts(a)
    local failed = 0
    for _, f in ipairs {
      function() a.n = 2 end, function() a.rows[1].x = 2 end, function() a.rows[1] = nil end, function() rawset(a, "n", 2) end,
      function() rawset(a.rows[1], "x", 2) end, function() table.insert(a.rows, 1) end, function() table.remove(a.rows) end,
      function() table.sort(a.rows, function(p, q) return p.x > q.x end) end, function() table.move({ 5 }, 1, 1, 1, a.rows) end,
      function() setmetatable(a, nil) end, function() for _, row in pairs(a.rows) do row.x = 2 end end,
      function() for _, row in next, a.rows do row.x = 2 end end, function() select(2, next(a.rows)).x = 2 end,
      function() table.unpack(a.rows).x = 2 end, function() for _, row in ipairs(a.rows) do row.x = 2 end end,
    } do if not pcall(f) then failed = failed + 1 end end
    local list = require("lunette.json").array(a.rows)
    list[1] = 7
    return failed
  end
]]
local ATTEMPTS <const> = 15

describe("an artifact #unit", function()
  local dir, was, artifact, entry

  before_each(function()
    was = generation.newest()
    dir = kit.folder()
    kinds.use(generation.current)
    artifact = { n = 1, rows = json.array { { x = 1 }, { x = 3 }, { x = 2 } }, duration_ms = 1000, counters = {}, meters = {}, notes = {} }
    entry = handles.put({ kind = COUNTERS, artifact = artifact, origin = "trace", process_id = 1, started_unix_ms = 1, duration_ms = 1 })
  end)
  after_each(function()
    handles.invalidate(entry.id)
    generation.use(was)
  end)

  local function load_site(files)
    for path, body in pairs(files) do kit.write(dir, path, body) end
    local g = build.build(site.named({ site.PRODUCT, dir }))
    generation.use(g)
    assert.is_nil(g.problems[1] and declare.format(g.problems[1]))
    return g
  end

  local function unchanged()
    assert.same({ n = 1, rows = { { x = 1 }, { x = 3 }, { x = 2 } }, duration_ms = 1000, counters = {}, meters = {}, notes = {} },
      artifact)
  end

  local function project(name, opts) return view.project(COUNTERS, name, entry, opts or {}, {}) end

  it("cannot be changed by a view, through the artifact or the entry of its handle", function()
    load_site { ["views/counters/mine.lua"] = WRITES .. [[
      return view { kind = "counters", name = "mine", project = function(a, opts, entry)
        opts.seen = true
        return { failed = attempts(a), again = attempts(entry.artifact) }
      end }]] }
    local out = assert(project("mine"))
    assert.same({ failed = ATTEMPTS, again = ATTEMPTS }, out)
    unchanged()
  end)

  it("can be read as a table by every usual means, and given back", function()
    load_site { ["views/counters/mine.lua"] = [[
      local json = require "lunette.json"
      return view { kind = "counters", name = "mine", project = function(a)
        local sum, keys, first = 0, 0, next(a.rows)
        for _, row in ipairs(a.rows) do sum = sum + row.x end
        for _ in pairs(a) do keys = keys + 1 end
        for _ in next, a.rows do keys = keys + 1 end
        local sorted = table.move(a.rows, 1, #a.rows, 1, {})
        table.sort(sorted, function(p, q) return p.x > q.x end)
        return {
          sum = sum, keys = keys, first = first, n = #a.rows, top = sorted[1], sorted = sorted, rows = a.rows, text = json.encode(a.rows),
          list = json.array(a.rows), is = json.is_array(a.rows), unpacked = select("#", table.unpack(a.rows)), same = a.rows == a.rows,
        }
      end }]] }
    local out = assert(project("mine"))
    assert.equal(artifact.rows, out.rows)
    assert.equal(getmetatable(artifact.rows), getmetatable(out.list))
    out.rows, out.list = nil, nil
    assert.same({
      sum = 6, keys = 9, first = 1, n = 3, top = { x = 3 }, sorted = { { x = 3 }, { x = 2 }, { x = 1 } },
      text = '[{"x":1},{"x":3},{"x":2}]', is = true, unpacked = 3, same = true,
    }, out)
    assert.equal('{"x":3}', json.encode(out.top))
  end)

  it("cannot be changed through what a script kept of its own answers", function()
    load_site { ["views/counters/mine.lua"] = [[
      local kept = {}
      return view { kind = "counters", name = "mine", project = function(a)
        local tried = kept.rows and pcall(function() kept.rows[1].x = 2 end)
        kept.rows = a.rows
        return kept, { summary = tostring(tried) }
      end }]] }
    assert.equal(artifact.rows, project("mine").rows)
    local _, extras = project("mine")
    assert.equal("false", extras.summary)
    unchanged()
  end)

  it("can be given on to the view of ours that a script extends; what that gives is the script's", function()
    load_site { ["views/counters/summary.lua"] = [[
      local base = ...
      return extend(base, { project = function(artifact, opts, entry, ctx)
        local payload, extras = base.project(artifact, opts, entry, ctx)
        payload.more, payload.count = "more", artifact.n
        return payload, extras
      end })]] }
    local out, err = project("summary", { topN = 5 })
    assert(out, err and err.message)
    assert.same({ "more", 1 }, { out.more, out.count })
    unchanged()
  end)

  it("cannot be changed by a signal, a hint, a rule, nor by a tool that has its handle", function()
    local g = load_site {
      ["signals/mine.lua"] = WRITES .. [[
        return signal { id = "mine", handle = "counters", limits = { n = 1 }, of = function(a, self)
          local held = pcall(function() self.limits.n = 2 end)
          return { salience = 0.5, summary = attempts(a) .. tostring(held), buckets = {} }
        end }]],
      ["hints/mine.lua"] = WRITES .. [[
        return hint_rule { handle = "counters", hints = { { tool = "inspect_process", when = function(a) return attempts(a) > 0 end,
          reason = function(a, capture) return "r" .. attempts(a) .. attempts(capture.artifact) end } } }]],
      ["rules/mine.lua"] = WRITES .. [[
        return rule { name = "mine.rule", input = { handle = "counters", of = function(a) return attempts(a) end },
          levels = { elevated = 1 }, summary = "{value}", rationale = "r" }]],
      ["tools/mine.lua"] = WRITES .. [[
        local handles = require "lunette.handles"
        return tool { name = "mine", description = "d", scopes = { list = { "eventpipe" } },
          params = { { "id", "string", required = true } }, run = function(_, args)
            local a = handles.get(args.id).artifact
            return { failed = attempts(a), rows = a.rows }
          end }]],
    }
    local found
    for _, s in ipairs(signal.of_capture(COUNTERS, artifact, entry.id)) do found = s.signal == "mine" and s or found end
    assert.equal(ATTEMPTS .. "false", found.summary)
    local said = {}
    for _, h in ipairs(rules.hints(COUNTERS, { artifact = artifact, signals = {}, handle_id = entry.id })) do said[#said + 1] = h.reason end
    assert.matches("r" .. ATTEMPTS .. ATTEMPTS, table.concat(said, " "), 1, true)
    local judged = require("triage").judge(artifact, 1)
    assert.equal(tostring(ATTEMPTS), judged.observedSignals[1] and judged.observedSignals[1].summary)
    local out = g.tools.mine:invoke({ principal = { scopes = { eventpipe = true } } }, { id = entry.id })
    assert.same({ failed = ATTEMPTS, rows = { { x = 1 }, { x = 3 }, { x = 2 } } }, out.data)
    unchanged()
  end)

  it("costs a view of 20,000 rows little to be read so", function()
    load_site { ["views/counters/mine.lua"] = [[
      return view { kind = "counters", name = "mine", project = function(a)
        local sum = 0
        for _, row in ipairs(a.rows) do sum = sum + row.x end
        return { sum = sum }
      end }]] }
    for i = 1, 20000 do artifact.rows[i] = { x = i } end
    local began = loop.cpu_ms()
    assert.same({ sum = 200010000 }, (project("mine")))
    local ms = loop.cpu_ms() - began
    print(("\na view of 20,000 rows: %.0f ms of CPU"):format(ms))
    assert.is_true(ms < 400, ms)
  end)
end)
