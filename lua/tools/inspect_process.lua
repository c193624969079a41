-- SPDX-License-Identifier: MIT
-- inspect_process: which .NET processes there are, and cheap facts about one. The views are in lua/views/process/ and lua/triage.lua.
local tool = require("lunette.tool")

local COUNTERS <const>, PTRACE <const> = { "read-counters" }, { "ptrace" }
local LISTED <const> = 16 * 1024 -- bytes of an answer whose length depends on how many processes there are

-- A view's script is read when it is first asked for: most calls want one or two of them.
local function view(name)
  return function(...) return require("views.process." .. name).run(...) end
end

local function triage(ctx, args, call)
  local process = require("lunette.process")
  local target, err = process.resolve(ctx, args.processId)
  if not target then return nil, err end
  return require("triage").run(ctx, args, target, call)
end

local ATTACHES <const> = {
  level = "high", target_impact = "moderate", data_exposure = "metadata",
  reason = "It attaches to the process and suspends it for a moment.",
}

local function cheap(name, data_field, payload, more)
  local branch = { risk = "low", scopes = COUNTERS, run = view(name), data_field = data_field, payload = payload }
  for k, v in pairs(more or {}) do branch[k] = v end
  return branch
end

return tool {
  name = "inspect_process", title = "Inspect a process",
  description = "Finds .NET processes and reads cheap facts about one: capabilities, container, memory, resources, preflight, triage.",
  scopes = { list = { "read-counters", "ptrace" }, semantics = "any" },
  annotations = { read_only = true, idempotent = false },
  params = {
    {
      "view", "string", default = "list", trim = true, note = "What to answer.",
      enum = {
        "list", "info", "capabilities", "container", "memory_trend", "runtime-config", "resources", "requests-now", "triage", "preflight",
      },
    },
    tool.process_id {
      note = "Process id; absent: the only .NET process. Any OS process for memory_trend, resources, preflight.",
      applies_to = {
        "info", "capabilities", "container", "memory_trend", "runtime-config", "resources", "requests-now", "triage", "preflight",
      },
    },
    { "commandLineContains", "string?", applies_to = { "list" }, note = "Text in the command line, any letter case." },
    {
      "durationSeconds", "int", applies_to = { "memory_trend", "resources", "triage" }, max = 300,
      default_by_branch = { memory_trend = 10, resources = 0, triage = 5 }, min_by_branch = { memory_trend = 2, resources = 0, triage = 1 },
      note = "Window. resources: 0 (one snapshot) or at least 2.",
    },
    {
      "sampleEverySeconds", "int", default = 2, min = 1, max = 300, applies_to = { "memory_trend", "resources" }, note = "Between samples.",
    },
    tool.depth { applies_to = { "container" } },
  },
  discriminator = "view",
  branches = {
    list = cheap("list", "list", "DotnetProcess[]", { budget = LISTED, extra = { notes = "string[]" } }),
    info = cheap("info", nil, "InspectProcessReport"),
    capabilities = cheap("capabilities", "capabilities", "DiagnosticCapabilities"),
    container = cheap("container", "container", "ContainerSignals"),
    memory_trend = cheap("memory_trend", "memoryTrend", "MemoryTrend"),
    resources = cheap("resources", "resources", "ProcessResources", {
      check = function(args) return require("views.process.resources").check(args) end,
    }),
    preflight = cheap("preflight", "preflight", "PreflightReport"),
    triage = { risk = "low", scopes = COUNTERS, run = triage, data_field = "triage", payload = "TriageResult" },
    ["runtime-config"] = {
      risk = ATTACHES, scopes = PTRACE, run = view("runtime-config"), data_field = "runtimeConfig", payload = "RuntimeConfigView",
    },
    ["requests-now"] = {
      risk = ATTACHES, scopes = PTRACE, run = view("requests-now"), data_field = "requestsNow", payload = "InFlightHttpRequest[]",
    },
  },
}
