-- SPDX-License-Identifier: MIT
-- catalog: which events a program emits: provider, name, level and how often. No payload value is read here, and where that can be told
-- to the target, none is written there.
local lazy = require("lunette.lazy")
local bridge = require("collectors.diagnostic_source")
local collector = require("lunette.collector")
local errors = require("lunette.errors")
local event_names = require("collectors.event_names")
local gate = lazy("lunette.source_gate")
local hints = require("lunette.hints")
local json = require("lunette.json")
local measured = require("collectors.measured")
local numbers = require("lunette.numbers")
local payload = require("collectors.event_source.payload")
local probe = require("lunette.probe")
local wire = lazy("collectors.catalog.wire")

local LEVEL <const> = 4              -- Informational
local ALL <const> = -1               -- keywords
local NAMES_ONLY <const> = ":-"      -- of all listeners, no values
local MAX_PROVIDERS <const> = 64
local MAX_NAME <const> = 256
local MAX_KINDS <const> = 4096       -- of events in one catalog
local INLINE <const> = { Summary = { rows = 60, sample = 0 }, Detail = { rows = 200, sample = 100 }, Raw = { rows = 200, sample = 100 } }
local NAMED <const> = 10             -- silent providers in one note
local STREAM <const> = "Microsoft-DotNETCore-EventPipe" -- what the stream says of itself

-- The sources that are asked when the caller names none. Left out of the runtime's keywords: what makes it collect, walk its heap, or write
-- an event an object or a type. Of the others: what turns on activity ids, and forms of one log message beside the first.
local CURATED <const> = {
  {
    name = probe.RUNTIME, keywords = { "GC", "GCHandle", "AssemblyLoader", "Loader", "Jit", "NGen", "Interop", "Contention", "Exception",
      "Threading", "Compilation" },
  },
  { name = "System.Runtime", keywords = ALL },
  { name = bridge.PROVIDER, keywords = 0x3, args = bridge.args { NAMES_ONLY } },
  { name = "Microsoft-Extensions-Logging", keywords = 0x8 },
  { name = "System.Threading.Tasks.TplEventSource", keywords = 0x7f },
}
local curated = {}
for _, p in ipairs(CURATED) do curated[p.name:lower()] = p end

local function check(args)
  local names = args.providers
  if not names then return true end
  if #names == 0 or #names > MAX_PROVIDERS then
    return nil, errors.invalid("providers", ("providers holds 1 to %d names; leave it out for the curated set."):format(MAX_PROVIDERS))
  end
  for _, name in ipairs(names) do
    if type(name) ~= "string" or name == "" or #name > MAX_NAME or name:find("[%c\"/]") then
      return nil, errors.invalid("providers", ("providers holds names of 1 to %d bytes without control characters, quotes and slashes.")
        :format(MAX_NAME))
    end
    if name:find("*", 1, true) and not (args.traceFilePath and name == "*") then
      return nil, errors.invalid("providers", ("providers holds whole names, not '%s': a runtime cannot be asked for all of its sources. "
        .. "Leave it out for %s."):format(name, args.traceFilePath and "all sources of the recording" or "the curated set"))
    end
  end
  return true
end

