-- SPDX-License-Identifier: MIT
-- The artifact behind a crash-guard handle, and how it looks on the wire. Never changed once made: a later exit changes nothing.
local json = require("lunette.json")
local measured = require("collectors.measured")
local numbers = require("lunette.numbers")
local rows = require("collectors.exceptions.rows")

local M = {}

---@class CrashGuardArtifact
---@field process_id integer
---@field started_unix_ms integer
---@field duration_ms number
---@field exited boolean
---@field exit_code integer?     nil: the system gave none
---@field unhandled boolean
---@field final ThrownException?
---@field total integer
---@field by_type { type: string, n: integer }[]
---@field sites table[]
---@field resolved integer       throws with a resolved stack
---@field recent ThrownException[]   the last ones, in order of time
---@field recent_cap integer
---@field observation table
---@field cost table
---@field notes string[]

-- Why a stream ended early, by the kind of the reason: the bytes were wrong, or the stop did not come through.
local MALFORMED <const> = "MalformedInput"
local PARSER <const> = { [MALFORMED] = true, TruncatedInput = true, NotSupported = true, BudgetExceeded = true }
local GONE <const> = "ProcessExited"

local function observation(result, verdict, last)
  local s = result.window.summary
  local kind, lost = s.incomplete_kind, s.lost
  return {
    stream_completed = s.complete == true, transport_loss = (s.complete or (lost or 0) > 0) and lost or nil,
    parser_error = PARSER[kind] and kind or nil, stop_error = kind and not PARSER[kind] and kind ~= GONE and kind or nil,
    drain_completed = s.complete == true or result.window.ended == "stream-end" and kind ~= MALFORMED,
    marker = verdict.marker, exit_in_window = verdict.exited, last = last,
  }
end

local function notes_of(source, result, artifact, verdict, args)
  local notes = { table.unpack(verdict.notes) }
  table.move(result.notes, 1, #result.notes, #notes + 1, notes)
  measured.none_recorded(notes, source, artifact.total, "exception", rows.NEEDS)
  if result.recent.dropped > 0 then
    notes[#notes + 1] = ("Retained: the last %d of %d exceptions; counts have all."):format(#artifact.recent, artifact.total)
  end
  if artifact.other_types > 0 then
    notes[#notes + 1] = ("TypeLimitReached: capped at %d types; %d exceptions of others are in the total only.")
      :format(rows.MAX_TYPES, artifact.other_types)
  end
  if artifact.recent_cap < (args.maxRecent or 0) then
    notes[#notes + 1] = ("RowLimit: maxRecent %d was cut to %d."):format(args.maxRecent, artifact.recent_cap)
  end
  if artifact.final and not artifact.final.frames then
    notes[#notes + 1] = "NoStack: the runtime gave no stack for the final exception that has names."
  end
  return notes
end

--- The artifact of a window.
---@param source CollectorSource
---@param result table         of the engine
---@param verdict CrashVerdict
---@param args { maxRecent: integer? }
---@return CrashGuardArtifact
function M.artifact(source, result, verdict, args)
  local counts, other = rows.counts(result.by_type)
  local sites, resolved = rows.throw_sites(result.sites, result.stacks)
  local recent = rows.list(result.recent.rows, result.stacks)
  local artifact = {
    process_id = source.process and source.process.pid or result.window.summary.pid or 0,
    started_unix_ms = result.window.started_unix_ms, duration_ms = rows.duration_ms(source, result),
    exited = verdict.exited, exit_code = verdict.exit_code, unhandled = verdict.unhandled,
    final = verdict.final and rows.of(verdict.final, result.stacks), total = result.total, by_type = counts, other_types = other,
    sites = sites, resolved = resolved, recent = recent, recent_cap = rows.kept(args), cost = measured.price(result.cost),
    observation = observation(result, verdict, recent[#recent]),
  }
  artifact.notes = notes_of(source, result, artifact, verdict, args)
  return artifact
end

-- ---- to the wire -----------------------------------------------------------------------------------------------------------------

local ORDER <const> = {
  __order = {
    "processId", "startedAt", "duration", "processExited", "exitCode", "unhandledExceptionObserved", "finalException", "totalExceptions",
    "byType", "exceptions", "recentCap", "notes", "observation", "cost",
  },
}
local SUMMARY_ORDER <const> = {
  __order = { "processExited", "exitCode", "unhandledExceptionObserved", "finalException", "byType", "notes" },
}
local OBSERVATION_ORDER <const> = {
  __order = {
    "streamCompleted", "transportLoss", "parserErrorType", "stopErrorType", "drainCompleted", "crashMarkerObserved",
    "exitObservedInWindow", "lastObservedException",
  },
}
local MAX_INLINE_TYPES <const> = 50

local function wire_observation(o, limits)
  return setmetatable({
    streamCompleted = o.stream_completed, transportLoss = o.transport_loss, parserErrorType = o.parser_error, stopErrorType = o.stop_error,
    drainCompleted = o.drain_completed, crashMarkerObserved = o.marker, exitObservedInWindow = o.exit_in_window,
    lastObservedException = rows.wire_row(o.last, limits),
  }, OBSERVATION_ORDER)
end

--- CrashGuardSnapshot; `summary`: without the single exceptions.
function M.wire(artifact, summary)
  local notes = json.array({ table.unpack(artifact.notes) })
  local limit, limits = summary and MAX_INLINE_TYPES or nil, summary and rows.SHORT or rows.ROW
  if limit and #artifact.by_type > limit then
    notes[#notes + 1] = ("Inline: %d more types are behind the handle: query_snapshot(view=\"summary\")."):format(#artifact.by_type - limit)
  end
  return setmetatable({
    processId = artifact.process_id, startedAt = numbers.iso(artifact.started_unix_ms), duration = numbers.timespan(artifact.duration_ms),
    processExited = artifact.exited, exitCode = artifact.exit_code, unhandledExceptionObserved = artifact.unhandled,
    finalException = rows.wire_row(artifact.final, limits), totalExceptions = artifact.total,
    byType = rows.wire_counts(artifact.by_type, limit), exceptions = summary and json.array({}) or rows.wire_rows(artifact.recent),
    recentCap = artifact.recent_cap, notes = notes, observation = wire_observation(artifact.observation, limits), cost = artifact.cost,
  }, ORDER)
end

--- CrashGuardSummaryView.
function M.wire_summary(artifact)
  return setmetatable({
    processExited = artifact.exited, exitCode = artifact.exit_code, unhandledExceptionObserved = artifact.unhandled,
    finalException = rows.wire_row(artifact.final, rows.ROW), byType = rows.wire_counts(artifact.by_type),
    notes = json.array({ table.unpack(artifact.notes) }),
  }, SUMMARY_ORDER)
end

--- One sentence of how it went.
function M.sentence(artifact, source)
  local how
  if artifact.exited then
    how = artifact.exit_code and ("ended with exit code %d"):format(artifact.exit_code) or "ended, its exit code is not known"
  else
    how = source and source.path and "is told of by a recording" or "still ran at the end"
  end
  local what = artifact.unhandled and (artifact.final and ("unhandled %s"):format(artifact.final.type)
    or "an unhandled exception, a FailFast or a fatal error is likely") or "no unhandled exception was seen"
  return ("Process %d %s after %s; %s; %s."):format(artifact.process_id, how, numbers.span(artifact.duration_ms), what,
    rows.amount(artifact.total, #artifact.by_type))
end

return M
