-- SPDX-License-Identifier: MIT
-- How a catalog of events looks on the wire: names, levels, counts and times; no payload value was ever read.
local event_names = require("collectors.event_names")
local json = require("lunette.json")
local numbers = require("lunette.numbers")

local M = {}

local ROW_ORDER <const> = { __order = { "providerName", "eventName", "level", "count" } }
local OCCURRENCE_ORDER <const> = { __order = { "providerName", "eventName", "level", "timestamp" } }
local GROUP_ORDER <const> = { __order = { "providerName", "count", "distinctEvents" } }
local SNAPSHOT_ORDER <const> = {
  __order = { "processId", "startedAt", "duration", "providers", "totalEvents", "catalog", "sample", "truncated", "notes", "cost" },
}

--- EventCatalogRow.
function M.row(r)
  return setmetatable({
    providerName = r.provider, eventName = r.event, level = event_names.level(r.level), count = numbers.count(r.count),
  }, ROW_ORDER)
end

--- EventCatalogOccurrence.
function M.occurrence(o)
  return setmetatable({
    providerName = o.provider, eventName = o.event, level = event_names.level(o.level), timestamp = numbers.iso(o.unix // 1000000),
  }, OCCURRENCE_ORDER)
end

--- The rows of a list that a test lets pass, as wire records, at most `limit`; and how many passed.
---@return table[] rows, integer matching
function M.list(list, record, limit, keep)
  local rows, matching = json.array({}), 0
  for _, item in ipairs(list) do
    if not keep or keep(item) then
      matching = matching + 1
      if not limit or #rows < limit then rows[#rows + 1] = record(item) end
    end
  end
  return rows, matching
end

local function contains(text, needle) return text:lower():find(needle, 1, true) ~= nil end

--- A test for the filters of the views, in any letter case. An event's name is also found without the slash before its opcode.
---@param provider_filter string?
---@param event_filter string?
---@return fun(row: { provider: string, event: string }): boolean
function M.filter(provider_filter, event_filter)
  local provider, event = (provider_filter or ""):lower(), (event_filter or ""):lower()
  return function(r)
    return contains(r.provider, provider) and (contains(r.event, event) or contains((r.event:gsub("/", "")), event))
  end
end

--- EventCatalogProviderGroup rows, the busiest first.
---@param catalog { provider: string, count: integer }[]
function M.by_provider(catalog)
  local groups, by_name = {}, {}
  for _, r in ipairs(catalog) do
    local g = by_name[r.provider]
    if not g then
      g = { provider = r.provider, count = 0, events = {}, distinct = 0 }
      by_name[r.provider], groups[#groups + 1] = g, g
    end
    g.count = g.count + r.count
    if not g.events[r.event] then g.events[r.event], g.distinct = true, g.distinct + 1 end
  end
  table.sort(groups, function(a, b)
    if a.count ~= b.count then return a.count > b.count end
    return a.provider < b.provider
  end)
  return groups
end

function M.group(g)
  return setmetatable({ providerName = g.provider, count = numbers.count(g.count), distinctEvents = g.distinct }, GROUP_ORDER)
end

--- EventCatalogSnapshot around the given rows.
function M.snapshot(artifact, catalog, sample, notes)
  return setmetatable({
    processId = artifact.process_id, startedAt = numbers.iso(artifact.started_unix_ms), duration = numbers.timespan(artifact.duration_ms),
    providers = json.array({ table.unpack(artifact.providers) }), totalEvents = numbers.count(artifact.total), catalog = catalog,
    sample = sample, truncated = artifact.truncated, notes = json.array(notes), cost = artifact.cost,
  }, SNAPSHOT_ORDER)
end

return M
