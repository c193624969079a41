-- SPDX-License-Identifier: MIT
-- EventCounters: one event a counter and interval, told apart by provider and name. Shorter intervals, which another client of the same
-- process may have asked for, are put together until ours is full.
local series = require("collectors.counters.series")
local thresholds = require("lunette.thresholds")

local M = {}
M.__index = M

M.MAX_COUNTERS = 2048 -- distinct counters in one window; more are counted in dropped

-- An interval of less than this share of its own length is the stump that enabling the provider leaves: its rates say nothing.
local STUMP <const> = 0.5
-- Shorter intervals make a full one at this share of what was asked: each may be early by some milliseconds.
local FULL <const> = 0.9
-- The runtime computes these since the last time that anybody asked, and the first time since its epoch: the first reading after enabling
-- is about another time than this window (seen on 8.0, 9.0, 10.0: 0.03 % for a process that keeps a core busy).
local STALE_AT_FIRST <const> = { ["cpu-usage"] = true }

---@param options { providers: string[], interval_s: number }   providers: whose counters are kept
function M.new(options)
  local wanted = {}
  for _, name in ipairs(options.providers) do wanted[name] = true end
  return setmetatable({
    wanted = wanted, interval_s = options.interval_s, counters = {}, list = {}, providers = {}, provider_order = {},
    dropped = 0, not_finite = 0, stumps = 0, malformed = 0, late = thresholds.of("runtime.silent-interval").late_intervals,
  }, M)
end

--- The values of an EventCounters event, wherever the metadata nests them.
local function payload_of(fields)
  local p = fields.Payload or (type(fields[""]) == "table" and (fields[""].Payload or fields[""])) or fields
  return type(p) == "table" and type(p.Name) == "string" and p or nil
end

local function provider_of(self, name, time_ns)
  local p = self.providers[name]
  if not p then
    p = { name = name, first_ns = time_ns, last_ns = time_ns, batches = 0, longest_s = 0 }
    self.providers[name] = p
    self.provider_order[#self.provider_order + 1] = name
  end
  return p
end

local function counter_of(self, provider, payload, is_sum)
  local key = provider .. "\0" .. payload.Name
  local c = self.counters[key]
  if c then return c end
  if #self.list >= M.MAX_COUNTERS then
    self.dropped = self.dropped + 1
    return nil
  end
  c = {
    provider = provider, name = payload.Name, display_name = payload.DisplayName, unit = payload.DisplayUnits,
    kind = is_sum and "Sum" or "Mean", series = series.new(), pending_s = 0, pending_n = 0, pending = 0, silent = 0,
  }
  if type(c.display_name) ~= "string" or c.display_name == "" then c.display_name = c.name end
  if c.unit == "" then c.unit = nil end
  self.counters[key] = c
  self.list[#self.list + 1] = c
  return c
end

--- The interval in milliseconds that the runtime works with, from "Interval=1000"; nil when it does not say.
local function series_ms(payload)
  return type(payload.Series) == "string" and tonumber(payload.Series:match("^Interval=(%d+)")) or nil
end

local function publish(self, c)
  local value = c.pending
  if c.kind == "Mean" then
    if c.pending_n == 0 then -- an EventCounter that nobody wrote to: no measurement is not zero
      c.silent = c.silent + 1
      value = nil
    else
      value = c.pending / c.pending_n
    end
  end
  if value and not series.add(c.series, value) then self.not_finite = self.not_finite + 1 end
  if value then c.interval_s = c.pending_s end
  c.pending, c.pending_n, c.pending_s = 0, 0, 0
end

--- Takes one event. Events of other providers or of another shape are left alone.
---@param event { provider: string, name: string, time_ns: integer, fields: table }
function M:add(event)
  if event.name ~= "EventCounters" or not self.wanted[event.provider] then return end
  local payload = payload_of(event.fields)
  if not payload then
    self.malformed = self.malformed + 1
    return
  end
  local is_sum = payload.CounterType == "Sum" or (payload.CounterType == nil and payload.Increment ~= nil)
  local c = counter_of(self, event.provider, payload, is_sum)
  local provider = provider_of(self, event.provider, event.time_ns)
  provider.last_ns = event.time_ns
  if not c then return end

  local own_s = (series_ms(payload) or self.interval_s * 1000) / 1000
  local seconds = tonumber(payload.IntervalSec) or own_s
  if seconds < STUMP * own_s and c.pending_s == 0 and c.series.n == 0 then
    self.stumps = self.stumps + 1
    return
  end
  if not provider.leader then provider.leader = c end
  if provider.leader == c then provider.batches = provider.batches + seconds / self.interval_s end
  if seconds > self.late * own_s and seconds > provider.longest_s then provider.longest_s = seconds end

  if STALE_AT_FIRST[c.name] and not c.warm then
    c.warm = true
    return
  end
  local count = is_sum and 1 or tonumber(payload.Count) or 1
  c.pending = c.pending + (is_sum and (tonumber(payload.Increment) or 0 / 0) or (tonumber(payload.Mean) or 0 / 0) * count)
  c.pending_n = c.pending_n + count
  c.pending_s = c.pending_s + seconds
  -- an interval of the length that was asked for stands for itself, however early the runtime's timer was
  if own_s >= FULL * self.interval_s or c.pending_s >= FULL * self.interval_s then publish(self, c) end
end

--- Whether each provider that spoke has told of as many intervals as are over, or none is due.
---@param elapsed_s number
function M:caught_up(elapsed_s)
  local due = math.floor(elapsed_s / self.interval_s)
  if due > 0 and #self.provider_order == 0 then return false end
  for _, name in ipairs(self.provider_order) do
    if self.providers[name].batches < due - 0.5 then return false end
  end
  return true
end

--- Ends the window: half-full intervals are published when a counter has nothing else. Sorted by provider, then name.
---@return table[] counters
function M:finish()
  local rows = {}
  self.without_value, self.stale = {}, {}
  for _, c in ipairs(self.list) do
    if c.series.n == 0 and c.pending_s > 0 then publish(self, c) end
    if c.series.n > 0 then
      rows[#rows + 1] = c
    else
      local left_out = c.warm and self.stale or self.without_value
      left_out[#left_out + 1] = c.provider .. "/" .. c.name
    end
  end
  table.sort(rows, function(a, b)
    if a.provider ~= b.provider then return a.provider < b.provider end
    return a.name < b.name
  end)
  return rows
end

return M
