-- SPDX-License-Identifier: MIT
-- The System.Runtime EventCounters of .NET 8 and before: all nine counters of one cycle are an interval. A counter that comes again before
-- the cycle is complete, or late, starts a new one, so that values of different intervals are never put together.
local M = {}
M.__index = M

M.PROVIDER = "System.Runtime"

local MB <const> = 1000000 -- the runtime's own: decimal

-- By counter: the name here and how the reported number becomes it.
local COUNTERS <const> = {
  ["gc-heap-size"] = { "heap", function(p) return p.Mean * MB end },
  ["gen-0-size"] = { "gen0", function(p) return p.Mean end },
  ["gen-1-size"] = { "gen1", function(p) return p.Mean end },
  ["gen-2-size"] = { "gen2", function(p) return p.Mean end },
  ["loh-size"] = { "loh", function(p) return p.Mean end },
  ["poh-size"] = { "poh", function(p) return p.Mean end },
  ["gc-committed"] = { "committed", function(p) return p.Mean * MB end },
  ["gc-fragmentation"] = { "fragmentation_percent", function(p) return p.Mean end },
  ["alloc-rate"] = { "allocation_rate", function(p) return p.IntervalSec > 0 and p.Increment / p.IntervalSec or nil end },
}
local N_COUNTERS <const> = 9

---@param options { on_interval: fun(interval: RuntimeInterval) }
function M.new(options) return setmetatable({ options = options, discarded = 0, cycle = {}, n = 0 }, M) end

local function payload_of(fields)
  local p = fields.Payload or (type(fields[""]) == "table" and (fields[""].Payload or fields[""])) or fields
  return type(p) == "table" and type(p.Name) == "string" and p or nil
end

local function finite(x) return type(x) == "number" and x == x and x >= 0 and x < math.huge end

local function whole(x) return math.tointeger(math.floor(x + 0.5)) end

local function restart(self)
  if self.n > 0 then self.discarded = self.discarded + 1 end
  self.cycle, self.n = {}, 0
end

local function publish(self, event, seconds)
  local c = self.cycle
  self.options.on_interval {
    end_ns = event.time_ns, end_unix_ns = event.unix_ns, seconds = seconds, heap = whole(c.heap), gen0 = whole(c.gen0),
    gen1 = whole(c.gen1), gen2 = whole(c.gen2), loh = whole(c.loh), poh = whole(c.poh), committed = whole(c.committed),
    fragmentation = whole(c.fragmentation_percent / 100 * c.heap), allocation_rate = whole(c.allocation_rate),
  }
  self.cycle, self.n = {}, 0
end

-- Half of the interval that the runtime works with, in seconds. An interval shorter than that is the stump that enabling the provider
-- leaves, and what comes later than that after the first of its cycle belongs to the next.
local function half_interval(p)
  return (type(p.Series) == "string" and tonumber(p.Series:match("^Interval=(%d+)")) or 1000) / 2000
end

--- Takes one event of the stream.
---@param event LunetteEvent
function M:add(event)
  if event.provider ~= M.PROVIDER or event.name ~= "EventCounters" then return end
  local p = payload_of(event.fields)
  local known = p and COUNTERS[p.Name]
  if not known or not finite(p.IntervalSec) or p.IntervalSec < half_interval(p) then return end
  local ok, value = pcall(known[2], p) -- a payload of another shape
  if not ok or not finite(value) then return end
  local name = known[1]
  if self.cycle[name] or (self.n > 0 and event.time_ns - self.first_ns > half_interval(p) * 1e9) then restart(self) end
  if self.n == 0 then self.first_ns = event.time_ns end
  self.cycle[name] = value
  self.n = self.n + 1
  if self.n == N_COUNTERS then publish(self, event, p.IntervalSec) end
end

return M
