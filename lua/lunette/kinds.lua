-- SPDX-License-Identifier: MIT
-- kinds: what a handle may be: the kinds of artifacts, their views with options and payloads, who may ask, and who makes them.
-- All kinds of the contract are known from the start, so that a question about one that nothing produces yet gets a real answer.
local scopes = require("lunette.scopes")
local text = require("lunette.text")

local M = {}

-- A view is "name(options)=Payload". An option with ! is required. topN alone takes the kind's default.
local JOURNEY <const> = "diff(baselineHandle comparisonHandles minDeltaPct topN:25 depth mode)=SnapshotJourneyDiff|CompactJourneyDiff"
local COLLECTION <const> = "CollectionQueryResult"

local by_name = {}   -- compiled when first asked for: most runs need a few of them
local declarations = {}
local ordered = {}

local function parse_option(word)
  local name, mark, value = word:match("^(%w+)(!?):?(.*)$")
  local number = math.tointeger(tonumber(value))
  if value == "" then value = nil end
  if value == "true" or value == "false" then value = value == "true" end
  return { name = name, required = mark == "!", default = number or value }
end

local function parse_view(spec, kind)
  local name, options, payload = spec:match("^([%w%-%+]+)(%b())=?(.*)$")
  if not name then error("kinds: cannot read the view " .. spec) end
  local view = { name = name, payload = payload, options = {}, order = {} }
  for word in options:sub(2, -2):gmatch("%S+") do
    local option = parse_option(word)
    if option.name == "topN" and not option.default then option.default = kind.default_top_n end
    view.options[option.name] = option
    view.order[#view.order + 1] = option.name
  end
  return view
end

---@class Kind
---@field name string
---@field default_view string
---@field wrapper string         record that holds the payload; "" when data is the payload
---@field scopes { semantics: string, list: string[] }
---@field risk string
---@field lifetime "standard"|"ttlOnly"|"evictOnExit"
---@field collector { tool: string, arguments: table }
---@field views table<string, table>
---@field view_names string[]    in the order of declaration

local function compile(declared)
  local kind = {
    name = declared.name, default_view = declared.default_view, wrapper = declared.wrapper or COLLECTION,
    scopes = scopes.requirement(declared.scopes), risk = declared.risk or "low", lifetime = declared.lifetime or "standard",
    collector = declared.collector, default_top_n = declared.default_top_n or 50, artifact = declared.artifact,
    views = {}, view_names = {},
  }
  for _, spec in ipairs(declared.views) do
    local view = parse_view(spec, kind)
    view.field = declared.fields and declared.fields[view.name]
    view.scopes = declared.view_scopes and declared.view_scopes[view.name] and scopes.requirement(declared.view_scopes[view.name])
    view.risk = declared.view_risk and declared.view_risk[view.name] or kind.risk
    kind.views[view.name] = view
    kind.view_names[#kind.view_names + 1] = view.name
  end
  if not kind.views[kind.default_view] then error("kinds.add: the default view is none of the views of " .. kind.name, 3) end
  return kind
end

--- Adds a kind (a site script may, too). `views` is a list of "name(options)=Payload"; `fields`, `view_scopes` and `view_risk` are
--- by the name of the view.
function M.add(declared)
  if not declarations[declared.name] then ordered[#ordered + 1] = declared.name end
  declarations[declared.name], by_name[declared.name] = declared, nil
end

--- A kind of the product.
---@return Kind?
function M.base(name)
  if not by_name[name] and declarations[name] then by_name[name] = compile(declarations[name]) end
  return by_name[name]
end

--- The declaration of a kind of the product, or nil.
function M.declaration(name) return declarations[name] end

--- A kind with the views of layers: those that its declaration does not list are added. nil when nothing differs.
---@param declared table     a declaration of a kind
---@param views table[]      declarations of views
---@return Kind?
function M.with(declared, views)
  local all, listed, default = { table.unpack(declared.views) }, {}, declared.default_view
  local more = setmetatable({ views = all, view_scopes = {}, view_risk = {} }, { __index = declared })
  for name, needed in pairs(declared.view_scopes or {}) do more.view_scopes[name] = needed end
  for name, risk in pairs(declared.view_risk or {}) do more.view_risk[name] = risk end
  for _, spec in ipairs(all) do listed[spec:match("^([%w%-%+]+)") or ""] = true end
  for _, v in ipairs(views) do
    if not listed[v.name] then
      all[#all + 1] = ("%s(%s)=%s"):format(v.name, table.concat(v.options or {}, " "), v.payload or "")
      listed[v.name] = true
    end
    more.view_scopes[v.name], more.view_risk[v.name] = v.scopes or more.view_scopes[v.name], v.risk or more.view_risk[v.name]
    if v.default then default = v.name end
  end
  if #all == 0 then return nil end
  if not listed[default] then default = nil end
  more.default_view = default or listed.summary and "summary" or all[1]:match("^([%w%-%+]+)")
  return compile(more)
end

local layered -- () -> the generation of this call, once there is one

--- Tells where the kinds of layers are found: fn() -> { kinds = {name -> Kind}, kind_names = {…} }.
function M.use(fn) layered = fn end

---@return Kind?
function M.get(name)
  if name == nil then return nil end
  local found = layered and layered().kinds[name]
  return found or M.base(name)
end

--- The names of the product's kinds.
function M.base_names() return { table.unpack(ordered) } end

--- The names of all kinds, in the order of the contract; then those of layers.
function M.names()
  local names = { table.unpack(ordered) }
  local more = layered and layered().kind_names or {}
  return table.move(more, 1, #more, #names + 1, names)
end

--- The hint that makes a new handle of that kind.
---@return string tool, table arguments
function M.collector(name)
  local kind = layered and layered().kinds[name] or declarations[name]
  if not kind then return "inspect_process", { view = "list" } end
  local arguments = {}
  for k, v in pairs(kind.collector.arguments or {}) do arguments[k] = v end
  return kind.collector.tool, arguments
end

--- A kind by the name or the nearest spelling of it, for messages.
function M.did_you_mean(name) return text.did_you_mean(name, M.names()) end

local function events(name, kind, artifact, risk, views, more)
  local declared = {
    name = name, artifact = artifact, scopes = { "eventpipe" }, risk = risk, default_view = views[1]:match("^[%w%-]+"), views = views,
    collector = { tool = "collect_events", arguments = { kind = kind } },
  }
  for k, v in pairs(more or {}) do declared[k] = v end
  M.add(declared)
end

events("counters", "counters", "CounterSnapshot", "low",
  { "summary()=CountersSummaryView", "byProvider()=CountersByProviderView", JOURNEY },
  { scopes = { semantics = "any", list = { "read-counters", "eventpipe" } } })
events("exception-snapshot", "exceptions", "ExceptionSnapshot", "moderate",
  { "summary(topN)=ExceptionByTypeView", "byType()=ExceptionByTypeView", "recent(topN)=ExceptionRecentView",
    "byThrowSite(topN)=ExceptionByThrowSiteView" })
events("crash-guard-snapshot", "crash-guard", "CrashGuardSnapshot", "moderate",
  { "summary()=CrashGuardSummaryView", "exceptions(topN)=CrashGuardExceptionsView", "stack()=CrashGuardStackView" },
  { lifetime = "ttlOnly" }) -- it is about the end of the process, so it must outlive it
events("gc-events", "gc", "GcSummary", "low", {
  "summary()=GcMeasurementView", "events(topN)=GcMeasurementView", "pauseHistogram()=GcMeasurementView",
  "timeline(topN)=GcMeasurementView", "longestPauses(topN)=GcMeasurementView", "byGeneration()=GcMeasurementView",
  "heap-stats(topN)=GcHeapStatsView", JOURNEY })
events("gc-datas", "datas", "DatasSnapshot", "low", {
  "overview()=DatasOverviewView", "tuning(topN changesOnly:false)=DatasTuningView", "samples(topN)=DatasSamplesView",
  "gen2(topN)=DatasGen2View", JOURNEY })
events("event-catalog", "catalog", "EventCatalogSnapshot", "low", {
  "catalog(topN providerFilter rootMethodFilter)=EventCatalogView", "byProvider(topN providerFilter)=EventCatalogByProviderView",
  "events(topN providerFilter rootMethodFilter)=EventCatalogEventsView" })
events("activities", "activities", "ActivityCapture", "moderate", {
  "summary(topN)=ActivitiesSummaryView", "bySource(topN)=ActivitiesBySourceView", "byOperation(topN)=ActivitiesByOperationView",
  "activities(topN)=ActivitiesListView", "trace(traceId! topN)=ActivityTraceView", "gc-overlay(gcHandle! topN)=GcOverlayResult" })
events("event-source", "event_source", "EventSourceCapture", "moderate",
  { "summary(topN)=EventSourceByEventNameView", "byEventName()=EventSourceByEventNameView", "events(topN)=EventSourceEventsView" })
events("log-snapshot", "logs", "LogSnapshot", "moderate", {
  "summary(topN)=LogSummaryView", "byCategory(topN)=LogByCategoryView", "byLevel(topN)=LogByLevelView", "recent(topN)=LogRecentView",
  "errors(topN)=LogErrorsView" })
events("jit-snapshot", "jit", "JitSnapshot", "low", {
  "summary(topN)=JitSummaryView", "topMethods(topN)=JitTopMethodsView", "tierDistribution()=JitTierDistributionView",
  "reJIT(topN)=JitReJitView" })
events("threadpool-snapshot", "threadpool", "ThreadPoolEventSnapshot", "low", {
  "summary(topN)=ThreadPoolSummaryView", "timeline()=ThreadPoolTimelineView", "hillClimbing(topN)=ThreadPoolHillClimbingView",
  "workItemOrigins(topN)=ThreadPoolWorkItemOriginsView", JOURNEY })
events("contention-snapshot", "contention", "ContentionSnapshot", "low", {
  "summary()=ContentionSummaryView", "byCallSite(topN)=ContentionByCallSiteView", "byOwner(topN)=ContentionByOwnerView",
  "byBlame(topN)=ContentionByBlameView", "events(topN)=ContentionEventsView", JOURNEY })
events("db-snapshot", "db", "DbSnapshot", "moderate", {
  "summary(topN)=DbSummaryView", "byCommand(topN)=DbByCommandView", "n+1(topN)=DbNPlusOneView",
  "connectionPool(topN)=DbConnectionPoolView" })
events("kestrel-snapshot", "kestrel", "KestrelSnapshot", "low", {
  "summary(topN)=KestrelSummaryView", "byOperation(topN)=KestrelByOperationView", "queues()=KestrelQueuesView", "tls()=KestrelTlsView",
  "config()=KestrelConfigView" })
events("networking-snapshot", "networking", "NetworkingSnapshot", "low", {
  "summary(topN)=NetworkingSummaryView", "byOperation(topN)=NetworkingByOperationView", "queue()=NetworkingQueueView",
  "tls()=NetworkingTlsView", "dns()=NetworkingDnsView" })
events("in-flight-requests", "requests", "InFlightRequestSnapshot", "moderate",
  { "summary(topN)=InFlightSummaryView", "requests(topN)=InFlightRequestsView", "longRunning(topN)=InFlightRequestsView" })
events("startup-snapshot", "startup", "StartupSnapshot", "low", {
  "summary(topN)=StartupSummaryView", "assemblies(topN)=StartupListView", "modules(topN)=StartupListView", "di(topN)=StartupListView",
  "timeline(topN)=StartupListView" })

-- Beyond the contract.
events("wait-handles-snapshot", "wait-handles", "WaitHandleSnapshot", "low",
  { "summary(topN)=WaitHandleSummaryView", "byCallSite(topN)=WaitHandleByCallSiteView", "whereThreadsWait(topN)=WhereThreadsWaitView" })
events("runtime-metrics-snapshot", "runtime-metrics", "RuntimeMetricsSnapshot", "low",
  { "summary()=RuntimeMetricsSummaryView", "timeline(topN)=RuntimeMetricsTimelineView" })
events("allocations-sampled-snapshot", "allocations-sampled", "AllocationsSampledSnapshot", "low",
  { "summary(topN)=AllocationsSampledByTypeView", "bySite(topN)=AllocationsSampledBySiteView" })
events("http-phases-snapshot", "http-phases", "HttpPhasesSnapshot", "moderate", {
  "summary(topN)=HttpPhasesSummaryView", "slowest(topN)=HttpPhaseRequestsView", "byHost(topN)=HttpPhasesByHostView",
  "byPhase()=HttpPhasesByPhaseView", "redirects(topN)=HttpPhasesRedirectsView", "failures(topN)=HttpPhasesFailuresView",
  "inFlight(topN)=HttpPhaseRequestsView" })

M.add {
  name = "heap-snapshot", artifact = "HeapSnapshotArtifact", wrapper = "HeapSnapshotQueryResult", scopes = { "heap-read" },
  risk = "moderate",
  default_view = "top-types", collector = { tool = "inspect_heap", arguments = { source = "live" } },
  views = {
    "top-types(topN rankBy:bytes)=TypeStat[]", "retention-paths(topN typeFullName)=RetentionPath[]", "roots-by-kind()=RootKindStat[]",
    "finalizer-queue(topN)=FinalizableTypeStat[]", "fragmentation(topN)=SegmentStat[]", "static-fields(topN)=StaticFieldStat[]",
    "delegate-targets(topN)=DelegateTargetStat[]", "duplicate-strings(topN includeSensitiveValues:false)=DuplicateStringStat[]",
    "gchandles()=GcHandlesView", "timers(topN)=HeapTimersView", "alc(topN)=HeapAlcView",
    "object(address! includeSensitiveValues:false)=HeapObjectInspection", "gcroot(address!)=HeapGcRootInspection",
    "objsize(address!)=HeapObjectSizeInspection", "async(topN)=AsyncOperationStat[]",
    "diff(baselineHandle comparisonHandles minDeltaPct topN:25 depth mode)="
      .. "SnapshotJourneyDiff|CompactJourneyDiff|SampleDiff<TypeIdentity, HeapDiffMetric>",
    "growth(baselineHandle! rankBy:bytes topN:25 minDeltaPct)=HeapGrowthResult",
    "retained(topN typeFullName)=HeapRetainedView", "dominators(address topN)=HeapDominatorsView", -- beyond the contract
  },
  fields = {
    ["top-types"] = "topTypes", ["retention-paths"] = "retentionPaths", ["roots-by-kind"] = "rootsByKind",
    ["finalizer-queue"] = "finalizableObjects", fragmentation = "segments", ["static-fields"] = "staticFields",
    ["delegate-targets"] = "delegateTargets", ["duplicate-strings"] = "duplicateStrings", gchandles = "gcHandles", timers = "timers",
    alc = "assemblyLoadContexts", object = "objectDetails", gcroot = "gcRoot", objsize = "objectSize", async = "asyncOperations",
    growth = "growth", retained = "retained", dominators = "dominators",
  },
  view_scopes = { growth = { "heap-read", "sensitive-heap-read" } },
  view_risk = { object = "high" }, -- gcroot and objsize ask the graph that was captured
}

M.add {
  name = "thread-snapshot", artifact = "ThreadSnapshotArtifact", wrapper = "ThreadSnapshotQueryResult", scopes = { "ptrace" },
  risk = "moderate", lifetime = "ttlOnly", default_view = "top-blocked", collector = { tool = "collect_thread_snapshot" },
  views = {
    "top-blocked(topN)=ManagedThread[]", "threads-summary(topN)=ManagedThread[]", "stack(threadId!)=ManagedThread",
    "lock-graph(topN)=MonitorLockState[]", "deadlocks(topN)=ThreadDeadlockCycle[]",
    "unique-stacks(topN framesToHash minCount)=UniqueThreadStackGroup[]", "async-stalls(topN)=AsyncStallsView",
    "wait-chains(topN)=WaitChainsView", "threadpool()=ThreadPoolSnapshot", "resolve-address(address!)=ResolvedAddress[]",
    "frame-vars(threadId! includeSensitiveValues:false)=FrameVarsResult",
  },
  fields = {
    ["top-blocked"] = "threads", ["threads-summary"] = "threads", stack = "thread", ["lock-graph"] = "locks", deadlocks = "deadlocks",
    ["unique-stacks"] = "uniqueStacks", ["async-stalls"] = "asyncStalls", ["wait-chains"] = "waitChains", threadpool = "threadPool",
    ["resolve-address"] = "resolvedAddresses", ["frame-vars"] = "frameVars",
  },
  view_scopes = { ["frame-vars"] = { "ptrace", "heap-read" } },
  view_risk = { ["resolve-address"] = "high", ["frame-vars"] = "high" },
}

M.add {
  name = "off-cpu-snapshot", artifact = "OffCpuSnapshot", wrapper = "OffCpuQueryView", scopes = { "eventpipe" }, default_top_n = 25,
  default_view = "topStacks", collector = { tool = "collect_sample", arguments = { kind = "off_cpu" } },
  views = { "topStacks(topN)=OffCpuStackHotspot[]", "byThread(topN)=OffCpuThreadView[]", "stack(stackRank!)=OffCpuStackHotspot" },
  fields = { topStacks = "stacks", byThread = "threads", stack = "stack" },
}

local function samples(name, kind, artifact, key, metric, beyond)
  local declared = {
    name = name, artifact = artifact, wrapper = "", scopes = { "investigation-export" }, default_view = "call-tree", default_top_n = 20,
    collector = { tool = "collect_sample", arguments = { kind = kind } },
    views = {
      "call-tree(rootMethodFilter maxDepth maxNodes depth)=CallTreeView",
      "top-methods(topN rankBy:exclusive foldAsync depth)=TopMethodsView",
      "by-module(topN)=CpuGroupView", "by-namespace(topN)=CpuGroupView", "hot-path(hotPathThresholdPercent)=HotPathView",
      "caller-callee(rootMethodFilter! topN)=CallerCalleeView", "triage(topN:5 hotPathThresholdPercent)=CpuTriageView",
      "diff(baselineHandle comparisonHandles minDeltaPct topN:25 depth mode)=SnapshotJourneyDiff|CompactJourneyDiff|SampleDiff<"
        .. key .. ", " .. metric .. ">",
    },
  }
  declared.views[#declared.views + 1] = beyond
  M.add(declared)
end
samples("cpu-sample", "cpu", "CpuSample", "MethodDiffKey", "CpuDiffMetric",
  "async(rootMethodFilter maxDepth maxNodes depth)=CpuAsyncView") -- beyond the contract
samples("allocation-sample", "allocation", "AllocationSample", "TypeIdentity", "AllocationDiffMetric")
samples("native-alloc-sample", "native-alloc", "NativeAllocSample", "MethodDiffKey", "CpuDiffMetric")
samples("native-lock-contention-sample", "native-lock-contention", "NativeLockContentionSample", "MethodDiffKey", "CpuDiffMetric")

M.add {
  name = "method-params-capture", artifact = "MethodParamsCapture", scopes = { "eventpipe", "sensitive-parameter-read" },
  lifetime = "evictOnExit", default_view = "summary", collector = { tool = "collect_sample", arguments = { kind = "method-params" } },
  views = { "summary()=MethodParamsSummaryView", "events(topN includeSensitiveValues!)=MethodParamsEventsView" },
  view_risk = { events = "high" },
}

return M
