-- SPDX-License-Identifier: MIT
-- How the events of one source look on the wire. Counts by name cover what was stored; `total` is of the whole window.
local event_names = require("collectors.event_names")
local json = require("lunette.json")
local numbers = require("lunette.numbers")

local M = {}

local EVENT_ORDER <const> = { __order = { "timestamp", "provider", "eventName", "level", "payload" } }
local GROUP_ORDER <const> = { __order = { "eventName", "count", "total" } }
local SNAPSHOT_ORDER <const> = { __order = {
  "processId", "provider", "startedAt", "duration", "totalEvents", "capturedCount", "truncated", "keywords", "eventLevel", "byEventName",
  "events", "notes", "cost",
} }
local VIEW_ORDER <const> = { __order = { "provider", "totalEvents", "capturedCount", "truncated", "byEventName" } }

--- CapturedEvent.
function M.event(e)
  return setmetatable({
    timestamp = numbers.iso(e.unix_ns // 1000000), provider = e.provider, eventName = e.name, level = event_names.level(e.level),
    payload = e.payload,
  }, EVENT_ORDER)
end

local function group(g) return setmetatable({ eventName = g.name, count = g.stored, total = numbers.count(g.total) }, GROUP_ORDER) end

--- EventSourceEventNameGroup rows, the most frequent first, at most `limit`.
function M.groups(artifact, limit)
  local rows = json.array({})
  for i, g in ipairs(artifact.groups) do
    if limit and i > limit then break end
    rows[i] = group(g)
  end
  return rows
end

--- CapturedEvent rows in order of time, at most `limit`.
function M.events(artifact, limit)
  local rows = json.array({})
  for i, e in ipairs(artifact.events) do
    if limit and i > limit then break end
    rows[i] = M.event(e)
  end
  return rows
end

--- EventSourceByEventNameView.
function M.by_name(artifact, limit)
  return setmetatable({
    provider = artifact.provider, totalEvents = numbers.count(artifact.total), capturedCount = #artifact.events,
    truncated = artifact.truncated, byEventName = M.groups(artifact, limit),
  }, VIEW_ORDER)
end

--- EventSourceCapture around the given rows.
function M.snapshot(artifact, groups, events, notes)
  return setmetatable({
    processId = artifact.process_id, provider = artifact.provider, startedAt = numbers.iso(artifact.started_unix_ms),
    duration = numbers.timespan(artifact.duration_ms), totalEvents = numbers.count(artifact.total), capturedCount = #artifact.events,
    truncated = artifact.truncated, keywords = artifact.keywords, eventLevel = artifact.level, byEventName = groups, events = events,
    notes = json.array(notes), cost = artifact.cost,
  }, SNAPSHOT_ORDER)
end

return M
