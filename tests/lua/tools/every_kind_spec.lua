-- SPDX-License-Identifier: MIT
-- What holds for every kind of collect_events alike, over a recording of each: fields, scopes, windows, depths, sizes, handles.
local args = require("lunette.args")
local collect_events = require("tools.collect_events")
local every_kind = require("support.every_kind")
local handles = require("lunette.handles")
local json = require("lunette.json")
local kit = require("support.framework_kit")
local numbers = require("lunette.numbers")

local KINDS <const> = every_kind.kinds()
local SUMMARY_MAX <const> = 16 * 1024
-- Where a kind has a window of its own.
local WINDOW <const> = { counters = 5, datas = 15, sweep = 6, replica_counters = 5 }

local function error_of(arguments, options)
  local envelope, result = kit.call(collect_events, arguments, every_kind.ctx(options))
  return envelope.error or {}, result, envelope
end

-- What a kind must be told beside its name, so that nothing else can be wrong with the call.
local function named(kind, more)
  local arguments = kind == "event_source" and { providerName = "System.Runtime" }
    or kind == "distributed_trace" and { traceId = ("a"):rep(32) } or {}
  arguments.kind = kind
  for name, value in pairs(more or {}) do arguments[name] = value end
  return arguments
end

describe("every kind of collect_events", function()
  setup(function()
    handles.configure(200) -- all captures of this file at once
    for _, name in ipairs { "sample", "thread_snapshot", "process_dump" } do require("tools.collect_" .. name) end -- what hints lead to
    for _, name in ipairs { "heap", "process" } do require("tools.inspect_" .. name) end
  end)
  teardown(function()
    handles.configure(handles.DEFAULT_ENTRIES)
    handles.clear()
    every_kind.forget()
  end)

  for _, kind in ipairs(KINDS) do
    it("answers with the fields of its record, at any depth: " .. kind, function()
      for _, depth in ipairs { "", "Detail" } do
        assert(kit.conforms(every_kind.answer(kind, depth ~= "" and depth or nil), collect_events))
      end
    end)

    it("has kind and exactly one payload in its data: " .. kind, function()
      local data, members = every_kind.answer(kind).data, {}
      for name in pairs(data) do members[#members + 1] = name end
      assert.equal(2, #members, table.concat(members, " "))
      assert.equal(kind, data.kind)
      assert.is_table(data[collect_events.branches[kind].data_field])
    end)

    it("says in one sentence what it saw, with hints, its price and no warning that is not its own: " .. kind, function()
      local envelope = every_kind.answer(kind)
      assert.is_true(#envelope.summary > 20 and not envelope.cancelled and #envelope.hints > 0)
      for _, hint in ipairs(envelope.hints) do
        assert.is_truthy(("high normal low"):find(hint.priority, 1, true))
        local given = hint.suggestedArguments or {} -- nothing leads from a recording to whatever process runs here
        assert.is_nil(given.processId)
        if hint.nextTool ~= "collect_process_dump" then assert.is_string(given.handle or given.traceFilePath, hint.reason) end
      end
      local level = envelope.safety.riskLevel
      assert.equal(level == "moderate", envelope.safetyWarnings ~= nil, level)
      assert.is_nil(envelope.resolvedProcess) -- a recording is no live process
      for _, signal in ipairs(envelope.signals or {}) do
        assert.is_true(signal.salience >= 0 and signal.salience <= 1)
        for _, bucket in ipairs(signal.buckets) do assert.equal(envelope.handle, bucket.handle, signal.signal) end
      end
    end)

    it("has a handle with both times of its end: " .. kind, function()
      local envelope = every_kind.answer(kind)
      local entry = assert(handles.get(envelope.handle))
      assert.same({ collect_events.branches[kind].handle or entry.kind, "trace" }, { entry.kind, entry.origin })
      assert.is_true(envelope.handleExpiresInSeconds > 540 and envelope.handleExpiresInSeconds <= 600)
      assert.equal(numbers.iso(entry.expires_unix_ms), envelope.handleExpiresAt)
    end)

    it("stays within 16 KB at Summary: " .. kind, function()
      local bytes = #json.encode(every_kind.answer(kind).data)
      assert.is_true(bytes <= SUMMARY_MAX, bytes)
    end)
  end

  it("takes depth in any letter case: Summary when absent, and Raw is Detail", function()
    for _, kind in ipairs(KINDS) do
      if not every_kind.NO_DEPTH[kind] then
        local field = collect_events.branches[kind].data_field
        local function payload(depth)
          local copy = {}
          for name, value in pairs(every_kind.answer(kind, depth).data[field]) do copy[name] = value end
          copy.cost, copy.captureQuality = nil, nil -- they tell how long the reading took
          return copy
        end
        assert.same(payload(nil), payload("suMMary"), kind)
        assert.same(payload("Detail"), payload("RAW"), kind)
        assert.equal("depth", error_of(every_kind.arguments(kind, { depth = "all" })).detail, kind)
      end
    end
  end)

  it("is named in the letters of the contract, with blanks around it or not", function()
    for _, kind in ipairs(collect_events.branch_names) do
      local far = { processId = 999999999 }
      for _, wrong in ipairs { kind:upper(), kind:gsub("^%l", string.upper), kind .. "s" } do
        local err = error_of(named(kind, { kind = wrong }))
        assert.same({ "InvalidArgument", "kind" }, { err.kind, err.detail }, wrong)
        assert.is_truthy(err.message:find(kind, 1, true), wrong)
      end
      assert.not_equal("kind", error_of(named(kind, { kind = "  " .. kind .. " ", processId = far.processId })).detail, kind)
    end
  end)

  it("has the window of the contract", function()
    local function window(kind, given) return args.bind(collect_events.params, named(kind, { durationSeconds = given }), kind) end
    for _, kind in ipairs(collect_events.branch_names) do
      assert.equal(WINDOW[kind] or 10, window(kind).args.durationSeconds, kind)
      assert.equal("durationSeconds", select(2, window(kind, 0)).detail, kind)
      assert.equal(300, window(kind, 300).args.durationSeconds, kind)
    end
  end)

  it("refuses a window above 300 s outside a task, and none in one", function()
    for _, kind in ipairs(KINDS) do
      local arguments = named(kind, { processId = 999999999, durationSeconds = 301 })
      assert.same({ "InvalidArgument", "durationSeconds" }, { error_of(arguments).kind, error_of(arguments).detail }, kind)
      assert.not_equal("durationSeconds", error_of(arguments, { in_task = true }).detail, kind)
    end
  end)

  it("is not for a bearer with read-counters alone, but for counters", function()
    for _, kind in ipairs(collect_events.branch_names) do
      local err, result, envelope = error_of(named(kind, { processId = 999999999 }), { scopes = { "read-counters" } })
      if kind == "counters" then
        assert.equal("ProcessNotFound", err.kind)
      else
        assert.same({ "PermissionDenied", true }, { err.kind, result.isError }, kind)
        assert.is_truthy(err.detail:find(kind == "replica_counters" and "orchestrator-attach" or "eventpipe", 1, true), kind)
        assert.is_nil(envelope.data)
      end
    end
  end)

  it("is for a bearer with eventpipe alone, but for counters and the fan-outs", function()
    for _, kind in ipairs(collect_events.branch_names) do
      local err = error_of(named(kind, { processId = 999999999 }), { scopes = { "eventpipe" } })
      local allowed = kind ~= "counters" and kind ~= "distributed_trace" and kind ~= "replica_counters"
      assert.equal(allowed and "ProcessNotFound" or "PermissionDenied", err.kind, kind)
    end
  end)

  it("reports 100 at the end", function()
    for _, kind in ipairs { "gc", "logs", "requests" } do
      local ctx = every_kind.ctx()
      kit.call(collect_events, every_kind.arguments(kind), ctx)
      assert.equal(100, ctx.reported[#ctx.reported][1], kind)
    end
  end)
end)
