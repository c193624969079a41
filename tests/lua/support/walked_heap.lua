-- SPDX-License-Identifier: MIT
-- walked_heap: the details that the job `heap` of a worker writes, as it wrote them of a small process, with few rows.
local json = require("lunette.json")

local M = {}

local function method(name, token)
  return { methodName = name, genericArity = 0, typeFullName = "Shop.Orders", moduleName = "shop.dll", modulePath = "/app/shop.dll",
    moduleVersionId = "d82d8ef6-deb9-4b93-8f3a-ffc65b422de8", metadataToken = token }
end

local function region(start, more)
  local row = { logicalHeap = 0, kind = "Generation2", generation = "gen2", start = start, committedBytes = 135128,
    reservedBytes = 4194264, objectCount = 299, freeObjectCount = 33, largestFreeBytes = 8080 }
  for k, v in pairs(more) do row[k] = v end
  return row
end

local function handle_kind(kind, count, type_name)
  return { kind = kind, count = count, retainedBytes = 24 * count,
    topTypes = json.array { { typeFullName = type_name, count = count, retainedBytes = 24 * count } } }
end

local function waits(name, address, stack)
  return {
    stateMachineTypeFullName = "Shop.Orders+<" .. name, state = 0, stateMachineAddress = address, taskAddress = address,
    awaiterTypeFullName = "System.Runtime.CompilerServices.TaskAwaiter<System.Int32>", directSizeBytes = 112, stack = stack,
    taskTypeFullName = "System.Runtime.CompilerServices.AsyncTaskMethodBuilder<System.Int32>", observedOrder = 0,
  }
end

local function waits_in_turn(name, address)
  return { stateMachineTypeFullName = "Shop.Orders+<" .. name, state = 0, stateMachineAddress = address, taskAddress = address,
    awaiterTypeFullName = "System.Runtime.CompilerServices.TaskAwaiter<System.Int32>" }
end

local function text(preview, count, bytes)
  return { preview = preview, stringLength = #preview, instanceCount = count, totalBytes = bytes, previewTruncated = false,
    exampleAddress = "0x7f8199810720" }
end

local function sections(allocator)
  return {
    fragmentation = json.array {
      region("0x7f8199800028", { ["end"] = "0x7f8199812128", length = 73984, usedBytes = 52417, freeBytes = 21384, freePercent = 28.9 }),
      region("0x7f819bc00028", { ["end"] = "0x7f819bc080c0", length = 32920, usedBytes = 17424, freeBytes = 48, freePercent = 0.15,
        kind = "Generation0", generation = "gen0" }),
    },
    ["finalizer-queue"] = json.array {
      { typeFullName = "Shop.Finalized", moduleName = "shop.dll", instanceCount = 20, totalBytes = 480, readyCount = 10 },
      { typeFullName = "Shop.Suppressed", moduleName = "shop.dll", instanceCount = 1, totalBytes = 24, readyCount = 0 },
    },
    gchandles = { totalHandles = 23, notes = json.array {},
      byKind = json.array { handle_kind("Strong", 19, "System.Threading.Thread"), handle_kind("Pinned", 4, "System.Byte[]") } },
    timers = {
      totalTimers = 3, totalTasks = 8, totalTaskCompletionSources = 1, notes = json.array {},
      timersByCallback = json.array { {
        targetTypeFullName = "Shop.Orders", declaringTypeFullName = "Shop.Orders", methodName = "OnTick", moduleName = "shop.dll",
        methodSignature = "Shop.Orders.OnTick(System.Object)", method = method("OnTick", 100663336), count = 3,
        exampleAddress = "0x7f819980a4c0",
      } },
      topTaskTypes = json.array { { typeFullName = "System.Threading.Tasks.Task", moduleName = "System.Private.CoreLib.dll",
        instanceCount = 3, totalBytes = 336, totalBytesPercent = 0.28 } },
    },
    async = json.array { waits("Inner>d__17", "0x7f819980bb90", json.array { waits_in_turn("Outer>d__16", "0x7f819980bd00") }),
      waits("Outer>d__16", "0x7f819980bd00", json.array {}) },
    alc = json.array {
      { name = "Default", typeFullName = "System.Runtime.Loader.DefaultAssemblyLoadContext", address = "0x0", isCollectible = false,
        isDefault = true, isUnloading = false, assemblies = json.array { "shop.dll" } },
      { name = "never-unloads", typeFullName = "Shop.NeverContext", address = "0x7f81998108d8", isCollectible = true, isDefault = false,
        isUnloading = true, assemblies = json.array { "plugin.dll" }, loaderAllocatorAddress = allocator },
    },
    ["static-fields"] = json.array { {
      containingTypeFullName = "Shop.Cache", moduleName = "shop.dll", fieldName = "Instance", fieldToken = 67114184,
      valueAddress = "0x7f8199800480", valueTypeFullName = "System.Int32[]", directlyReferencedBytes = 3120, appDomainId = 1,
    } },
    ["delegate-targets"] = json.array { {
      targetTypeFullName = "Shop.Orders", declaringTypeFullName = "Shop.Orders", methodName = "OnTick", moduleName = "shop.dll",
      methodSignature = "Shop.Orders.OnTick(System.Object)", method = method("OnTick", 100663336), subscriberCount = 3,
      isStaticTarget = false,
    } },
    ["duplicate-strings"] = json.array { text("the same text again", 11, 660), text("Server=db;Password=hunter2", 4, 296) },
  }
end

--- The text of the details. alc_address: of the loader allocator of the context that can be unloaded; without: views that were not
--- asked for; empty: views of which nothing was found.
---@param options? { alc_address?: string, without?: string[], empty?: string[] }
function M.details(options)
  options = options or {}
  local all = sections(options.alc_address or "0x7f8199810940")
  for _, name in ipairs(options.without or {}) do all[name] = nil end
  for _, name in ipairs(options.empty or {}) do all[name] = json.array {} end
  return json.encode {
    runtime = { name = "CoreClr", version = "10.0.12", architecture = "x64", isServerGC = false, heapCount = 1 },
    sizes = { gen0 = 17424, gen1 = 112, gen2 = 52417, large = 0, pinned = 8184, committed = 413488 },
    stop = { ms = 12.5, estimatedMs = 7.1, copyMs = 1.4, rootsMs = 10.1, copiedBytes = 147456 },
    pid = 42, sections = all, notes = json.array { "Partial: something is missing." },
  }
end

--- What the job `heap-object` writes.
function M.object()
  return {
    address = "0x10", typeFullName = "Shop.Settings", size = 32, segmentKind = "Generation2", generation = "gen2", isArray = false,
    isString = false, fields = {
      { name = "count", typeFullName = "System.Int32", value = "7", isValue = true },
      { name = "dsn", typeFullName = "System.String", value = "Server=db;Password=hunter2", isValue = true,
        objectAddress = "0x20", referencedTypeFullName = "System.String" },
    },
  }
end

return M
