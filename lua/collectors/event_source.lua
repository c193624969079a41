-- SPDX-License-Identifier: MIT
-- event_source: the events of one named source with their payload. Which sources a caller may open is decided in lunette/source_gate.lua.
local lazy = require("lunette.lazy")
local bridge = require("collectors.diagnostic_source")
local capture = lazy("collectors.event_source.capture")
local collector = require("lunette.collector")
local event_names = require("collectors.event_names")
local gate = lazy("lunette.source_gate")
local json = require("lunette.json")
local measured = require("collectors.measured")
local numbers = require("lunette.numbers")
local payload = require("collectors.event_source.payload")
local window = require("collectors.window")
local wire = lazy("collectors.event_source.wire")

local MAX_INLINE_GROUPS <const> = 20  -- kinds of events in a summary
local MAX_INLINE_EVENTS <const> = 200 -- stored events in a detailed answer; the handle has all
local BRIDGED <const> = { ":" }       -- of DiagnosticSource itself: all listeners, with their values

local function risk(ctx, args)
  local grant = gate.decide(ctx.principal, args.providerName, args.unsafeProvider)
  if not grant then return "moderate" end -- refused when it runs: nobody is asked about that
  if grant.unsafe then
    return {
      level = "high", target_impact = "low", data_exposure = "secrets",
      reason = "Opens an event source outside the allowlist: an application's own events may hold personal data and secrets.",
      mitigations = { "Add the source to " .. gate.EXTRA .. " when it is known to be harmless.", "Known secrets are redacted." },
    }
  end
  if gate.forces_work(args.providerName, args.keywords) then
    return {
      level = "high", target_impact = "moderate", data_exposure = "content", side_effects = { "forces a full garbage collection" },
      reason = "These keywords make the runtime collect all generations and walk the heap while all threads stand still.",
    }
  end
  return "moderate"
end

local function source(ctx, args)
  local grant, err = gate.decide(ctx.principal, args.providerName, args.unsafeProvider)
  if not grant then return nil, err end
  gate.warn(grant)
  local found
  found, err = collector.source(ctx, args)
  if not found then return nil, err end
  found.grant = grant
  return found
end

--- Groups by name, the most frequent first: how many of each were stored, and how many there were.
local function groups_of(result, provider)
  local groups, by_name, total = {}, {}, 0
  for _, c in ipairs(result.summary.counts) do
    if c.provider:lower() == provider:lower() then
      local g = by_name[c.event]
      if not g then
        g = { name = c.event, stored = 0, total = 0 }
        by_name[c.event], groups[#groups + 1] = g, g
      end
      g.total, total = g.total + c.count, total + c.count
    end
  end
  for name, n in pairs(result.stored) do by_name[name].stored = n end
  for _, g in ipairs(groups) do g.name = payload.name(g.name) end
  table.sort(groups, function(a, b)
    if a.stored ~= b.stored then return a.stored > b.stored end
    if a.total ~= b.total then return a.total > b.total end
    return a.name < b.name
  end)
  return groups, total
end

local function notes_of(from, artifact, result, spec, notes)
  if artifact.truncated then
    notes[#notes + 1] = ("Truncated: %d of %d events are stored%s; counts by name cover the stored ones, total is of the whole window. "
      .. "A larger maxEvents stores more."):format(#artifact.events, artifact.total,
      result.bytes >= capture.MAX_BYTES and (" (%d MB of payload)"):format(capture.MAX_BYTES >> 20) or "")
  end
  if artifact.total == 0 and result.ended ~= "stream-end" then
    notes[#notes + 1] = ("ProviderSilent: no event came from %s. The program has no such event source, it did nothing in the window, or "
      .. "keywords and eventLevel leave its events out."):format(artifact.provider)
  end
  measured.none_recorded(notes, from, artifact.total, "event of " .. artifact.provider, "that source")
  if not result.full and (result.summary.dropped or 0) > 0 then
    notes[#notes + 1] = ("EventsDropped: events came faster than they could be stored; %d in between were only counted.")
      :format(result.summary.dropped)
  end
  local summary = setmetatable({ dropped = 0 }, { __index = result.summary })
  window.notes({ ended = result.ended, elapsed_ms = result.elapsed_ms, summary = summary }, spec, notes)
end

local function collect(ctx, from, args)
  local grant = from.grant
  local enabled = gate.enable(grant, args.keywords, args.eventLevel)
  local live = from.process
  local over_bridge = live and grant.provider:lower() == bridge.PROVIDER:lower()
  local bridged <close> = bridge.enter(over_bridge and live.pid, BRIDGED)
  local spec = {
    duration_ms = live and args.durationSeconds * 1000 or nil, max = args.maxEvents, message = "Collecting events of " .. grant.provider,
    bridge = bridged,
    open = capture.open {
      pid = live and live.pid, path = from.path, save_to = args.save_to, provider = grant.provider, max = args.maxEvents,
      providers = live and { {
        name = grant.provider, keywords = ("0x%x"):format(enabled.mask), level = enabled.level,
        args = over_bridge and bridge.args(BRIDGED) or nil,
      } } or nil,
    },
  }
  local result, err = capture.run(ctx, spec)
  if not result then return nil, err end
  if from.path then
    err = collector.empty_recording(from.path, result.summary)
    if err then return nil, err end
  end
  local summary = result.summary
  local artifact = {
    process_id = live and live.pid or summary.pid or 0, started_unix_ms = result.started_unix_ms, provider = grant.provider,
    duration_ms = live and result.elapsed_ms or math.floor((summary.duration_ns or 0) / 1e6), events = result.events,
    keywords = live and numbers.address(enabled.keywords) or nil, level = live and enabled.level or nil,
    notes = live and enabled.notes or {}, cost = measured.price(result.cost),
  }
  artifact.groups, artifact.total = groups_of(result, grant.provider)
  artifact.truncated = artifact.total > #artifact.events
  notes_of(from, artifact, result, spec, artifact.notes)
  bridge.notes(artifact.notes, bridged)
  if bridged.shared then artifact.notes[#artifact.notes + 1] = bridge.COUNTS end
  return artifact
end

local function inline(artifact, args)
  local notes, events = { table.unpack(artifact.notes) }, json.array({})
  if args.depth ~= "Summary" then events = wire.events(artifact, MAX_INLINE_EVENTS) end
  if #artifact.events > #events then
    notes[#notes + 1] = ("Inline: %s stored events are behind the handle: query_snapshot(view=\"events\").")
      :format(#events == 0 and "the" or "more")
  end
  return wire.snapshot(artifact, wire.groups(artifact, MAX_INLINE_GROUPS), events, notes)
end

local function sentence(artifact, from)
  local what = from.path and "the recording" or ("process %d"):format(artifact.process_id)
  local top = artifact.groups[1]
  return ("%d events of %s from %s over %s%s."):format(artifact.total, artifact.provider, what, numbers.span(artifact.duration_ms),
    top and (", %d of them %s; %d stored"):format(top.total, event_names.spoken(top.name), #artifact.events) or "")
end

return collector {
  kind = "event_source", handle = "event-source", data_field = "eventSource", payload = "EventSourceCapture",
  risk = risk, max_risk = "high",
  check = function(args)
    local bad = gate.check(args.providerName)
    if bad then return nil, bad end
    return true
  end,
  source = source, collect = collect, inline = inline, summary = sentence,
}
