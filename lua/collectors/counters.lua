-- SPDX-License-Identifier: MIT
-- The counters collector: EventCounters and Meter series of one window, from a live process or a recorded file.
local lazy = require("lunette.lazy")
local counter_notes = lazy("collectors.counters.notes")
local crypto = require("lunette.crypto")
local errors = require("lunette.errors")
local event_counters = lazy("collectors.counters.event_counters")
local measured = require("collectors.measured")
local meters = lazy("collectors.counters.meters")
local probe = require("lunette.probe")
local program = lazy("collectors.counters.program")
local window = require("collectors.window")

local M = {}

M.DEFAULT_PROVIDERS = { "System.Runtime", "Microsoft.AspNetCore.Hosting", "Microsoft-AspNetCore-Server-Kestrel" }
M.RUNTIME = program.RUNTIME
M.MAX_PROVIDERS = 64      -- names in `providers`
M.MAX_METERS = 256        -- names in `meters`
M.MAX_NAME = 256          -- bytes of one of them
M.MAX_HISTOGRAMS = 200    -- asked of the target, which keeps some kilobytes for each
M.GRACE_MS = 800          -- past the window, for an interval that is due and not yet here
M.BUFFER_MB = 16
M.QUEUE = 20000           -- events that may wait for the collector
local LEVEL <const> = 4
local TIME_SERIES_VALUES <const> = 0x2 -- of System.Diagnostics.Metrics
local PROCESSOR_COUNT <const> = 0x2    -- of System.Runtime: without it the one-shot event does not come (8.0, 9.0, 10.0)

---@class CountersOptions
---@field providers string[]?   nil: the three default ones; {}: none
---@field meters string[]?      nil or {}: none
---@field implicit_providers boolean?   nobody asked for the providers by name: their silence is no finding
---@field implicit_meters boolean?   nobody asked for them by name: their silence is no finding
---@field interval_s integer
---@field duration_s integer
---@field max_series integer

local function check_names(parameter, names, max, forbidden)
  if #names > max then return errors.invalid(parameter, ("%s has %d names; at most %d."):format(parameter, #names, max)) end
  for _, name in ipairs(names) do
    if type(name) ~= "string" or name == "" or #name > M.MAX_NAME then
      return errors.invalid(parameter, ("%s holds names of 1 to %d bytes."):format(parameter, M.MAX_NAME))
    end
    if name:find(forbidden) then
      return errors.invalid(parameter, ("%s: a name with a control character, quote or separator cannot be asked for: %q.")
        :format(parameter, name))
    end
  end
  return nil
end

--- InvalidArgument for names that cannot be passed to the runtime; nil when all is well.
---@param options CountersOptions
function M.check(options)
  for _, name in ipairs(options.providers or {}) do
    if type(name) == "string" and name:find("*", 1, true) then
      return errors.invalid("providers", ("providers holds whole names, not '%s': a runtime cannot be asked for all of its sources.")
        :format(name))
    end
  end
  return check_names("providers", options.providers or {}, M.MAX_PROVIDERS, "[%c\"]")
    or check_names("meters", options.meters or {}, M.MAX_METERS, "[%c\",;]")
end

local function plan_of(options)
  local plan = {
    providers = options.providers or M.DEFAULT_PROVIDERS, meters = options.meters or {}, interval_s = options.interval_s,
    duration_s = options.duration_s, max_series = options.max_series, notes = {},
    explicit = options.providers ~= nil and not options.implicit_providers, implicit_meters = options.implicit_meters,
    client_id = crypto.uuid(),
    limits = {
      max_series = options.max_series, max_histograms = math.min(options.max_series, M.MAX_HISTOGRAMS), interval_s = options.interval_s,
    },
  }
  if plan.duration_s and plan.interval_s > plan.duration_s then
    plan.notes[1] = ("IntervalShortened: intervalSeconds %d does not fit into a window of %d s; %d s is used.")
      :format(plan.interval_s, plan.duration_s, plan.duration_s)
    plan.interval_s, plan.limits.interval_s = plan.duration_s, plan.duration_s
  end
  return plan
end

local function has(list, value)
  for _, item in ipairs(list) do
    if item == value then return true end
  end
  return false
end

--- A number as the target reads it in any culture: whole ones without a point.
local function plain(n) return math.tointeger(n) and ("%d"):format(math.tointeger(n)) or tostring(n) end

