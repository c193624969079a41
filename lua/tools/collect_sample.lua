-- SPDX-License-Identifier: MIT
-- collect_sample: samples a process for one bounded window; the whole capture stays behind a handle.
local missing = require("samplers.missing")
local tool = require("lunette.tool")

local MAX_SECONDS <const> = 300 -- beyond, only as a task
local CPU <const> = { "cpu" }
local PARAMS <const> = { "method-params" } -- what takes no option of the others

return tool {
  name = "collect_sample", title = "Collect samples",
  description = "Samples a process for one bounded window: stacks, allocations, waits; the whole capture stays behind a handle for "
    .. "query_snapshot.",
  scopes = { list = { "eventpipe" } },
  discriminator = "kind",
  params = {
    {
      "kind", "string", default = "cpu", trim = true, note = "What to sample.",
      enum = { "cpu", "off_cpu", "allocation", "native-alloc", "native-lock-contention", "method-params", "cpu-efficiency" },
    },
    tool.process_id(),
    { "durationSeconds", "int", min = 1, max_without_task = MAX_SECONDS, default = 10, note = "Length of the window." },
    {
      "topN", "int", default = 25, min = 1, clamp_to = 500, refused_for = PARAMS, note = "Rows kept, and inline when given.",
      applies_to = { "cpu", "off_cpu", "allocation", "native-alloc", "native-lock-contention" },
    },
    tool.depth { applies_to = { "cpu", "off_cpu" }, refused_for = PARAMS },
    { "traceFilePath", "string?", applies_to = { "cpu", "allocation" }, excludes = { "processId" }, note = "A recorded .nettrace file." },
    { "symbolPath", "string?", applies_to = { "cpu", "off_cpu" }, refused_for = PARAMS, note = "Where symbols are, as _NT_SYMBOL_PATH." },
    { "resolveSourceLines", "bool", default = true, applies_to = CPU, refused_for = PARAMS, note = "File and line of the top methods." },
    { "maxResolvedSources", "int?", min = 1, applies_to = CPU, refused_for = PARAMS, note = "How many get a line; default topN." },
    {
      "resolveMethodInstantiations", "bool", default = false, applies_to = CPU, refused_for = PARAMS,
      note = "Attach once more for closed generic signatures: high risk.",
    },
    { "maxResolvedMethodInstantiations", "int?", min = 1, applies_to = CPU, refused_for = PARAMS, note = "Default topN." },
    {
      "cpuBackend", "string", enum = { "Automatic", "EventPipe", "Os" }, ci = true, default = "Automatic", applies_to = CPU,
      note = "Os: samples of the kernel.",
    },
    {
      "nativeAotMapFile", "string?", applies_to = CPU, refused_for = PARAMS,
      note = "NativeAOT: the map file of ILC, below the artifact root.",
    },
    {
      "exportTrace", "bool", default = false, applies_to = CPU, refused_for = PARAMS, excludes = { "traceFilePath" },
      note = "Keep the .nettrace for get_bytes.",
    },
    {
      "sampled", "bool", default = false, applies_to = { "allocation" }, refused_for = PARAMS,
      note = ".NET 10: random samples of objects, not ticks.",
    },
    { "nativeAllocSamplePeriod", "long", default = 1000, min = 1, applies_to = { "native-alloc" }, refused_for = PARAMS },
    {
      "outstanding", "bool", default = false, applies_to = { "native-alloc" }, refused_for = PARAMS,
      note = "Blocks not freed in the window, with bytes: probes every call.",
    },
    {
      "nativeLockContentionSamplePeriod", "long", default = 5000, min = 1, applies_to = { "native-lock-contention" }, refused_for = PARAMS,
    },
    { "maxEvents", "int", default = 100, min = 1, max = 500, applies_to = PARAMS, note = "Calls kept." },
    { "previewCount", "int", default = 10, min = 1, max = 25, applies_to = PARAMS, note = "Calls inline." },
    { "includeSensitiveValues", "bool", default = false, applies_to = PARAMS, note = "Must be true: values may be secret." },
    {
      "methods", "object[]?", applies_to = PARAMS, required_for = PARAMS, note = "1 to 10.",
      fields = {
        { "moduleName", "string", required = true }, { "typeName", "string", required = true }, { "methodName", "string", required = true },
        { "genericArity", "int?" }, { "signature", "string?" }, { "moduleVersionId", "string?" },
      },
    },
  },
  branches = {
    cpu = require("samplers.cpu"),
    allocation = require("samplers.allocation"),
    off_cpu = require("samplers.off_cpu"),
    ["native-alloc"] = require("samplers.native_alloc"),
    ["native-lock-contention"] = require("samplers.native_lock"),
    ["method-params"] = missing.method_params,
    ["cpu-efficiency"] = require("samplers.cpu_efficiency"),
  },
}
