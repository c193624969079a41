-- SPDX-License-Identifier: MIT
-- The artifact behind a startup-snapshot handle, and how its rows look on the wire. Never changed once made.
local json = require("lunette.json")

local M = {}

---@class StartupLoad
---@field unix_ns integer
---@field event string
---@field name string     of an assembly its full name, of a module the name of its file
---@field path string?

---@class StartupDi
---@field unix_ns integer
---@field event string
---@field service string?
---@field detail string?

---@class StartupArtifact
---@field process_id integer
---@field started_unix_ms integer
---@field duration_ms number
---@field launched boolean
---@field program string?          that was launched
---@field assembly_count integer   of the window; the lists may hold fewer
---@field module_count integer
---@field di_count integer
---@field di_counts table<string, integer>
---@field di_first_ns integer?     unix time of the first DI event
---@field di_last_ns integer?
---@field assemblies StartupLoad[] in order of time, as the other lists
---@field modules StartupLoad[]
---@field di StartupDi[]
---@field containers table[]       service providers that were built, or told of again
---@field cost table?
---@field notes string[]
---@field origin "live"|"trace"

local LOAD_ORDER <const> = { __order = { "timestamp", "eventName", "name", "path" } }
local DI_ORDER <const> = { __order = { "timestamp", "eventName", "serviceType", "detail" } }
local ENTRY_ORDER <const> = { __order = { "timestamp", "category", "eventName", "detail" } }
local CONTAINER_ORDER <const> = {
  __order = {
    "timestamp", "services", "singletonServices", "scopedServices", "transientServices", "closedGenericsServices", "openGenericsServices",
  },
}

--- Nanoseconds since 1970 as the wire has them: loads are microseconds apart, so with all digits of a .NET tick.
---@param unix_ns integer
---@return string
function M.timestamp(unix_ns)
  return os.date("!%Y-%m-%dT%H:%M:%S", unix_ns // 1000000000) .. (".%07dZ"):format(unix_ns % 1000000000 // 100)
end

local function load_row(item)
  return setmetatable({ timestamp = M.timestamp(item.unix_ns), eventName = item.event, name = item.name, path = item.path }, LOAD_ORDER)
end

local function di_row(item)
  return setmetatable({
    timestamp = M.timestamp(item.unix_ns), eventName = item.event, serviceType = item.service, detail = item.detail,
  }, DI_ORDER)
end

local function container_row(c)
  return setmetatable({
    timestamp = M.timestamp(c.unix_ns), services = c.singletons + c.scoped + c.transients, singletonServices = c.singletons,
    scopedServices = c.scoped, transientServices = c.transients, closedGenericsServices = c.closed, openGenericsServices = c.open,
  }, CONTAINER_ORDER)
end

local function rows(list, row, limit)
  local out = json.array({})
  for i = 1, math.min(#list, limit or #list) do out[i] = row(list[i]) end
  return out
end

--- The first `limit` loads; all without one.
function M.assemblies(artifact, limit) return rows(artifact.assemblies, load_row, limit) end
function M.modules(artifact, limit) return rows(artifact.modules, load_row, limit) end
function M.di(artifact, limit) return rows(artifact.di, di_row, limit) end
function M.containers(artifact, limit) return rows(artifact.containers, container_row, limit) end

local function detail_of(item)
  if not item.service then return item.detail end
  return item.detail and item.service .. ": " .. item.detail or item.service
end

--- Loader and DI events merged by time (of equal times assemblies first), the first `limit` of them.
function M.timeline(artifact, limit)
  local lists = { { "assembly", artifact.assemblies }, { "module", artifact.modules }, { "di", artifact.di } }
  local at, out = { 1, 1, 1 }, json.array({})
  while not limit or #out < limit do
    local best
    for i, list in ipairs(lists) do
      local item = list[2][at[i]]
      if item and (not best or item.unix_ns < lists[best][2][at[best]].unix_ns) then best = i end
    end
    if not best then break end
    local item = lists[best][2][at[best]]
    at[best] = at[best] + 1
    out[#out + 1] = setmetatable({
      timestamp = M.timestamp(item.unix_ns), category = lists[best][1], eventName = item.event,
      detail = best < 3 and (item.path or item.name) or detail_of(item),
    }, ENTRY_ORDER)
  end
  return out
end

--- How many entries the timeline has in all.
function M.timeline_length(artifact) return #artifact.assemblies + #artifact.modules + #artifact.di end

--- Milliseconds from the first to the last DI event; nil without any.
function M.di_span_ms(artifact) return artifact.di_first_ns and (artifact.di_last_ns - artifact.di_first_ns) / 1e6 or nil end

return M
