-- SPDX-License-Identifier: MIT
-- What takes CPU samples: the runtime (EventPipe), or the kernel. An explicit choice never falls back to the other.
local errors = require("lunette.errors")
local hints = require("lunette.hints")

local M = {}

M.MODERATE = {
  level = "moderate", target_impact = "low", data_exposure = "metadata",
  reason = "The runtime stops all managed threads about each millisecond for their stacks; answers hold names of methods.",
}
M.HIGH = {
  level = "high", target_impact = "moderate", data_exposure = "metadata",
  reason = "It samples from the kernel, or attaches to the process and suspends it for a moment.",
}

--- The rules between the parameters of cpu.
function M.check(args, call)
  local os = args.cpuBackend == "Os"
  for _, name in ipairs { "exportTrace", "resolveMethodInstantiations" } do
    if args[name] and os then
      return nil, errors.invalid(name, ("%s belongs to the samples of EventPipe, not to cpuBackend=Os."):format(name))
    end
  end
  if args.traceFilePath and os then
    return nil, errors.invalid("cpuBackend", "A recording holds the samples of EventPipe: leave cpuBackend out, or take EventPipe.")
  end
  if args.traceFilePath and args.resolveMethodInstantiations then
    return nil, errors.invalid("resolveMethodInstantiations", "A recording cannot be attached to for closed generic signatures.")
  end
  args.topN_given = call and call.explicit and call.explicit.topN or false
  args.maxResolvedSources = args.maxResolvedSources or args.topN
  return true
end

--- What this build has not, as an error; nil when the call can run.
function M.missing(args)
  if args.cpuBackend == "Os" then
    return errors.not_supported("cpuBackend=Os is not available: this build does not sample from the kernel (perf_event_open). "
      .. "cpuBackend=EventPipe samples the stacks of managed threads.",
      { hints.new("collect_sample", "Sample the stacks of managed threads.", { kind = "cpu", cpuBackend = "EventPipe" }, "high") })
  end
  if args.resolveMethodInstantiations then
    return errors.not_supported("resolveMethodInstantiations is not available: this build does not attach for closed generic signatures. "
      .. "Leave it out; open generic methods are named.", {})
  end
  return nil
end

--- Why the samples of EventPipe cannot be had of a process, as an error; nil when they can.
---@param process TargetProcess
---@param chosen "Automatic"|"EventPipe"
function M.unfit(process, chosen)
  if process.digest.runtime ~= "NativeAot" then return nil end
  local pid = process.pid
  local next_steps = {
    hints.new("inspect_process", "See what can be collected from it.", { view = "capabilities", processId = pid }, "high"),
    hints.new("collect_events", "Counters work where EventSourceSupport is built in.", { kind = "counters", processId = pid }),
  }
  if chosen == "EventPipe" then
    return errors.new("UnsupportedRuntime", ("Process %d is compiled ahead of time (NativeAOT): its runtime gives no stacks of managed "
      .. "methods. Only samples of the kernel (cpuBackend=Os) can tell, and no other source is taken in their place."):format(pid),
      { detail = "NativeAot", process_id = pid, hints = next_steps })
  end
  return errors.not_supported(("Process %d is compiled ahead of time (NativeAOT), so its CPU samples come from the kernel "
    .. "(perf_event_open), which this build does not read."):format(pid), next_steps)
end

return M
