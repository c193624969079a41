-- SPDX-License-Identifier: MIT
-- able: whether the runtime of a process writes dumps. CoreCLR does. NativeAOT writes full ones, when it was told at its start that it may
-- have to (seen on 10.0: else it answers E_FAIL, with a createdump beside it too). Mono never does.
local M = {}

M.NATIVE_AOT = "NativeAOT writes full dumps only, and only when it was started with DOTNET_DbgEnableMiniDump=1 and a createdump beside the "
  .. "program (or in DOTNET_DbgCreateDumpToolPath); else take a core file from the host: gcore -o NAME %d"
M.SINGLE_FILE = "a self-contained single-file program writes full dumps only"
M.MONO = "Mono writes no dumps; take a core file from the host: gcore -o NAME %d"

-- Whether it was started so that it writes dumps.
local function prepared(pid)
  for _, line in ipairs(require("lunette.proc").environ(pid) or {}) do
    if line:find("^DOTNET_DbgEnableMiniDump=0*[1-9a-fA-F]") then return true end
  end
  return false
end

--- Whether the runtime is inside of the program. Asked for a small dump, that of 9.0 answers that it is written, writes none, and leaves
--- two forks of the process behind that nobody ends.
---@param pid integer
---@return boolean
function M.is_single_file(pid)
  local maps = require("lunette.proc").maps(pid)
  for _, path in ipairs(maps and maps.files or {}) do
    if path:find("/libcoreclr%.so") then return false end
  end
  return maps ~= nil
end

--- Where a process may write: its own folder for temporary files first.
---@param pid integer
---@return string[]
function M.folders(pid)
  local list = {}
  for _, line in ipairs(require("lunette.proc").environ(pid) or {}) do
    local tmp = line:match("^TMPDIR=(/.+)$")
    if tmp then list[#list + 1] = tmp end
  end
  return table.move({ "/tmp", "/var/tmp", "/dev/shm" }, 1, 3, #list + 1, list)
end

--- Whether a process writes dumps; why not.
---@param pid integer
---@param runtime string?   "CoreClr", "NativeAot", "Mono", else not known
---@return boolean able, string? reason
function M.able(pid, runtime)
  if runtime == "Mono" then return false, M.MONO:format(pid) end
  if runtime ~= "NativeAot" or prepared(pid) then return true end
  return false, M.NATIVE_AOT:format(pid)
end

return M
