-- SPDX-License-Identifier: MIT
-- exceptions: every managed exception that is thrown in a window, handled or not: exact counts by type, the first rows with their stacks.
local lazy = require("lunette.lazy")
local collector = require("lunette.collector")
local json = require("lunette.json")
local measured = require("collectors.measured")
local numbers = require("lunette.numbers")
local probe = require("lunette.probe")
local rows = lazy("collectors.exceptions.rows")

local MAX_INLINE_TYPES <const> = 50 -- at Summary; the handle has all
local ERROR_LEVEL <const> = 2        -- of the throw event; catch, finally and filter events would come from 4 on

local function program(kept)
  return probe.program {
    name = "exceptions",
    providers = { { name = rows.PROVIDER, keywords = "Exception", level = ERROR_LEVEL } },
    events = { throw = rows.THROW },
    keep = {
      total = probe.count { on = "throw" },
      rethrown = probe.count { on = "throw", where = "bit(ExceptionFlags, 4)" },
      by_type = rows.by_type("throw"),
      sites = rows.sites("throw"),
      recent = probe.first(kept, rows.columns(), { on = "throw" }),
    },
  }
end

local function notes_of(source, result, artifact, args)
  local notes = { table.unpack(result.notes) }
  measured.none_recorded(notes, source, artifact.total, "exception", rows.NEEDS)
  if artifact.other_types > 0 then
    notes[#notes + 1] = ("TypeLimitReached: capped at %d types; %d exceptions of others are in the total only.")
      :format(rows.MAX_TYPES, artifact.other_types)
  end
  if artifact.recent_cap < (args.maxRecent or 0) then
    notes[#notes + 1] = ("RowLimit: maxRecent %d was cut to %d."):format(args.maxRecent, artifact.recent_cap)
  end
  if result.rethrown > 0 then
    notes[#notes + 1] = ("Rethrown: %d of the %d throws throw an exception again that was counted before."):format(result.rethrown,
      result.total)
  end
  return notes
end

local function artifact_of(source, result, args)
  local counts, other = rows.counts(result.by_type)
  local sites, resolved = rows.throw_sites(result.sites, result.stacks)
  local artifact = {
    process_id = source.process and source.process.pid or result.window.summary.pid or 0,
    started_unix_ms = result.window.started_unix_ms, duration_ms = rows.duration_ms(source, result),
    total = result.total, by_type = counts, other_types = other, sites = sites, resolved = resolved,
    recent = rows.list(result.recent.rows, result.stacks), recent_cap = rows.kept(args), cost = measured.price(result.cost),
  }
  artifact.notes = notes_of(source, result, artifact, args)
  return artifact
end

local function inline(artifact, args)
  local summary = args.depth == "Summary"
  local notes = json.array({ table.unpack(artifact.notes) })
  local limit = summary and MAX_INLINE_TYPES or nil
  if limit and #artifact.by_type > limit then
    notes[#notes + 1] = ("Inline: %d more types are behind the handle: query_snapshot(view=\"byType\")."):format(#artifact.by_type - limit)
  end
  return setmetatable({
    processId = artifact.process_id, startedAt = numbers.iso(artifact.started_unix_ms), duration = numbers.timespan(artifact.duration_ms),
    totalExceptions = artifact.total, byType = rows.wire_counts(artifact.by_type, limit),
    recent = summary and json.array({}) or rows.wire_rows(artifact.recent), recentCap = artifact.recent_cap, notes = notes,
    cost = artifact.cost,
  }, { __order = { "processId", "startedAt", "duration", "totalExceptions", "byType", "recent", "recentCap", "notes", "cost" } })
end

local function sentence(artifact, source)
  local top = artifact.by_type[1]
  local what = source.path and "the recording" or ("process %d"):format(artifact.process_id)
  return ("%s of %s over %s%s."):format(rows.amount(artifact.total, #artifact.by_type), what, numbers.span(artifact.duration_ms),
    top and (", most often %s (%d)"):format(top.type, top.n) or "")
end

return collector {
  kind = "exceptions", handle = "exception-snapshot", risk = "moderate", data_field = "exceptions", payload = "ExceptionSnapshot",
  collect = function(ctx, source, args)
    local result, err = probe.run(ctx, program(rows.kept(args)), {
      process = source.process, path = source.path, duration_ms = args.durationSeconds * 1000, save_to = args.save_to,
      message = "Collecting exceptions",
    })
    if not result then return nil, err end
    local empty = source.path and collector.empty_recording(source.path, result.window.summary)
    if empty then return nil, empty end
    return artifact_of(source, result, args)
  end,
  inline = inline,
  summary = sentence,
}