--- What to enable in a live target.
local function live_providers(plan)
  local list = {}
  for _, name in ipairs(plan.providers) do
    local keywords = name == M.RUNTIME and PROCESSOR_COUNT or 0 -- counters have none, so they pass any mask
    list[#list + 1] = { name = name, keywords = keywords, level = LEVEL, args = "EventCounterIntervalSec=" .. plan.interval_s }
  end
  if not has(plan.providers, M.RUNTIME) then list[#list + 1] = { name = M.RUNTIME, keywords = PROCESSOR_COUNT, level = LEVEL } end
  if #plan.meters > 0 then
    local names = table.concat(plan.meters, ",")
    local args = ("SessionId=%s;ClientId=%s;Metrics=%s;RefreshInterval=%s;MaxTimeSeries=%d;MaxHistograms=%d"):format(meters.SHARED,
      plan.client_id, names:find("=", 1, true) and '"' .. names .. '"' or names, plain(plan.limits.interval_s), plan.limits.max_series,
      plan.limits.max_histograms)
    list[#list + 1] = { name = meters.PROVIDER, keywords = TIME_SERIES_VALUES, level = LEVEL, args = args }
  end
  return list
end

--- One try: the window and what it saw. `state.meters.expected` is set when the shared collection wants other limits.
local function capture(ctx, source, plan)
  local state = {
    counters = event_counters.new { providers = plan.providers, interval_s = plan.interval_s },
    meters = meters.new {
      meters = plan.meters, interval_s = plan.limits.interval_s, max_series = plan.max_series, client_id = plan.client_id,
      recorded = source.path ~= nil,
    },
    last_ns = 0,
  }
  local function on_event(event)
    state.last_ns = math.max(state.last_ns, event.time_ns)
    if event.provider == M.RUNTIME and event.name == "ProcessorCount" then
      state.processor_count = math.tointeger(event.fields.processorCount)
    end
    state.counters:add(event)
    state.meters:add(event)
  end
  local result, err = probe.run(ctx, program.new(source.path and {} or live_providers(plan), #plan.meters > 0, on_event), {
    process = source.process, path = source.path, duration_ms = plan.duration_s and plan.duration_s * 1000, grace_ms = M.GRACE_MS,
    buffer_mb = M.BUFFER_MB, queue = M.QUEUE, message = "Collecting counters",
    complete = function(elapsed_ms) return #plan.providers == 0 or state.counters:caught_up(elapsed_ms / 1000) end,
    interrupted = function() return state.meters.expected ~= nil and not plan.rejoined end,
  })
  if not result then return nil, err end
  state.result, state.cost = result.window, measured.price(result.cost)
  state.spec = { duration_ms = not source.path and plan.duration_s * 1000 or nil }
  return state
end

local function artifact_of(source, plan, state)
  local notes, result = plan.notes, state.result
  local counters, series = state.counters:finish(), state.meters:finish()
  window.notes(result, state.spec, notes)
  counter_notes.add(notes, plan, state, series)
  local summary = result.summary
  return {
    process_id = source.process and source.process.pid or summary.pid or 0, started_unix_ms = result.started_unix_ms,
    duration_ms = source.path and math.floor((summary.duration_ns or state.last_ns) / 1e6) or result.elapsed_ms,
    interval_s = plan.interval_s, processor_count = state.processor_count, counters = counters, meters = series,
    provider_order = state.counters.provider_order, silent_s = state.silent_s, notes = notes, cost = state.cost,
    origin = source.path and "trace" or "live",
  }
end

--- Collects one window.
---@param ctx table
---@param source { process: table } | { path: string }
---@param options CountersOptions
---@return CounterArtifact?, table? err
function M.collect(ctx, source, options)
  local bad = M.check(options)
  if bad then return nil, bad end
  local plan = plan_of(options)
  local ok, err = window.settle(source.process)
  if not ok then return nil, err end
  local state
  state, err = capture(ctx, source, plan)
  if state and state.meters.expected then
    local expected = state.meters.expected
    plan.limits = {
      max_series = expected.max_series or plan.limits.max_series, max_histograms = expected.max_histograms or plan.limits.max_histograms,
      interval_s = expected.interval_s or plan.limits.interval_s,
    }
    plan.rejoined, plan.client_id = true, crypto.uuid()
    plan.notes[#plan.notes + 1] = ("SharedMeterSession: another client collects Meters of this process already; joined with its limits "
      .. "(%d series, %d histograms, every %s s)."):format(plan.limits.max_series, plan.limits.max_histograms, plan.limits.interval_s)
    state, err = capture(ctx, source, plan)
  end
  if not state then return nil, err end
  local summary = state.result.summary
  if source.path and not summary.complete and (summary.events or 0) == 0 then
    return nil, errors.invalid("traceFilePath", ("%s holds no event that can be read: %s."):format(source.path:match("[^/]+$"),
      summary.incomplete_reason or "it is empty"))
  end
  local artifact = artifact_of(source, plan, state)
  if state.result.ended == "stream-end" and source.process and #artifact.counters == 0 and #artifact.meters == 0 then
    if state.result.lives then
      return nil, errors.new("EndpointUnavailable", ("Process %d runs, but its event stream ended %.1f s into the window, before it "
        .. "told a counter%s."):format(source.process.pid, state.result.elapsed_ms / 1000,
        state.result.summary.incomplete_reason and " (" .. state.result.summary.incomplete_reason .. ")" or ""),
        { process_id = source.process.pid })
    end
    return nil, errors.new("ProcessExited", ("Process %d ended %.1f s into the window, before it told a counter.")
      :format(source.process.pid, state.result.elapsed_ms / 1000), { process_id = source.process.pid })
  end
  return artifact
end

return M
