-- SPDX-License-Identifier: MIT
-- System.Diagnostics.Metrics: the values that the runtime's one aggregator publishes, as series of (meter, instrument, tags).
-- Every session hears every other one, so what is kept is chosen by session id, client id and meter.
local redaction = require("lunette.redaction")
local series = require("collectors.counters.series")
local texts = require("lunette.text")

local M = {}
M.__index = M

M.PROVIDER = "System.Diagnostics.Metrics"
M.SHARED = "SHARED"
M.MAX_ERRORS = 20 -- distinct error texts kept

--- Whether a meter or instrument was asked for: a name, Meter\Instrument, or a prefix that ends in "*". In any letter case, as in
--- the runtime.
local function matcher(specs)
  local rules = {}
  for _, spec in ipairs(specs) do
    local meter, instrument = spec:match("^(.-)\\(.+)$")
    meter = (meter or spec):lower()
    rules[#rules + 1] = { meter = meter:gsub("%*$", ""), prefix = meter:sub(-1) == "*", instrument = instrument and instrument:lower() }
  end
  return function(meter, instrument)
    meter, instrument = meter:lower(), instrument:lower()
    for _, rule in ipairs(rules) do
      local fits = rule.prefix and meter:sub(1, #rule.meter) == rule.meter or meter == rule.meter
      if fits and (not rule.instrument or rule.instrument == instrument) then return true end
    end
    return false
  end
end

---@class MetersOptions
---@field meters string[]        as asked for
---@field interval_s number
---@field max_series integer
---@field client_id string?      nil for a recorded file: any session's values are taken
---@field recorded boolean?

---@param options MetersOptions
function M.new(options)
  return setmetatable({
    wanted = matcher(options.meters), options = options, series = {}, list = {}, instruments = {},
    dropped = 0, not_finite = 0, malformed = 0, errors = {}, n_errors = 0, collections = 0,
  }, M)
end

--- "1.5" or "1,5" (a target of 6.0 or 7.0 writes its own culture) -> number; nil for an empty text.
local function number_of(text)
  if type(text) == "number" then return text end
  if type(text) ~= "string" or text == "" then return nil end
  return tonumber(text) or tonumber((text:gsub(",", ".", 1)))
end

--- "k=v,k2=v2" -> map. The runtime escapes nothing: a piece without "=" belongs to the value before it.
---@param text string
---@return table<string, string>
function M.parse_tags(text)
  local tags, last = {}, nil
  for piece in (text .. ","):gmatch("(.-),") do
    local key, value = piece:match("^([^=]+)=(.*)$")
    if key then
      tags[key] = value
      last = key
    elseif last and piece ~= "" then
      tags[last] = tags[last] .. "," .. piece
    end
  end
  return tags
end

--- Tags without secrets: a value goes by what it says, and by the name that it has. Names are the program's, too.
---@param tags table<string, string>
---@return table<string, string>
function M.clean_tags(tags)
  local clean = {}
  for name, value in pairs(tags) do
    local pair = name .. "=" .. value
    clean[redaction.redact(name)] = redaction.redact(pair) ~= pair and redaction.redact(value) == value and redaction.SENSITIVE
      or redaction.redact(value)
  end
  return clean
end

-- The tags as one text, in the order of their names.
local function text_of(tags)
  local pairs_ = {}
  for i, name in ipairs(texts.keys(tags)) do pairs_[i] = name .. "=" .. tags[name] end
  return table.concat(pairs_, ",")
end

--- "0.5=1.2;0.95=3,4" -> {[0.5]=1.2, [0.95]=3.4}
local function parse_quantiles(text)
  local at = {}
  for q, v in (text or ""):gmatch("([^=;]+)=([^;]*)") do
    q, v = number_of(q), number_of(v)
    if q and v then at[q] = v end
  end
  return at
end

local KINDS <const> = {
  CounterRateValuePublished = "Counter", GaugeValuePublished = "Gauge",
  HistogramValuePublished = "Histogram", UpDownCounterRateValuePublished = "UpDownCounter",
}

local function key_of(f) return table.concat({ f.meterName, f.instrumentName, f.tags or "", tostring(f.instrumentId or "") }, "\0") end

--- The type of an instrument as the runtime announced it ("Counter`1" -> "Counter"), else what its values tell.
local function kind_of(self, f, event_name)
  local told = self.instruments[f.instrumentId or false] or self.instruments[f.meterName .. "\0" .. f.instrumentName]
  return told and told:gsub("`%d+$", "") or KINDS[event_name]
end

local function series_of(self, f, event_name)
  local key = key_of(f)
  local s = self.series[key]
  if s then return s end
  if #self.list >= self.options.max_series then
    self.dropped = self.dropped + 1
    return nil
  end
  local tags = M.clean_tags(M.parse_tags(f.tags or ""))
  s = {
    meter = f.meterName, instrument = f.instrumentName, unit = f.unit ~= "" and f.unit or nil, kind = kind_of(self, f, event_name),
    tags_text = text_of(tags), tags = tags, values = series.new(),
  }
  self.series[key] = s
  self.list[#self.list + 1] = s
  return s
end

local function finite(x) return x and x == x and x ~= math.huge and x ~= -math.huge end

local function keep(self, s, value)
  if value == nil then return end
  if not series.add(s.values, value) then self.not_finite = self.not_finite + 1 end
end

local function counter(self, f, s)
  keep(self, s, number_of(f.value)) -- the running total; 6.0 and 7.0 do not tell it
  local change = number_of(f.rate)
  if finite(change) then
    local seconds = self.length_s or self.options.interval_s
    s.change, s.rate = change, change / seconds
  end
end

local function histogram(self, f, s)
  local at = parse_quantiles(f.quantiles)
  if not (at[0.5] or at[0.95] or at[0.99]) then return end -- nothing was recorded in this interval: the last one that had values stands
  if finite(at[0.95]) then keep(self, s, at[0.95]) end
  s.histogram = { count = math.tointeger(number_of(f.count)), sum = number_of(f.sum), p50 = at[0.5], p95 = at[0.95], p99 = at[0.99] }
end

local VALUES <const> = {
  CounterRateValuePublished = counter,
  GaugeValuePublished = function(self, f, s) keep(self, s, number_of(f.lastValue)) end,
  HistogramValuePublished = histogram,
  UpDownCounterRateValuePublished = function(self, f, s) keep(self, s, number_of(f.value)) end,
}

local function remember_error(self, text)
  if self.errors[text] then return end
  if self.n_errors >= M.MAX_ERRORS then
    self.errors_dropped = (self.errors_dropped or 0) + 1
    return
  end
  self.n_errors = self.n_errors + 1
  self.errors[text] = true
  self.errors[self.n_errors] = redaction.redact(text)
end

local CONTROL <const> = {
  CollectionStart = function(self, f)
    local from, to = f.intervalStartTime, f.intervalEndTime
    self.length_s = nil
    if math.type(from) == "integer" and math.type(to) == "integer" and to > from then
      self.length_s = (to - from) / 1e7 -- FILETIME ticks
    end
  end,
  CollectionStop = function(self) self.collections = self.collections + 1 end,
  BeginInstrumentReporting = function(self, f)
    if f.instrumentId and f.instrumentId ~= 0 then self.instruments[f.instrumentId] = f.instrumentType end
    self.instruments[f.meterName .. "\0" .. f.instrumentName] = f.instrumentType
  end,
  Error = function(self, f) remember_error(self, "Metrics error: " .. tostring(f.errorMessage)) end,
  ObservableInstrumentCallbackError = function(self, f)
    remember_error(self, "ObservableInstrumentCallbackError: " .. tostring(f.errorMessage))
  end,
  TimeSeriesLimitReached = function(self) self.series_limit = true end,
  HistogramLimitReached = function(self) self.histogram_limit = true end,
}

--- Event 17: a shared collection runs with other limits than ours. Returns the limits to join it with.
local function refused(self, f)
  if self.options.recorded or f.clientId ~= self.options.client_id then return end
  self.expected = {
    max_histograms = math.tointeger(number_of(f.expectedMaxHistograms)), max_series = math.tointeger(number_of(f.expectedMaxTimeSeries)),
    interval_s = number_of(f.expectedRefreshInterval),
  }
end

--- Takes one event.
---@param event { provider: string, name: string, version: integer, fields: table }
function M:add(event)
  if event.provider ~= M.PROVIDER then return end
  local f, name = event.fields, event.name:gsub("/", "") -- CollectionStart is Collection/Start in TraceEvent's naming
  if name == "MultipleSessionsConfiguredIncorrectlyError" then return refused(self, f) end
  if name == "MultipleSessionsNotSupportedError" then
    if f.runningSessionId ~= M.SHARED then self.running_session = f.runningSessionId end
    return
  end
  if not self.options.recorded and f.sessionId ~= M.SHARED then return end -- of another client
  local control, value = CONTROL[name], VALUES[name]
  if control then return control(self, f) end
  if not value or (name == "UpDownCounterRateValuePublished" and event.version == 0) then return end -- its version 0 tells no value
  if type(f.meterName) ~= "string" or type(f.instrumentName) ~= "string" then
    self.malformed = self.malformed + 1
    return
  end
  if not self.wanted(f.meterName, f.instrumentName) then return end
  local s = series_of(self, f, name)
  if s then value(self, f, s) end
end

--- Sorted by meter, instrument, tags. Series that never told a value are left out.
---@return table[] rows
function M:finish()
  local rows = {}
  for _, s in ipairs(self.list) do
    if s.values.n > 0 or s.rate or s.histogram then rows[#rows + 1] = s end
  end
  table.sort(rows, function(a, b)
    if a.meter ~= b.meter then return a.meter < b.meter end
    if a.instrument ~= b.instrument then return a.instrument < b.instrument end
    return a.tags_text < b.tags_text
  end)
  return rows
end

return M
