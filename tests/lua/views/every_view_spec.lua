-- SPDX-License-Identifier: MIT
-- Every view of every kind that collect_events makes, over a recording of each: its fields, what topN does to it, and that it has the rows
-- that a short answer left out. No view collects anything anew.
local app = require("lunette.app")
local collect_events = require("tools.collect_events")
local every_kind = require("support.every_kind")
local handles = require("lunette.handles")
local json = require("lunette.json")
local kinds = require("lunette.kinds")
local kit = require("support.framework_kit")
local probe = require("lunette.probe")
local process = require("lunette.process")
local query_snapshot = require("tools.query_snapshot")
local recorded = require("support.recorded")
local texts_of = require("support.texts")

local ALL <const> = 100000
local SECRETS <const> = { "S3cret", "hunter2-lunette" } -- what the recorded programs had wherever text can be
local TRACE <const> = "aaaaaaaaaaaaaaaa0000000000000001" -- of the recorded spans

local others = {} -- what views need beside their own handle

-- The options that a view cannot do without.
local function required(kind, view)
  if view == "trace" then return { traceId = TRACE } end
  if view == "gc-overlay" then return { gcHandle = others.pauses } end
  if view == "diff" then return { baselineHandle = others[kind] } end
  return {}
end

local function ask(kind, view, more)
  local envelope = every_kind.answer(kind)
  local entry = assert(handles.get(envelope.handle))
  local arguments = required(kind, view)
  arguments.handle, arguments.view = entry.id, view
  for name, value in pairs(more or {}) do arguments[name] = value end
  local answer = kit.call(query_snapshot, arguments)
  if answer.error then error(("%s/%s: %s"):format(kind, view, answer.error.message), 2) end
  return answer, entry.kind
end

-- The rows of all lists of a payload, however deep.
local function rows_of(value, found)
  for _, item in pairs(value) do
    if json.is_array(value) then found[#found + 1] = item end
    if type(item) == "table" then rows_of(item, found) end
  end
  return found
end

-- Whether a row of a view tells of the same thing: the two agree in all members that both have, and have all or several. A view may
-- know more of it, or, since the answer was short, less.
local function is_same(row, shown)
  if type(row) ~= "table" or type(shown) ~= "table" then return row == shown end
  local common, members = 0, 0
  for name, value in pairs(row) do
    members = members + 1
    if shown[name] ~= nil then
      if json.encode(value) ~= json.encode(shown[name]) then return false end
      common = common + 1
    end
  end
  return common >= math.min(members, 3)
end

local function is_among(row, rows)
  for _, shown in ipairs(rows) do
    if is_same(row, shown) then return true end
  end
  return false
end

local function views_of(kind) return kinds.get(assert(handles.get(every_kind.answer(kind).handle)).kind).view_names end

local function payload_of(kind, depth)
  return every_kind.answer(kind, depth).data[collect_events.branches[kind].data_field]
end

describe("every view", function()
  local real = { run = probe.run, resolve = process.resolve }

  setup(function()
    app.load({})
    handles.configure(200)
    for _, kind in ipairs(every_kind.kinds()) do
      every_kind.answer(kind)
      every_kind.answer(kind, "Detail")
    end
    for _, kind in ipairs { "counters", "gc", "datas", "threadpool", "contention" } do
      others[kind] = every_kind.answer(kind, "Detail").handle -- a capture of its own over the same recording
    end
    others.pauses = recorded.collect("gc", "spans").handle -- of the process whose spans are asked
    function probe.run() error("a view opened a window") end
    function process.resolve() error("a view looked for a process") end
  end)
  teardown(function()
    probe.run, process.resolve = real.run, real.resolve
    handles.configure(handles.DEFAULT_ENTRIES)
    handles.clear()
    every_kind.forget()
  end)

  for _, kind in ipairs(every_kind.kinds()) do
    it("has the fields of its record, and collects nothing: " .. kind, function()
      for _, view in ipairs(views_of(kind)) do
        for _, options in ipairs { {}, { topN = 1 }, { topN = ALL } } do
          local answer, handle_kind = ask(kind, view, options)
          assert(kit.conforms(answer, nil, handle_kind, view))
          assert.same({ handle_kind, view }, { answer.data.kind, answer.data.view })
          assert.is_true(#answer.summary > 0 and answer.safety ~= nil and answer.resolvedProcess == nil, view)
        end
      end
    end)

    it("obeys topN, and says how many rows it gives: " .. kind, function()
      for _, view in ipairs(views_of(kind)) do
        local one = ask(kind, view, { topN = 1 }).data.payload
        local all = ask(kind, view, { topN = ALL }).data.payload
        local declared = kinds.get(ask(kind, view).data.kind).views[view]
        if not declared.options.topN then assert.same(all, one, view) end
        for _, payload in ipairs { one, all } do
          if payload.returned and view ~= "trace" then
            local n = 0
            for _, list in pairs(payload) do
              if type(list) == "table" and json.is_array(list) and #list == payload.returned then n = n + 1 end
            end
            assert.is_true(payload.returned == 0 or n > 0, view)
          end
        end
      end
    end)

    it("has no secret of the program, nor is one behind the handle: " .. kind, function()
      local found = texts_of(assert(handles.get(every_kind.answer(kind).handle)).artifact)
      for _, view in ipairs(views_of(kind)) do texts_of(ask(kind, view, { topN = ALL }), found) end
      texts_of(every_kind.answer(kind, "Detail"), found)
      for _, text in ipairs(found) do
        for _, secret in ipairs(SECRETS) do
          if text:find(secret, 1, true) then error(secret .. " is in: " .. text) end
        end
      end
    end)

    it("has what a short answer left out: " .. kind, function()
      local short, long = payload_of(kind), payload_of(kind, "Detail")
      local found = {}
      for _, view in ipairs(views_of(kind)) do rows_of(ask(kind, view, { topN = ALL }).data.payload, found) end
      for name, list in pairs(long) do
        if type(list) == "table" and json.is_array(list) and name ~= "notes" and #list > #(short[name] or {}) then
          for i, row in ipairs(list) do
            if not is_among(row, found) then
              error(("row %d of %d of %s is in no view: %s"):format(i, #list, name, json.encode(row)))
            end
          end
        end
      end
    end)
  end
end)
