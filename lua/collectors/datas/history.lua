-- SPDX-License-Identifier: MIT
-- What a Server GC tells of its adaptation within a window: measurements, decisions, and the number of heaps that each decision began with.
local payloads = require("collectors.datas.payloads")

local M = {}

---@class DatasHistory
---@field samples table[]   measurements, one a collection
---@field tuning table[]    decisions: before, new_heaps, cost_percent
---@field gen2 table[]      decisions after a full collection
---@field dropped table<string, integer>   rows over the cap, by list
---@field stats table       over all events, also those over the cap
local History = {}
History.__index = History

local function range() return { n = 0, sum = 0 } end

local function add(r, value)
  if value == nil or value ~= value then return end
  r.n, r.sum = r.n + 1, r.sum + value
  r.min, r.max = math.min(r.min or value, value), math.max(r.max or value, value)
end

---@param max_rows integer   of each list
function M.new(max_rows)
  return setmetatable({
    max_rows = max_rows, samples = {}, tuning = {}, gen2 = {}, dropped = { samples = 0, tuning = 0, gen2 = 0 }, short = 0,
    stats = { heaps = range(), cost = range(), budget = range(), stable = range(), changes = 0 }, collections = 0, max_heaps_seen = 0,
  }, History)
end

local function keep(self, list, row)
  if #self[list] < self.max_rows then
    table.insert(self[list], row)
  else
    self.dropped[list] = self.dropped[list] + 1
  end
end

local TAKE <const> = {}

function TAKE.sample(self, row)
  add(self.stats.budget, row.gen0_budget_bytes)
  add(self.stats.stable, row.soh_stable_bytes)
  keep(self, "samples", row)
end

-- The number of heaps before a decision: what the last decision made it, else what the last collection ran with.
local function decide(self, row)
  row.before = self.decided or self.heaps or row.new_heaps
  row.is_transition = row.before ~= row.new_heaps
  if row.is_transition then self.stats.changes = self.stats.changes + 1 end
  self.decided = row.new_heaps
  add(self.stats.heaps, row.before)
  add(self.stats.heaps, row.new_heaps)
end

function TAKE.tuning(self, row)
  decide(self, row)
  add(self.stats.cost, row.cost_percent)
  keep(self, "tuning", row)
end

function TAKE.gen2(self, row)
  decide(self, row)
  keep(self, "gen2", row)
end

--- A dynamic event, in order of time.
---@param at integer    ns since the session's start
---@param name string
---@param data string
function History:dynamic(at, name, data)
  local row, fault = payloads.read(name, data)
  if fault then self.short = self.short + 1 end
  if not row then return end
  row.at = at
  TAKE[row.kind](self, row)
end

--- A collection has ended, which ran with that many heaps (GlobalHeapHistory).
---@param n_heaps integer?
function History:collected(n_heaps)
  self.collections = self.collections + 1
  if not n_heaps then return end
  self.max_heaps_seen = math.max(self.max_heaps_seen, n_heaps)
  add(self.stats.heaps, n_heaps)
  self.heaps = n_heaps
end

--- How many events were about adaptation.
function History:seen()
  local n = 0
  for _, list in ipairs { "samples", "tuning", "gen2" } do n = n + #self[list] + self.dropped[list] end
  return n
end

return M
