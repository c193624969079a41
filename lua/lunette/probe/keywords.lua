-- SPDX-License-Identifier: MIT
-- The names of the runtime's keywords, for declarations.
local M = {}

--- Of Microsoft-Windows-DotNETRuntime (schemas/clr-events.json has all of them).
M.RUNTIME = {
  GC = 0x1, GCHandle = 0x2, AssemblyLoader = 0x4, Loader = 0x8, Jit = 0x10, NGen = 0x20, StartEnumeration = 0x40, EndEnumeration = 0x80,
  Security = 0x400, AppDomainResourceManagement = 0x800, JitTracing = 0x1000, Interop = 0x2000, Contention = 0x4000, Exception = 0x8000,
  Threading = 0x10000, JittedMethodILToNativeMap = 0x20000, OverrideAndSuppressNGenEvents = 0x40000, Type = 0x80000,
  GCHeapDump = 0x100000, GCSampledObjectAllocationHigh = 0x200000, GCHeapSurvivalAndMovement = 0x400000, GCHeapCollect = 0x800000,
  GCHeapAndTypeNames = 0x1000000, GCSampledObjectAllocationLow = 0x2000000, PerfTrack = 0x20000000, Stack = 0x40000000,
  ThreadTransfer = 0x80000000, Debugger = 0x100000000, Monitoring = 0x200000000, CodeSymbols = 0x400000000, EventSource = 0x800000000,
  Compilation = 0x1000000000, CompilationDiagnostic = 0x2000000000, MethodDiagnostic = 0x4000000000, TypeDiagnostic = 0x8000000000,
  JitInstrumentationData = 0x10000000000, Profiler = 0x20000000000, WaitHandle = 0x40000000000, AllocationSampling = 0x80000000000,
}

--- The mask of a number, a name, or a list of both; nil, why for an unknown name.
function M.mask(given)
  if type(given) == "number" or given == nil then return math.tointeger(given or 0) end
  local mask = 0
  if type(given) == "table" and getmetatable(given) then return nil end
  for _, one in ipairs(type(given) == "table" and given or { given }) do
    local bit = math.tointeger(type(one) == "number" and one or type(one) == "string" and tonumber(one) or nil) or M.RUNTIME[one]
    if not bit then return nil, type(one) == "string" and one or nil end
    mask = mask | bit
  end
  return mask
end

return M
