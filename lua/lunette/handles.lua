-- SPDX-License-Identifier: MIT
-- handles: captured artifacts, kept for ten minutes under an opaque id, so that one capture answers many questions.
-- The store is bounded: when it is full the one that expires first goes (ties: the oldest); a tombstone remembers why it is gone.
local atomic = require("lunette.atomic")
local crypto = require("lunette.crypto")
local errors = require("lunette.errors")
local fs = require("lunette.fs")
local hints = require("lunette.hints")
local kinds = require("lunette.kinds")
local log = require("lunette.log")
local loop = require("lunette.loop")
local metrics = require("lunette.metrics")

local M = {}

M.TTL_MS = 10 * 60 * 1000
M.DEFAULT_ENTRIES = 32
M.MAX_ENTRIES = 1024
local ID_CHARS <const> = 20 -- 100 random bits
local TOMBSTONES_PER_ENTRY <const> = 4
local AREA <const> = "handles"

local registrations = metrics.counter("dotnet_diagnostics_handle_registrations_total", "Handles made.")
local evictions = metrics.counter("dotnet_diagnostics_handle_evictions_total", "Handles that ended, by reason.")
local lookups = metrics.counter("dotnet_diagnostics_handle_lookups_total", "Handles asked for, by result.")
local disposal_failures = metrics.counter("dotnet_diagnostics_handle_disposal_failures_total", "Artifacts that could not be closed.")

local Store = {}
Store.__index = Store

--- Whether the process that was captured still runs: one that has ended does not, also while its parent has not asked for it. The start
--- time tells a reused pid from the same process.
local function process_lives(pid, start_time)
  local stat = fs.read("/proc/" .. pid .. "/stat", 4096)
  if not stat then return false end
  local fields = stat:match("^.*%)%s(.*)$") -- behind the name, which may hold blanks and brackets
  if fields and fields:find("^[ZX]") then return false end
  if not start_time or not fields then return true end
  local n = 2
  for word in fields:gmatch("%S+") do
    n = n + 1
    if n == 22 then return word == tostring(start_time) end
  end
  return true
end

--- A store. Options are for tests: clock (monotonic ms), unix (ms), lives(pid, start) -> boolean.
---@param options? { max_entries: integer, clock: function, unix: function, lives: function }
function M.new_store(options)
  options = options or {}
  return setmetatable({
    max = options.max_entries or M.DEFAULT_ENTRIES, clock = options.clock or loop.now_ms, unix = options.unix or loop.unix_ms,
    lives = options.lives or process_lives, by_id = {}, n = 0, sequence = 0, tombstones = {}, graves = {}, first_grave = 1, last_grave = 0,
  }, Store)
end

function Store:bury(entry, reason)
  self.last_grave = self.last_grave + 1
  self.graves[self.last_grave] = entry.id
  self.tombstones[entry.id] = { reason = reason, kind = entry.kind, collector = entry.collector, process_id = entry.process_id }
  while self.last_grave - self.first_grave + 1 > self.max * TOMBSTONES_PER_ENTRY do
    self.tombstones[self.graves[self.first_grave]] = nil
    self.graves[self.first_grave] = nil
    self.first_grave = self.first_grave + 1
  end
end

local function closer_of(artifact) return (type(artifact) == "table" or type(artifact) == "userdata") and artifact.close or nil end

local function dispose(entry)
  local artifact, close = entry.artifact, entry.close
  if not close then return end
  local ok, why = pcall(close, artifact)
  if not ok then
    disposal_failures:add({ kind = entry.kind })
    log.error(AREA, "an artifact could not be closed", { kind = entry.kind, error = tostring(why) })
  end
end

-- What a call has made or looked up stays open until the call is over, though its handle may end meanwhile.
local held = setmetatable({}, { __mode = "k" }) -- task -> entry -> true

local function touch(entry)
  local mine = held[loop.current() or false]
  if not mine or mine[entry] then return end
  mine[entry], entry.users = true, (entry.users or 0) + 1
end

local function let_go(mine)
  for entry in pairs(mine) do
    entry.users = entry.users - 1
    if entry.evicted and entry.users == 0 then dispose(entry) end
  end
end

--- Drops an entry. reason: ttl | capacity | process_exit | invalidate. All but the last leave a tombstone.
function Store:evict(entry, reason)
  if self.by_id[entry.id] ~= entry then return end
  self.by_id[entry.id], self.n = nil, self.n - 1
  if reason ~= "invalidate" then self:bury(entry, reason) end
  evictions:add({ reason = reason })
  local level = reason == "capacity" and log.warning or log.debug
  level(AREA, "a handle ended", { reason = reason, kind = entry.kind })
  entry.evicted = true
  if (entry.users or 0) == 0 then dispose(entry) end
