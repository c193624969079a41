-- SPDX-License-Identifier: MIT
-- What takes CPU samples: the runtime (EventPipe), or the kernel. An explicit choice never falls back to the other.
local errors = require("lunette.errors")
local hints = require("lunette.hints")

local M = {}

M.MODERATE = {
  level = "moderate", target_impact = "low", data_exposure = "metadata",
  reason = "CoreCLR: the runtime stops all managed threads about each millisecond for their stacks (NativeAOT: the kernel samples what "
    .. "runs); answers hold names of methods.",
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
  if args.resolveMethodInstantiations then
    return errors.not_supported("resolveMethodInstantiations is not available: this build does not attach for closed generic signatures. "
      .. "Leave it out; open generic methods are named.", {})
  end
  return nil
end

--- Whether the kernel takes the samples of a process.
---@param process TargetProcess?
---@param chosen "Automatic"|"EventPipe"|"Os"
function M.is_os(process, chosen)
  return process ~= nil and (chosen == "Os" or chosen == "Automatic" and process.digest.runtime == "NativeAot")
end

--- Why the samples of EventPipe cannot be had of a process, as an error; nil when they can.
---@param process TargetProcess
---@param chosen "Automatic"|"EventPipe"|"Os"
function M.unfit(process, chosen)
  if process.digest.runtime ~= "NativeAot" or chosen ~= "EventPipe" then return nil end
  local pid = process.pid
  return errors.new("UnsupportedRuntime", ("Process %d is compiled ahead of time (NativeAOT): its runtime gives no stacks of managed "
    .. "methods. Only samples of the kernel (cpuBackend=Os) can tell, and no other source is taken in their place."):format(pid),
    { detail = "NativeAot", process_id = pid, hints = {
      hints.new("collect_sample", "Sample from the kernel.", { kind = "cpu", cpuBackend = "Os", processId = pid }, "high"),
      hints.new("inspect_process", "See what can be collected from it.", { view = "capabilities", processId = pid }),
      hints.new("collect_events", "Counters work where EventSourceSupport is built in.", { kind = "counters", processId = pid }),
    } })
end

--- An error of the kernel's samples with what else can be done.
---@param err table
---@param process TargetProcess
function M.refused(err, process)
  local list = {
    hints.new("inspect_process", "See which setting or capability is missing.", { view = "preflight", processId = process.pid }, "high"),
  }
  if process.digest.runtime ~= "NativeAot" then
    list[2] = hints.new("collect_sample", "Sample where managed threads stand instead, which is other evidence.",
      { kind = "cpu", cpuBackend = "EventPipe", processId = process.pid })
  end
  local text = err.hint and err.hint ~= "" and ("%s. %s"):format(err.message, err.hint) or err.message
  return errors.new(err.kind, text, { detail = err.detail, process_id = process.pid, hints = list })
end

return M
