-- SPDX-License-Identifier: MIT
-- What the activities collector asks of the target and of the reducer engine: one event for each span that ends, by the bridge from
-- ActivitySource to EventSource, and, when destinations are wanted, one for each outgoing HTTP request that begins.
local bridge = require("collectors.diagnostic_source")
local globs = require("collectors.globs")
local probe = require("lunette.probe")

local M = {}

M.HTTP_SOURCE = "System.Net.Http"
M.HTTP_START = "System.Net.Http.HttpRequestOut.Start"
M.MAX_OPERATIONS = 2000 -- different operations that are told apart
M.MAX_SOURCES = 100     -- names of sources that were seen, for a filter that fits none
M.MAX_STARTS = 20000    -- starts of outgoing requests that wait for their span
M.TEXT_MAX = 16384      -- bytes of UTF-16 kept of a text: the tags of a span are one text
local HTTP_LISTENER <const> = "HttpHandlerDiagnosticListener"

local SPAN <const> = "/Stop:-TraceId;SpanId;ParentSpanId;Id;ParentId;Kind;DisplayName;StartTimeTicks=StartTimeUtc.Ticks;"
  .. "DurationTicks=Duration.Ticks;Status;StatusDescription;Tags=TagObjects.*Enumerate"
-- The first line sends nothing; without it the client asks nobody before it makes a request.
local HTTP_ASKED <const> = HTTP_LISTENER .. "/System.Net.Http.HttpRequestOut:-"
local HTTP <const> = HTTP_LISTENER .. "/" .. M.HTTP_START .. ":-"
  .. "Scheme=Request.RequestUri.Scheme;Host=Request.RequestUri.IdnHost;Port=Request.RequestUri.Port;"
  .. "TraceId=*Activity.TraceId;SpanId=*Activity.SpanId"

local COLUMNS <const> = {
  at = "@time", header = "@activity", source = "SourceName", operation = "ActivityName", trace = "Arguments.TraceId",
  span = "Arguments.SpanId", parent_span = "Arguments.ParentSpanId", id = "Arguments.Id", parent = "Arguments.ParentId",
  kind = "Arguments.Kind", name = "Arguments.DisplayName", start = "number(Arguments.StartTimeTicks)",
  took = "number(Arguments.DurationTicks)", status = "Arguments.Status", said = "Arguments.StatusDescription", tags = "Arguments.Tags",
}

-- A name that can stand in a specification: others are asked for with all sources and picked here.
local function plain(name) return name:find("^[%w_. %-]+$") ~= nil end

--- The lines for the sources: each by its name, or all of them when one is a pattern.
local function source_lines(patterns)
  local lines = {}
  for i, name in ipairs(patterns or { "*" }) do
    if globs.is_pattern(name) or not plain(name) then return { "[AS]*" .. SPAN } end
    lines[i] = "[AS]" .. name .. SPAN
  end
  return lines
end

--- Whether spans of HttpClient can be among those that are asked for.
function M.may_be_http(patterns)
  for _, name in ipairs(patterns or { "*" }) do
    if name == M.HTTP_SOURCE or globs.is_pattern(name) then return true end
  end
  return false
end

--- The lines of FilterAndPayloadSpecs for the bridge.
---@param patterns string[]?
---@param destinations boolean
---@return string[]
function M.lines(patterns, destinations)
  local lines = source_lines(patterns)
  if destinations and M.may_be_http(patterns) then
    table.insert(lines, 1, HTTP_ASKED)
    table.insert(lines, 2, HTTP)
  end
  return lines
end

---@class ActivitiesAsked
---@field sources string[]?      patterns of names; nil: all
---@field trace_id string?       only this trace is kept
---@field cap integer            spans kept
---@field destinations boolean

--- The declaration.
---@param asked ActivitiesAsked
function M.new(asked)
  local of_sources = globs.where("SourceName", asked.sources)
  local of_trace = asked.trace_id and ('Arguments.TraceId == "%s"'):format(asked.trace_id)
  local matching = of_trace and of_sources .. " and " .. of_trace or of_sources
  local keep = {
    observed = probe.count { on = "stop", where = of_sources },
    matching = probe.count { on = "stop", where = matching },
    operations = probe.group {
      on = "stop", where = matching, by = { source = "SourceName", operation = "ActivityName" }, max = M.MAX_OPERATIONS,
      top = M.MAX_OPERATIONS,
      keep = {
        n = probe.count(), ms = probe.quantiles("number(Arguments.DurationTicks) / 1e4", { 95 }),
        errors = probe.count { where = 'Arguments.Status == "Error"' },
      },
    },
    seen = probe.group { on = "stop", by = "SourceName", max = M.MAX_SOURCES, top = M.MAX_SOURCES, keep = { n = probe.count() } },
    spans = probe.first(asked.cap, COLUMNS, { on = "stop", where = matching }),
    alive = probe.count { on = "any" }, settings = bridge.settings("message"),
  }
  if asked.destinations then
    keep.starts = probe.first(M.MAX_STARTS, {
      at = "@time", trace = "Arguments.TraceId", span = "Arguments.SpanId", scheme = "Arguments.Scheme", host = "Arguments.Host",
      port = "number(Arguments.Port)",
    }, {
      on = "http",
      where = ('EventName == "%s" and Arguments.Scheme != null'):format(M.HTTP_START) .. (of_trace and " and " .. of_trace or ""),
    })
  end
  return probe.program {
    name = "activities", text_max = M.TEXT_MAX,
    providers = { bridge.provider(M.lines(asked.sources, asked.destinations)) },
    events = {
      stop = bridge.PROVIDER .. "/Activity/Stop", http = bridge.PROVIDER .. "/Event", any = bridge.PROVIDER .. "/*",
      message = bridge.MESSAGE,
    },
    keep = keep,
  }
end

return M
