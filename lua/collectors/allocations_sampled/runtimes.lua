-- SPDX-License-Identifier: MIT
-- Which runtimes take random samples of allocations, and what those that do not have instead.
local errors = require("lunette.errors")
local hints = require("lunette.hints")

local SINCE <const> = 10 -- first major version that samples

local M = {}

--- The error for a process whose runtime takes none; nil when it does, or does not say what it is.
---@param process TargetProcess
---@return table? err
function M.unsupported(process)
  local version = (process.record or {}).runtimeVersion or ""
  local major = tonumber(version:match("^(%d+)%."))
  if not major or major >= SINCE then return nil end
  local pid = process.pid
  return errors.new("UnsupportedRuntime", ("Process %d runs .NET %s, which takes no random samples of allocations: they exist since "
    .. ".NET %d. Use the allocation ticks (collect_sample kind=allocation), or the allocation rate (kind=runtime-metrics).")
    :format(pid, version, SINCE), {
    detail = version, process_id = pid, hints = {
      hints.new("collect_sample", "Allocation ticks: a sample about every 100 KB, by type and stack.",
        { kind = "allocation", processId = pid }, "high"),
      hints.new("collect_events", "How much is allocated a second.", { kind = "runtime-metrics", processId = pid }),
    },
  })
end

return M
