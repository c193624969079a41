-- SPDX-License-Identifier: MIT
-- logs: the ILogger messages of one window: exact counts by level and category, the newest ones without their secrets; at depth above
-- Summary with their exceptions and the scopes around them.
local lazy = require("lunette.lazy")
local collector = require("lunette.collector")
local entries = lazy("collectors.logs.entries")
local globs = require("collectors.globs")
local measured = require("collectors.measured")
local numbers = require("lunette.numbers")
local probe = require("lunette.probe")
local program = lazy("collectors.logs.program")
local scopes = lazy("collectors.logs.scopes")
local shared = require("collectors.logs.shared")
local wire = lazy("collectors.logs.wire")

local DEFAULT_ROWS <const>, MAX_ROWS <const> = 500, 20000
local DEFAULT_BYTES <const>, MAX_BYTES <const> = 4096, 32768 -- of a text; an event has at most 64 KB of UTF-16

local function check(args)
  local _, bad = globs.check("categories", args.categories)
  if bad then return nil, bad end
  return true
end

local function asked_of(args, source)
  local patterns = globs.check("categories", args.categories)
  local lower = patterns and {}
  for i, name in ipairs(patterns or {}) do lower[i] = name:lower() end
  return {
    patterns = patterns, categories = lower, level = args.minLevel or "Information", recorded = source.path ~= nil,
    kept = math.min(args.maxEvents or DEFAULT_ROWS, MAX_ROWS), bytes = math.min(args.maxMessageBytes or DEFAULT_BYTES, MAX_BYTES),
    detail = args.depth ~= nil and args.depth ~= "Summary",
  }
end

--- The kind of message event that the window has: a recording may hold both, each message twice.
local function messages_of(result)
  local formatted, json = result.formatted, result.json
  if not (formatted and json) then return formatted or json end
  if formatted.total ~= json.total then return formatted.total > json.total and formatted or json end
  return json -- its arguments have names, by which secrets are known
end

-- What the engine missed is told, but for fields that older runtimes never had.
local function without_optional(notes)
  local kept = {}
  for _, note in ipairs(notes) do
    local field = note:match("^FieldMissing: %S+ has no (%w+)")
    local known = false
    for _, name in ipairs(program.OPTIONAL) do known = known or field == name end
    if not known then kept[#kept + 1] = note end
  end
  return kept
end

local function notes_of(source, args, asked, result, artifact)
  local notes = without_optional(result.notes)
  local function say(when, fmt, ...)
    if when then notes[#notes + 1] = fmt:format(...) end
  end
  measured.none_recorded(notes, source, artifact.total, "log message", "the provider " .. program.PROVIDER .. " (keyword 0x4 or 0x8)")
  say(artifact.total == 0 and not source.path, "NoMessages: nothing was logged at this level in these categories, or the program's "
    .. "loggers do not write to the EventSource (AddEventSourceLogger; the generic host's defaults do).")
  say(artifact.truncated, "Truncated: the newest %d of %d messages are kept; counts are of all. A larger maxEvents keeps more.",
    #artifact.recent, artifact.total)
  say((args.maxEvents or 0) > MAX_ROWS, "RowLimit: maxEvents %d was cut to %d.", args.maxEvents or 0, MAX_ROWS)
  say((args.maxMessageBytes or 0) > MAX_BYTES, "TextLimit: maxMessageBytes %d was cut to %d.", args.maxMessageBytes or 0, MAX_BYTES)
  say(artifact.untold > 0, "CategoryLimit: more than %d categories; %d messages of the others are in the totals only.",
    program.MAX_CATEGORIES, artifact.untold)
  local s = result.scopes
  say(s and s.seen > #s.rows, "ScopeLimit: %d scopes began; only the newest %d are known, so messages of older ones show none.",
    s and s.seen or 0, s and #s.rows or 0)
  say(artifact.scopes_unattributed, "ScopesUnattributed: the recording has scopes but no activity ids (TplEventSource, keyword 0x80), so "
    .. "no message is put into one.")
  say(asked.detail and artifact.lost > 0, "TooLarge: a message whose event has more than 64 KB with its arguments is not sent, and counts "
    .. "as lost.")
  return notes
end

local function artifact_of(source, args, asked, result)
  local window = measured.window(result, source)
  local messages = messages_of(result)
  local known = asked.detail and scopes.new(result.scopes.rows, asked.bytes) or nil
  local categories, untold = entries.categories(messages.categories, program.text_max(asked.bytes))
  local artifact = {
    process_id = window.process_id, started_unix_ms = window.started_unix_ms, duration_ms = window.duration_ms, patterns = asked.patterns,
    level = asked.level, total = messages.total, levels = entries.levels(messages.levels), categories = categories, untold = untold,
    recent = entries.list(messages.recent.rows, asked, known), errors = entries.list(messages.errors.rows, asked, known),
    scopes_unattributed = known ~= nil and known.n > 0 and not known.attributed, lost = window.lost or 0, cost = window.cost,
  }
  artifact.truncated = artifact.total > #artifact.recent
  artifact.notes = notes_of(source, args, asked, result, artifact)
  return artifact
end

local function collect(ctx, source, args)
  local asked = asked_of(args, source)
  local window <close> = shared.enter(source.process and source.process.pid)
  local result, err = probe.run(ctx, program.new(asked), {
    process = source.process, path = source.path, duration_ms = args.durationSeconds * 1000, save_to = args.save_to,
    message = "Collecting log messages",
  })
  if not result then return nil, err end
  local empty = source.path and collector.empty_recording(source.path, result.window.summary)
  if empty then return nil, empty end
  local artifact = artifact_of(source, args, asked, result)
  if window.shared then
    artifact.notes[#artifact.notes + 1] = "LogsShared: another window of logs was open on this process at the same time. Which "
      .. "messages the program makes is one setting for all sessions, and the end of one may end it for all: messages may be missing "
      .. "here. Collect logs of a process one after another."
  end
  return artifact
end

local function sentence(artifact, source)
  local what = source.path and "the recording" or ("process %d"):format(artifact.process_id)
  local l, top = artifact.levels, artifact.categories[1]
  return ("%d log messages of %s at %s and above over %s (%d warnings, %d errors, %d critical)%s."):format(artifact.total, what,
    artifact.level, numbers.span(artifact.duration_ms), l[3], l[4], l[5],
    top and (", most of category %s (%d)"):format(top.category, top.n) or "")
end

return collector {
  kind = "logs", handle = "log-snapshot", data_field = "logs", payload = "LogSnapshot", check = check, collect = collect,
  risk = { level = "moderate", side_effects = { "takes the one filter of the process's EventSource loggers while it runs" } },
  inline = function(artifact, args) return wire.snapshot(artifact, args.depth or "Summary") end,
  summary = sentence,
}
