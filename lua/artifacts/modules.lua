-- SPDX-License-Identifier: MIT
-- modules: the file of a module of a live process, by its module version id. The runtime maps the modules that it loads from files, so the
-- mappings name them; nothing is attached to.
local artifacts = require("lunette.artifacts")
local errors = require("lunette.errors")
local hints = require("lunette.hints")
local proc = require("lunette.proc")
local process = require("lunette.process")
local symbols = require("lunette.symbols")

local M = {}

local GUID <const> = "^%x%x%x%x%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%x%x%x%x%x%x%x%x$"
local MAX_FILES <const> = 4096
local FOUND <const> = "module-files" -- what is remembered of a process
local MODULES <const> = { dll = true, exe = true, winmd = true }

--- Whether a text is a GUID in its usual form.
function M.is_guid(s) return type(s) == "string" and s:find(GUID) ~= nil end

-- The mapped files that may be modules, with their ids: mvid -> { path, pdb_format, pdb_file }.
local function modules_of(target)
  local maps, err = proc.maps(target.pid)
  if not maps then return nil, err end
  local files, requests = {}, {}
  for _, path in ipairs(maps.files) do
    local suffix = path:match("%.(%w+)$")
    if suffix and MODULES[suffix:lower()] and #files < MAX_FILES then
      files[#files + 1] = path
      requests[#files] = { path = ("/proc/%d/root%s"):format(target.pid, path) }
    end
  end
  local by_mvid = { n = #files }
  for i, module in ipairs(#requests > 0 and symbols.modules(requests) or {}) do
    if module.mvid then by_mvid[module.mvid:lower()] = { path = files[i], pdb_format = module.pdb_format } end
  end
  process.remember(target, FOUND, by_mvid)
  return by_mvid
end

-- What was known a moment ago does not know of a module that was loaded since.
local function look_up(target, mvid)
  local known, err = process.recall(target, FOUND), nil
  if not known or not known[mvid] then known, err = modules_of(target) end
  if not known then return nil, err end
  if known[mvid] then return known[mvid] end
  return nil, errors.new("ArtifactNotFound", ("Process %d has no module %s among the %d that it loaded from files. A module that was "
    .. "loaded from bytes, or that is in a single-file program, has no file: take a dump for it."):format(target.pid, mvid, known.n), {
    detail = "moduleVersionId", hints = {
      hints.new("collect_events", "See which modules it loads.", { kind = "startup", processId = target.pid }),
    },
  })
end

---@class FoundModule
---@field process TargetProcess
---@field mvid string
---@field path string          of the module, as the process sees it
---@field source string        of what was asked for
---@field pdb_path string?     beside the module
---@field pdb_embedded boolean?

--- The file of a module.
---@param ctx table
---@param args { moduleVersionId: string, processId: integer?, asset: "pe"|"pdb" }
---@return FoundModule?, table? err
function M.find(ctx, args)
  local target, err = process.resolve(ctx, args.processId)
  if not target then return nil, err end
  local module
  module, err = look_up(target, args.moduleVersionId:lower())
  if not module then return nil, err end
  local found = { process = target, mvid = args.moduleVersionId:lower(), path = module.path, source = module.path }
  local format = module.pdb_format
  found.pdb_embedded = format and format == "embedded" or nil
  local beside = module.path:gsub("%.%w+$", ".pdb")
  if artifacts.read_of(target.pid, beside, 0, 1) then found.pdb_path = beside end
  if args.asset ~= "pdb" then return found end
  if not found.pdb_path then
    return nil, errors.new("ArtifactNotFound", found.pdb_embedded
      and ("The symbols of %s are inside of the module: fetch asset=\"pe\"."):format(module.path)
      or ("There is no %s beside the module."):format(beside:match("[^/]+$")), { detail = "asset", hints = {} })
  end
  found.source = found.pdb_path
  return found
end

--- A piece of it.
---@param found FoundModule
---@param args { offset: integer, maxBytes: integer }
---@return LunettePiece?, table? err
function M.read(found, args) return artifacts.read_of(found.process.pid, found.source, args.offset, args.maxBytes) end

return M