--- What is enabled: the named sources, or the curated ones.
local function providers_of(names)
  local list, seen = {}, {}
  for _, p in ipairs(CURATED) do
    if not names then list[#list + 1] = { name = p.name, keywords = p.keywords, level = LEVEL, args = p.args } end
  end
  for _, name in ipairs(names or {}) do
    local known = curated[name:lower()]
    if not seen[name:lower()] then
      list[#list + 1] = { name = name, keywords = known and known.keywords or ALL, level = LEVEL, args = known and known.args or nil }
    end
    seen[name:lower()] = true
  end
  return list
end

-- With sources of the caller's own the bridge is left alone, unless it is one of them.
local function over_bridge(providers)
  for _, p in ipairs(providers) do
    if p.name:lower() == bridge.PROVIDER:lower() then return true end
  end
  return false
end

local function program(providers, names, max_events)
  local patterns = { "*/*" } -- a session holds what it enabled; a recording is shown whole, unless sources were named
  for i, name in ipairs(names or {}) do patterns[i] = name .. "/*" end
  return probe.program {
    name = "catalog", providers = providers, events = { any = patterns },
    keep = {
      own = probe.filter {
        where = ("@provider != %q"):format(STREAM),
        keep = {
          total = probe.count(),
          kinds = probe.group {
            by = { provider = "@provider", event = "@event", level = "@level" }, max = MAX_KINDS, top = MAX_KINDS,
            keep = { count = probe.count() },
          },
          sample = probe.first(max_events, { unix = "@unix", provider = "@provider", event = "@event", level = "@level" }),
        },
      },
    },
  }
end

local function sorted(rows)
  table.sort(rows, function(a, b)
    if a.count ~= b.count then return a.count > b.count end
    if a.provider ~= b.provider then return a.provider < b.provider end
    if a.event ~= b.event then return a.event < b.event end
    return a.level < b.level
  end)
  return rows
end

-- A program may put anything into the names of its sources and events.
local function plain_names(rows)
  for _, row in ipairs(rows) do row.provider, row.event = payload.name(row.provider), payload.name(row.event) end
end

-- asked: the names that were enabled; of a recording those that the caller gave.
local function add_notes(artifact, asked, live)
  local notes, spoke, silent = artifact.notes, { ["*"] = true }, {}
  for _, row in ipairs(artifact.catalog) do spoke[row.provider:lower()] = true end
  for _, name in ipairs(asked) do
    if not spoke[name:lower()] then silent[#silent + 1] = live and name or payload.name(name) end
  end
  if #silent > 0 then
    notes[#notes + 1] = ("ProviderSilent: no event came from %s%s. %s")
      :format(table.concat(silent, ", ", 1, math.min(NAMED, #silent)), #silent > NAMED and (" and %d more"):format(#silent - NAMED) or "",
        live and "The program has no such event source, or it did nothing in the window."
          or "Without providers all sources of the recording are shown.")
  end
  if artifact.left_out > 0 then
    notes[#notes + 1] = ("Capped: %d events of more than %d kinds are counted in totalEvents only."):format(artifact.left_out, MAX_KINDS)
  end
end

local function collect(ctx, from, args)
  local live = from.process
  local providers = providers_of(args.providers)
  local window <close> = bridge.enter(live and over_bridge(providers) and live.pid, { NAMES_ONLY })
  local result, err = probe.run(ctx, program(providers, args.providers, args.maxEvents), {
    process = live, path = from.path, duration_ms = args.durationSeconds * 1000, message = "Collecting names of events",
    save_to = args.save_to, bridge = window,
  })
  if not result then return nil, err end
  err = from.path and collector.empty_recording(from.path, result.window.summary)
  if err then return nil, err end
  local artifact, own = measured.window(result, from), result.own
  artifact.providers, artifact.total, artifact.catalog, artifact.sample = {}, own.total, sorted(own.kinds.rows), own.sample.rows
  plain_names(artifact.catalog)
  plain_names(artifact.sample)
  artifact.truncated, artifact.left_out = own.total > #artifact.sample, own.total
  for i, p in ipairs(live and providers or {}) do artifact.providers[i] = p.name end
  if not live then
    for i, g in ipairs(wire.by_provider(artifact.catalog)) do artifact.providers[i] = g.provider end
  end
  for _, row in ipairs(artifact.catalog) do artifact.left_out = artifact.left_out - row.count end
  add_notes(artifact, live and artifact.providers or args.providers or {}, live)
  bridge.notes(artifact.notes, window)
  if window.shared then artifact.notes[#artifact.notes + 1] = bridge.COUNTS end
  return artifact
end

local function inline(artifact, args)
  local size, notes = INLINE[args.depth], { table.unpack(artifact.notes) }
  local rows, matching = wire.list(artifact.catalog, wire.row, size.rows)
  local sample = size.sample > 0 and wire.list(artifact.sample, wire.occurrence, size.sample) or json.array({})
  if #rows < matching then
    notes[#notes + 1] = ("Inline: %d more kinds of events are behind the handle: query_snapshot(view=\"catalog\").")
      :format(matching - #rows)
  end
  return wire.snapshot(artifact, rows, sample, notes)
end

local function sentence(artifact, from)
  local what = from.path and "the recording" or ("process %d"):format(artifact.process_id)
  local top = artifact.catalog[1]
  return ("%d events of %d kinds from %s over %s%s."):format(artifact.total, #artifact.catalog, what, numbers.span(artifact.duration_ms),
    top and (", most often %s (%d)"):format(event_names.spoken(top.event), top.count) or "")
end

-- The payload of the busiest source that anybody may open; else of the busiest, with what that takes.
local function payload_hint(artifact, pid, path)
  local first = artifact.catalog[1]
  if not first then return nil end
  for _, row in ipairs(artifact.catalog) do
    if gate.decide(nil, row.provider, false) then
      return hints.new("collect_events", "See the payload of the events of one source.",
        { kind = "event_source", providerName = row.provider, processId = pid, traceFilePath = path })
    end
  end
  return hints.new("collect_events", "See the payload of its events; it is not on the allowlist, so the token needs " .. gate.SCOPE .. ".",
    { kind = "event_source", providerName = first.provider, processId = pid, traceFilePath = path, unsafeProvider = true })
end

return collector {
  kind = "catalog", handle = "event-catalog", data_field = "catalog", payload = "EventCatalogSnapshot",
  risk = { level = "low", side_effects = { "takes the one DiagnosticSource filter of the process while it runs" } },
  collect = collect, check = check, inline = inline, summary = sentence,
  hints = function(artifact, handle_id, pid, args)
    return {
      hints.new("query_snapshot", "See all kinds of events.", { handle = handle_id, view = "catalog" }, "high"),
      payload_hint(artifact, pid, args.traceFilePath),
    }
  end,
}
