-- SPDX-License-Identifier: MIT
-- datas: how Server GC adapts the number of its heaps to the size of the application (DATAS), over one window.
local lazy = require("lunette.lazy")
local collector = require("lunette.collector")
local history = lazy("collectors.datas.history")
local measured = require("collectors.measured")
local probe = require("lunette.probe")
local snapshot = lazy("collectors.datas.snapshot")
local window = require("collectors.window")

local RUNTIME <const> = probe.RUNTIME
local GC <const> = 0x1
local LEVEL <const> = 4
local BUFFER_MB <const> = 64
local QUEUE <const> = 100000
local MAX_ROWS <const> = 1000

-- The payloads are bytes whose layout the name of the event decides, so all events come to Lua: three or four a collection.
local function open_options(source, save_to)
  local open = {
    want = { { provider = RUNTIME, event = "GC/DynamicTraceEvent" }, { provider = RUNTIME, event = "GC/GlobalHeapHistory" } },
    queue = QUEUE,
  }
  if source.path then
    open.path = source.path
  else
    open.pid, open.rundown, open.buffer_mb = source.process.pid, 0, BUFFER_MB
    open.providers = { { name = RUNTIME, keywords = GC, level = LEVEL } }
    open.save_to = save_to
  end
  return open
end

-- Why nothing came.
local function absence(h, recorded)
  if h.collections == 0 then
    return recorded and "the recording has no collection, or was made without the keyword GC (0x1)."
      or "no collection happened in the window, and the GC adapts at collections only. Use a longer window under load."
  end
  if h.max_heaps_seen > 1 then
    return ("%d collections of a Server GC with %d heaps, which does not adapt: DATAS is off (DOTNET_GCDynamicAdaptationMode=0, a fixed "
      .. "GCHeapCount, or .NET 8, where DOTNET_GCDynamicAdaptationMode=1 switches it on)."):format(h.collections, h.max_heaps_seen)
  end
  return ("%d collection%s, none of them adapting: this is Workstation GC (DOTNET_gcServer=1 or ServerGarbageCollection would make it "
    .. "Server GC), or Server GC with one heap and DATAS off."):format(h.collections, h.collections == 1 and "" or "s")
end

local function add_notes(notes, h, recorded)
  if h:seen() == 0 then notes[#notes + 1] = snapshot.NONE .. ": " .. absence(h, recorded) end
  if h.short > 0 then
    notes[#notes + 1] = ("Malformed: %d adaptation events were shorter than their layout and were left out."):format(h.short)
  end
  for _, list in ipairs { "samples", "tuning", "gen2" } do
    if h.dropped[list] > 0 then
      notes[#notes + 1] = ("RowLimitReached: capped at %d rows of %s; %d more are in the overview only."):format(h.max_rows, list,
        h.dropped[list])
    end
  end
end

local function collect(ctx, source, args)
  local h = history.new(args.maxEvents or MAX_ROWS)
  local spec = {
    open = open_options(source, args.save_to), duration_ms = not source.path and args.durationSeconds * 1000 or nil,
    message = "Collecting Server GC adaptation", priced = true,
    on_event = function(event)
      local fields = event.fields or {}
      if event.name == "GC/DynamicTraceEvent" then
        h:dynamic(event.time_ns, fields.Name, fields.Data)
      else
        h:collected(fields.NumHeaps)
      end
    end,
  }
  local result, err = window.run(ctx, spec)
  if not result then return nil, err end
  local summary, notes = result.summary, {}
  local empty = source.path and collector.empty_recording(source.path, summary)
  if empty then return nil, empty end
  window.notes(result, spec, notes)
  add_notes(notes, h, source.path ~= nil)
  return {
    process_id = source.process and source.process.pid or summary.pid or 0, started_unix_ms = result.started_unix_ms,
    duration_ms = (summary.duration_ns or 0) / 1e6, start_unix_ns = summary.start_unix_ns or result.started_unix_ms * 1000000, history = h,
    cost = measured.price(result.cost), notes = notes, origin = source.path and "trace" or "live",
  }
end

return collector {
  kind = "datas", handle = "gc-datas", risk = "low", data_field = "datas", payload = "DatasSnapshot", collect = collect,
  inline = function(artifact, args) return snapshot.wire(artifact, args.depth) end,
  summary = function(...) return snapshot.sentence(...) end,
}
