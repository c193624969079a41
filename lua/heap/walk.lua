-- SPDX-License-Identifier: MIT
-- walk: the heap of a live process or of a core dump, walked by a worker process.
local errors = require("lunette.errors")
local hints = require("lunette.hints")

local M = {}

--- Walks a heap. What it gives is completed by heap.artifact: graph (of lunette.graph), process_id, started_unix_ms, duration_ms, runtime,
--- and where they are known suspend_ms, sizes, sections, warnings. Roots belong to the graph only where `retention` is wanted.
---@param _ctx table
---@param what { process: TargetProcess?, path: string?, retention: boolean, statics: boolean, delegates: boolean, strings: boolean }
---@return table?, table? err
function M.walk(_ctx, what)
  local pid = what.process and what.process.pid
  return nil, errors.not_supported(("inspect_heap(source=%q) is not built yet; source=\"gcdump\" answers types, retained sizes and what "
    .. "keeps an object, without ptrace."):format(pid and "live" or "dump"),
    { hints.new("inspect_heap", "Take a snapshot by the runtime's own events.", { source = "gcdump", processId = pid }, "high") })
end

return M
