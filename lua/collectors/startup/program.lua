-- SPDX-License-Identifier: MIT
-- What a startup window asks of the runtime, and how its result becomes an artifact.
local probe = require("lunette.probe")

local M = {}

M.MAX_LOADS = 5000      -- assemblies kept, and modules
M.MAX_DI = 10000        -- DependencyInjection events kept
M.MAX_CONTAINERS = 100  -- service providers kept
M.BUFFER_MB = 32        -- each resolve is an event while a program starts
local RUNTIME <const> = probe.RUNTIME
local DI <const> = "Microsoft-Extensions-DependencyInjection"
-- 0x1 is the shape of containers. Resolves declare no keyword; the runtime then gives them the bits of its sessions, and sends them only to
-- who asks for those (seen on 8.0, 9.0 and 10.0).
local DI_KEYWORDS <const> = 0xf00000000001
local VERBOSE <const> = 5 -- resolves are verbose

-- The events of the provider, each with what is kept of it beside time and service. A long text comes in chunks, each an event that
-- repeats all else: the first one stands for them. Events of other names (newer versions) are counted only.
local EVENTS <const> = {
  { name = "ServiceProviderBuilt", row = {
    singletons = "singletonServices", scoped = "scopedServices", transients = "transientServices", closed = "closedGenericsServices",
    open = "openGenericsServices",
  } },
  { name = "ServiceProviderDescriptors", chunked = true, row = {} },
  { name = "CallSiteBuilt", chunked = true, row = { service = "serviceType" } },
  { name = "ServiceResolved", row = { service = "serviceType" } },
  { name = "ExpressionTreeGenerated", row = { service = "serviceType", nodes = "nodeCount" } },
  { name = "DynamicMethodBuilt", row = { service = "serviceType", bytes = "methodSize" } },
  { name = "ScopeDisposed", row = { resolved = "scopedServicesResolved" } },
  { name = "ServiceRealizationFailed", row = { failure = "exceptionMessage" } },
}
local BUILT <const> = "ServiceProviderBuilt"

--- The program: what is enabled and kept.
function M.program()
  local events = { assembly = RUNTIME .. "/Loader/AssemblyLoad", module = RUNTIME .. "/Loader/ModuleLoad", di = DI .. "/*" }
  local keep = {
    assemblies = probe.first(M.MAX_LOADS, {
      at = "@unix", event = "@event", name = "FullyQualifiedAssemblyName", id = "AssemblyID",
    }, { on = "assembly" }),
    modules = probe.first(M.MAX_LOADS, { at = "@unix", event = "@event", path = "ModuleILPath", id = "AssemblyID" }, { on = "module" }),
    di = probe.group { on = "di", by = "@event", keep = { n = probe.count() } },
    di_time = probe.stats("@unix", { on = "di" }),
  }
  for _, e in ipairs(EVENTS) do
    local row = { at = "@unix" }
    for name, expression in pairs(e.row) do row[name] = expression end
    events[e.name] = DI .. "/" .. e.name
    keep[e.name] = probe.first(e.name == BUILT and M.MAX_CONTAINERS or M.MAX_DI, row,
      { on = e.name, where = e.chunked and "chunkIndex == 0" or nil })
    if e.chunked then keep[e.name .. "_more"] = probe.count { on = e.name, where = "chunkIndex > 0" } end
  end
  return probe.program {
    name = "startup", events = events, keep = keep,
    providers = { { name = RUNTIME, keywords = "Loader", level = 4 }, { name = DI, keywords = DI_KEYWORDS, level = VERBOSE } },
  }
end

-- "Loader/AssemblyLoad" -> "AssemblyLoad"
local function short(event) return (event:gsub("^.*/", "")) end

local function file_of(path) return path and path:match("[^/\\]+$") end

-- The path of an assembly is that of its module, which is told of right behind it.
local function paths_of(modules)
  local paths = {}
  for _, row in ipairs(modules) do
    if row.id and row.path and row.path ~= "" then paths[row.id] = paths[row.id] or row.path end
  end
  return paths
end

local function assemblies_of(result)
  local paths, list = paths_of(result.modules.rows), {}
  for i, row in ipairs(result.assemblies.rows) do
    list[i] = { unix_ns = row.at, event = short(row.event), name = row.name or "(unnamed)", path = row.id and paths[row.id] }
  end
  return list
end

local function modules_of(result)
  local list = {}
  for i, row in ipairs(result.modules.rows) do
    local path = row.path ~= "" and row.path or nil
    list[i] = { unix_ns = row.at, event = short(row.event), name = file_of(path) or "(dynamic)", path = path }
  end
  return list
end

local function services(row)
  return ("%d singleton, %d scoped, %d transient services"):format(row.singletons or 0, row.scoped or 0, row.transients or 0)
end

local function detail_of(row)
  if row.singletons then return services(row) end
  if row.failure then return row.failure end
  if row.nodes then return ("%d nodes"):format(row.nodes) end
  if row.bytes then return ("%d bytes of IL"):format(row.bytes) end
  if row.resolved then return ("%d scoped services resolved"):format(row.resolved) end
  return nil
end

-- All kinds of event merged by time, the first MAX_DI of them. Each list is in that order already: a sort of tens of thousands of rows
-- would hold up everybody else.
local function di_of(result)
  local lists, at, merged = {}, {}, {}
  for i, e in ipairs(EVENTS) do lists[i], at[i] = result[e.name].rows, 1 end
  while #merged < M.MAX_DI do
    local best
    for i, rows in ipairs(lists) do
      local row = rows[at[i]]
      if row and (not best or row.at < lists[best][at[best]].at) then best = i end
    end
    if not best then break end
    local row = lists[best][at[best]]
    at[best] = at[best] + 1
    merged[#merged + 1] = { unix_ns = row.at, event = EVENTS[best].name, service = row.service, detail = detail_of(row) }
  end
  return merged
end

local function containers_of(result)
  local list = {}
  for i, row in ipairs(result[BUILT].rows) do
    list[i] = {
      unix_ns = row.at, singletons = row.singletons or 0, scoped = row.scoped or 0, transients = row.transients or 0,
      closed = row.closed or 0, open = row.open or 0,
    }
  end
  return list
end

--- The artifact's lists and counts, from what the program kept.
---@param result table   of probe.run
---@return table
function M.artifact(result)
  local counts, n, time = {}, 0, result.di_time
  for _, row in ipairs(result.di.rows) do
    local name = row.key or "(unnamed)"
    counts[name] = row.n - (result[name .. "_more"] or 0)
    n = n + counts[name]
  end
  return {
    assembly_count = result.assemblies.seen, module_count = result.modules.seen, di_count = n, di_counts = counts,
    di_first_ns = time.n > 0 and time.min or nil, di_last_ns = time.n > 0 and time.max or nil,
    assemblies = assemblies_of(result), modules = modules_of(result), di = di_of(result), containers = containers_of(result),
  }
end

return M
