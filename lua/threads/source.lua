-- SPDX-License-Identifier: MIT
-- Where the threads are: a live process, or a core dump that this request may read.
local errors = require("lunette.errors")
local fs = require("lunette.fs")
local process = require("lunette.process")
local store = require("artifacts.store")

local M = {}

-- What a stop and the memory tell needs no diagnostics socket, and no runtime.
local WITHOUT_SOCKET <const> = { NotADotnetProcess = true, EndpointUnavailable = true }

--- any: the process is taken although nothing is known to be .NET in it, or its socket does not answer.
---@return { process: table?, dump: string?, any: boolean? }?, LunetteError?
function M.of(ctx, args)
  if args.dumpFilePath then
    local path, err = store.readable(ctx, args.dumpFilePath, "dumpFilePath")
    if not path then return nil, err end
    return { dump = path }
  end
  local found, err = process.resolve(ctx, args.processId, { any = true })
  if not found then return nil, err end
  local why_not = found.why_not
  if why_not and not WITHOUT_SOCKET[why_not.kind] then return nil, why_not end
  return { process = found, any = why_not ~= nil or nil }
end

--- The source of a snapshot that was taken, to look at once more. ProcessExited: a live one has ended; the handle stays.
---@return { process: table?, dump: string? }?, LunetteError?
function M.again(artifact)
  if artifact.dump_path then
    if fs.stat(artifact.dump_path) then return { dump = artifact.dump_path } end
    return nil, errors.new("ArtifactNotFound", "The dump that the snapshot was taken of is gone.", { detail = artifact.dump_path })
  end
  local live = artifact.process
  local stat = live and require("lunette.proc").stat(live.pid)
  if not stat or stat.state == "Z" or (live.start_time and stat.start_time ~= live.start_time) then
    return nil, errors.new("ProcessExited", ("Process %d has ended; this view has to look at it once more. The other views of the handle "
      .. "still answer."):format(artifact.process_id), { detail = tostring(artifact.process_id), process_id = artifact.process_id })
  end
  return { process = live }
end

--- The error of a second look, as the view answers it.
function M.explain(artifact, err, thread_id)
  if err.kind == "ProcessNotFound" then err.kind = "ProcessExited" end
  if err.kind == "NotFound" and thread_id then
    return errors.new("ThreadNotFound", ("Thread %d has ended since the snapshot."):format(thread_id), { detail = tostring(thread_id) })
  end
  err.process_id = err.process_id or artifact.process_id
  return err
end

return M
