-- SPDX-License-Identifier: MIT
-- info: the record of one process; a process that is gone or out of reach is no error, its record is absent.
local hints = require("lunette.hints")
local process = require("lunette.process")

local M = {}

local ABSENT <const> = { ProcessNotFound = true, NotADotnetProcess = true, EndpointUnavailable = true }

--- inspect_process(view="info").
function M.run(ctx, args)
  local target, err = process.resolve(ctx, args.processId)
  if target then
    local record = target.record
    return { view = "info", info = record }, {
      summary = ("Process %d: %s on .NET %s."):format(target.pid, record.managedEntrypointAssemblyName or record.commandLine,
        record.runtimeVersion),
      process = target,
      hints = { hints.new("collect_events", "Read its counters.", { kind = "counters", durationSeconds = 5, processId = target.pid }) },
    }
  end
  if not ABSENT[err.kind] then return nil, err end
  local summary = tostring(err.message or err)
  if err.kind ~= "EndpointUnavailable" then -- whose message begins with this already
    summary = ("Process %d is no .NET process that can be reached: %s"):format(args.processId, summary)
  end
  return { view = "info" }, {
    summary = summary,
    hints = {
      hints.new("inspect_process", "See which .NET processes can be reached.", { view = "list" }),
      hints.new("inspect_process", "Find what is in the way, with the fix.", { view = "preflight", processId = args.processId }),
    },
  }
end

return M