end

local function outlives_process(entry)
  local kind = kinds.get(entry.kind)
  local lifetime = kind and kind.lifetime or "standard"
  return lifetime == "ttlOnly" or (lifetime ~= "evictOnExit" and entry.origin ~= "live")
end

local function ended(store, entry)
  if entry.expires_ms <= store.clock() then return "ttl" end
  if entry.process_id and not outlives_process(entry) and not store.lives(entry.process_id, entry.process_start) then
    return "process_exit"
  end
  return nil
end

--- Drops what is past its time or whose process has gone.
function Store:sweep()
  local gone = {}
  for _, entry in pairs(self.by_id) do
    local reason = ended(self, entry)
    if reason then gone[#gone + 1] = { entry, reason } end
  end
  table.sort(gone, function(a, b) return a[1].sequence < b[1].sequence end)
  for _, pair in ipairs(gone) do self:evict(pair[1], pair[2]) end
end

local function make_room(store)
  store:sweep()
  while store.n >= store.max do
    local victim
    for _, entry in pairs(store.by_id) do
      if not victim or entry.expires_ms < victim.expires_ms
        or (entry.expires_ms == victim.expires_ms and entry.sequence < victim.sequence) then
        victim = entry
      end
    end
    store:evict(victim, "capacity")
  end
end

---@class Handle
---@field id string
---@field kind string
---@field artifact table|userdata
---@field process_id integer?
---@field process_start integer?
---@field origin "live"|"trace"|"dump"|"gcdump"
---@field started_unix_ms integer
---@field duration_ms number
---@field collector { tool: string, arguments: table }?
---@field created_unix_ms integer
---@field expires_unix_ms integer

--- Keeps an artifact and gives it an id.
---@return Handle
function Store:put(given)
  if type(given.kind) ~= "string" or given.artifact == nil then error("handles.put: kind and artifact are needed", 2) end
  local origin = given.origin or "live"
  if not ({ live = 1, trace = 1, dump = 1, gcdump = 1 })[origin] then error("handles.put: origin is live, trace, dump or gcdump", 2) end
  make_room(self)
  self.sequence = self.sequence + 1
  local now = self.unix()
  local entry = {
    id = crypto.crockford(ID_CHARS), kind = given.kind, artifact = given.artifact, process_id = given.process_id,
    process_start = given.process_start, origin = origin, started_unix_ms = given.started_unix_ms or now,
    duration_ms = given.duration_ms or 0, collector = given.collector, sequence = self.sequence,
    close = closer_of(given.artifact), -- as it was made: a view that scribbles on it changes nothing of this
    created_unix_ms = now, expires_unix_ms = now + M.TTL_MS, expires_ms = self.clock() + M.TTL_MS,
  }
  self.by_id[entry.id], self.n = entry, self.n + 1
  touch(entry)
  registrations:add({ kind = entry.kind })
  log.debug(AREA, "a handle was made", { kind = entry.kind })
  return entry
end

local function again(kind, collector, process_id)
  local tool, arguments
  if collector then
    tool, arguments = collector.tool, collector.arguments
  else
    tool, arguments = kinds.collector(kind)
    arguments.processId = process_id
  end
  return hints.new(tool, "Collect it again.", arguments, collector and "high" or "normal")
end

local function dead(store, id)
  local grave = store.tombstones[id]
  if not grave then
    return errors.new("HandleNotFound",
      "There is no such handle here: it was never made by this server, the server was restarted, or its process has ended.",
      { detail = id, hints = { hints.new("inspect_process", "Choose a process, then collect again.", { view = "list" }, "high") } })
  end
  if grave.reason == "process_exit" then
    local message = ("This %s handle ended with its process %d."):format(grave.kind, grave.process_id)
    local choose = hints.new("inspect_process", "Choose a process, then collect again.", { view = "list" }, "high")
    return errors.new("HandleNotFound", message, { detail = id, hints = { choose, again(grave.kind) } })
  end
  local first = again(grave.kind, grave.collector, grave.process_id)
  if grave.reason == "ttl" then
    return errors.new("HandleExpired", ("This %s handle has expired: handles live for ten minutes."):format(grave.kind),
      { detail = id, hints = { first } })
  end
  local raise = hints.new(first.nextTool, "Operator: more handles fit when Diagnostics:HandleStore:MaxEntries (environment: "
    .. "Diagnostics__HandleStore__MaxEntries, now " .. store.max .. ") is raised.", nil, "low")
  return errors.new("HandleCapacityEvicted", ("This %s handle made room for newer ones: the store holds %d."):format(grave.kind, store.max),
    { detail = id, hints = { first, raise } })
end

--- The entry of an id; nil and HandleExpired, HandleCapacityEvicted or HandleNotFound when it is gone.
---@param id string
---@return Handle?, table? err
function Store:get(id)
  local entry = self.by_id[id]
  local reason = entry and ended(self, entry)
  if reason then
    self:evict(entry, reason)
    entry = nil
  end
  if entry then
    touch(entry)
    lookups:add({ result = "hit" })
    return entry
  end
  local err = dead(self, id)
  lookups:add({ result = err.kind })
  return nil, err
end

--- The entry of an id while it lives, without counting a look-up.
function Store:peek(id) return self.by_id[id] end

--- The newest living handle of a kind, of one process or of any; nil when there is none.
---@param kind string
---@param process_id? integer
---@return Handle?
function Store:latest(kind, process_id)
  self:sweep()
  local newest
  for _, entry in pairs(self.by_id) do
    if entry.kind == kind and (not process_id or entry.process_id == process_id) and (not newest or entry.sequence > newest.sequence) then
      newest = entry
    end
  end
  if newest then touch(newest) end
  lookups:add({ result = newest and "hit" or "NotFound" })
  return newest
end

--- All living handles, oldest first.
function Store:list()
  self:sweep()
  local all = {}
  for _, entry in pairs(self.by_id) do all[#all + 1] = entry end
  table.sort(all, function(a, b) return a.sequence < b.sequence end)
  return all
end

--- Drops a handle on purpose; a later look-up is HandleNotFound.
function Store:invalidate(id)
  local entry = self.by_id[id]
  if entry then self:evict(entry, "invalidate") end
end

--- Drops all, for the end of the server.
function Store:clear()
  for _, entry in ipairs(self:list()) do self:evict(entry, "invalidate") end
end

-- The host may suspend a task anywhere; what changes the store, or looks at all of it, is one step.
for _, name in ipairs({ "put", "get", "latest", "list", "sweep", "invalidate", "clear" }) do Store[name] = atomic(Store[name]) end

local Hold = {}
function Hold:__close()
  if not self.task then return end
  held[self.task] = nil
  let_go(self.mine)
end

--- Keeps open what this task makes or looks up from now on, until the returned value is closed (`local _ <close> = handles.hold()`).
function M.hold()
  local task = loop.current()
  if not task or held[task] then return setmetatable({}, Hold) end -- outside of tasks, or within a call that holds already
  local mine = {}
  held[task] = mine
  return setmetatable({ task = task, mine = mine }, Hold)
end

--- Seconds until the handle expires, never negative.
function M.seconds_left(entry, unix_ms) return math.max(0, (entry.expires_unix_ms - (unix_ms or loop.unix_ms())) // 1000) end

--- How many entries to keep: what the operator set when it is from 1 to 1024, else the default, and why it was not used.
---@return integer n, string? why
function M.entries_from(value)
  if value == nil then return M.DEFAULT_ENTRIES end
  local n = math.tointeger(tonumber(value))
  if n and n >= 1 and n <= M.MAX_ENTRIES then return n end
  return M.DEFAULT_ENTRIES, ("Diagnostics:HandleStore:MaxEntries must be from 1 to %d, not %s; %d is used")
    :format(M.MAX_ENTRIES, tostring(value), M.DEFAULT_ENTRIES)
end

-- The store of this server.
local store = M.new_store()
M.store = store
metrics.gauge("dotnet_diagnostics_handles", "Handles kept now.", function() return store.n end)

--- Sets how many handles are kept.
function M.configure(max_entries) store.max = max_entries end
--- In a command that ends by itself nothing else ends what was captured: a process that has ended takes nothing with it.
function M.outlive_processes() store.lives = function() return true end end
--- Whether an entry ended with its process, before its time: the next look-up says so.
---@param entry Handle
---@return boolean
function M.ended_with_process(entry) return ended(store, entry) == "process_exit" end
function M.put(given) return store:put(given) end
function M.get(id) return store:get(id) end
function M.peek(id) return store:peek(id) end
function M.latest(kind, process_id) return store:latest(kind, process_id) end
function M.list() return store:list() end
function M.invalidate(id) store:invalidate(id) end
function M.sweep() store:sweep() end
function M.clear() store:clear() end

return M
