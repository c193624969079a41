-- SPDX-License-Identifier: MIT
-- The System.Runtime meter of .NET 9 and later: the values between a Collection/Start and its Collection/Stop are one interval. A sum over
-- the generations is made only when all five are there.
local M = {}
M.__index = M

M.PROVIDER = "System.Diagnostics.Metrics"
M.METER = "System.Runtime"
M.SHARED = "SHARED"
M.MAX_SERIES = 32
M.INSTRUMENTS = {
  "dotnet.gc.heap.total_allocated", "dotnet.gc.last_collection.memory.committed_size", "dotnet.gc.last_collection.heap.size",
  "dotnet.gc.last_collection.heap.fragmentation.size",
}
local GENERATIONS <const> = { "gen0", "gen1", "gen2", "loh", "poh" }

---@class MetricLimits
---@field max_series integer
---@field max_histograms integer
---@field interval_s number

--- The arguments of the provider. A target reads whole numbers in any culture.
---@param client_id string
---@param limits MetricLimits
function M.arguments(client_id, limits)
  local names = {}
  for i, name in ipairs(M.INSTRUMENTS) do names[i] = M.METER .. "\\" .. name end
  local interval = math.tointeger(limits.interval_s) or limits.interval_s
  return ("SessionId=%s;ClientId=%s;RefreshInterval=%s;Metrics=%s;MaxTimeSeries=%d;MaxHistograms=%d"):format(M.SHARED, client_id,
    tostring(interval), table.concat(names, ","), limits.max_series, limits.max_histograms)
end

---@class RuntimeInterval
---@field end_ns integer     since the start of the session
---@field end_unix_ns integer
---@field seconds number
---@field heap integer?      bytes, as all below
---@field gen0 integer?
---@field gen1 integer?
---@field gen2 integer?
---@field loh integer?
---@field poh integer?
---@field committed integer?
---@field fragmentation integer?
---@field allocation_rate integer?   bytes a second

--- A reader. on_interval gets each complete one; client_id is nil for a recording.
---@param options { client_id: string?, on_interval: fun(interval: RuntimeInterval) }
function M.new(options)
  return setmetatable({ options = options, session = M.SHARED, discarded = 0, errors = {} }, M)
end

--- Text of a value in any culture of the target -> number, or nil for what is no finite, non-negative one.
local function amount(text)
  local value = tonumber(text) or (type(text) == "string" and tonumber((text:gsub(",", ".", 1))) or nil)
  if not value or value ~= value or value < 0 or value == math.huge then return nil end
  return value
end

local function whole(x) return x and math.tointeger(math.floor(x + 0.5)) end

local VALUES <const> = {
  ["dotnet.gc.last_collection.heap.size"] = function(i, f)
    i.size[f.tags:match("^gc%.heap%.generation=(%w+)$") or ""] = amount(f.value)
  end,
  ["dotnet.gc.last_collection.heap.fragmentation.size"] = function(i, f)
    i.free[f.tags:match("^gc%.heap%.generation=(%w+)$") or ""] = amount(f.value)
  end,
  ["dotnet.gc.last_collection.memory.committed_size"] = function(i, f)
    if f.tags == "" then i.committed = amount(f.value) end
  end,
  ["dotnet.gc.heap.total_allocated"] = function(i, f) i.allocated = amount(f.rate) end, -- the change; empty in the first interval
}

local function sum(by_generation)
  local total = 0
  for _, name in ipairs(GENERATIONS) do
    if not by_generation[name] then return nil end
    total = total + by_generation[name]
  end
  return total
end

local function publish(self, event)
  local i = self.open
  self.open = nil
  if not i then
    self.discarded = self.discarded + 1 -- its beginning was not seen
    return
  end
  if not i.ours then return end -- another client's collection, of other meters
  local heap, fragmentation = sum(i.size), sum(i.free)
  if not (heap and fragmentation and i.committed) then
    self.discarded = self.discarded + 1
    return
  end
  self.options.on_interval {
    end_ns = event.time_ns, end_unix_ns = event.unix_ns, seconds = i.seconds, heap = whole(heap), gen0 = whole(i.size.gen0),
    gen1 = whole(i.size.gen1), gen2 = whole(i.size.gen2), loh = whole(i.size.loh), poh = whole(i.size.poh),
    committed = whole(i.committed), fragmentation = whole(fragmentation),
    allocation_rate = i.allocated and i.seconds > 0 and whole(i.allocated / i.seconds) or nil,
  }
end

-- FILETIME ticks of an interval's two ends -> seconds; nil for what cannot be.
local function seconds_of(f)
  local from, to = f.intervalStartTime, f.intervalEndTime
  if math.type(from) ~= "integer" or math.type(to) ~= "integer" or to <= from then return nil end
  return (to - from) / 1e7
end

local CONTROL <const> = {
  CollectionStart = function(self, event)
    if self.open then self.discarded = self.discarded + 1 end
    local seconds = seconds_of(event.fields)
    self.open = seconds and { seconds = seconds, size = {}, free = {} } or nil
  end,
  CollectionStop = publish,
  Error = function(self, event)
    if #self.errors < 5 then self.errors[#self.errors + 1] = tostring(event.fields.errorMessage) end
  end,
  TimeSeriesLimitReached = function(self) self.limit_reached = true end,
}

--- Takes one event of the stream.
---@param event LunetteEvent
function M:add(event)
  if event.provider ~= M.PROVIDER then return end
  local f, name = event.fields, event.name:gsub("/", "")
  if name == "MultipleSessionsConfiguredIncorrectlyError" and self.options.client_id and f.clientId == self.options.client_id then
    self.expected = {
      max_series = math.tointeger(tonumber(f.expectedMaxTimeSeries)) or M.MAX_SERIES,
      max_histograms = math.tointeger(tonumber(f.expectedMaxHistograms)) or 0, interval_s = amount(f.expectedRefreshInterval) or 1,
    }
  elseif name == "MultipleSessionsNotSupportedError" and f.runningSessionId ~= M.SHARED then
    self.busy, self.session = true, f.runningSessionId -- refused; but every session hears the one that runs
  elseif self.options.client_id and f.sessionId ~= self.session then
    return -- of a session that is not ours
  elseif CONTROL[name] then
    CONTROL[name](self, event)
  elseif self.open and f.meterName == M.METER and VALUES[f.instrumentName or false] and type(f.tags) == "string" then
    VALUES[f.instrumentName](self.open, f)
    self.open.ours = true
  end
end

return M
