-- SPDX-License-Identifier: MIT
-- What the files of a capture's modules tell: the version id of each module, and file and line of its hottest methods.
local fs = require("lunette.fs")
local loop = require("lunette.loop")
local symbol_path = require("samplers.symbol_path")
local symbols = require("lunette.symbols")

local M = {}

M.MAX_MODULES = 4096
M.TIMEOUT_MS = 20000 -- for symbol servers, all together
local NS_PER_MS <const> = 1e6

local function since(ns) return (loop.now_ns() - ns) / NS_PER_MS end

-- The file of a module as we can open it: in the root of a process that lives, which may be a container's.
local function file_of(module, live)
  if not module.path or module.path:sub(1, 1) ~= "/" then return nil end
  local inside = live and ("/proc/%d/root%s"):format(live.pid, module.path)
  return inside and fs.stat(inside) and inside or module.path
end

-- Where the file of a module would be that lies in a bundle (single-file): its PDB is beside the bundle. Nil where another file is there.
local function place_of(module, live)
  if not module.path or module.path:sub(1, 1) ~= "/" or not module.pdb_guid then return nil end
  local path = live and ("/proc/%d/root%s"):format(live.pid, module.path) or module.path
  return not fs.stat(path) and not fs.stat(module.path) and path or nil
end

-- Whether the file is the one that was loaded, as far as both tell the id of their PDB.
local function is_same(module, found)
  return not module.pdb_guid or not found.pdb_guid or module.pdb_guid:lower() == found.pdb_guid
end

-- What a look-up found. One that was ended, or had no room, takes nothing away from the capture.
local function answers(artifact, found, err)
  if found then return found end
  artifact.notes[#artifact.notes + 1] = "SymbolsNotRead: " .. tostring(err and err.message or err)
  return {}
end

--- Adds the version id of each module, as `mvid`, and its file, as `file`, where the file is here and the same. Milliseconds that it took.
---@param artifact SampleArtifact
---@param live TargetProcess?
---@return number
function M.modules(artifact, live)
  local began, requests, of = loop.now_ns(), {}, {}
  for _, module in ipairs(artifact.modules) do
    local path = #requests < M.MAX_MODULES and file_of(module, live) or nil
    if path then
      requests[#requests + 1] = { path = path }
      of[#requests] = module
    end
  end
  for i, found in ipairs(answers(artifact, symbols.modules(requests))) do
    if found.mvid and is_same(of[i], found) then of[i].mvid, of[i].file = found.mvid, requests[i].path end
  end
  return since(began)
end

-- The hottest address of a frame that tells its IL offset.
local function il_offset_of(frame)
  for _, at in ipairs(frame.addresses or {}) do
    if at.il_offset then return at.il_offset end
  end
  return nil
end

-- The frames that get a line: the first ones by inclusive samples, and as many by their own.
local function wanted(artifact, max)
  local list, seen = {}, {}
  for _, rows in ipairs { artifact.hotspots, artifact.profile:top_methods { top = max, rank_by = "exclusive" } } do
    for i = 1, math.min(max, #rows) do
      local n = rows[i].frame
      if not seen[n] then list[#list + 1], seen[n] = n, true end
    end
  end
  return list
end

local function request_of(artifact, n, live)
  local frame = artifact.profile:frame(n)
  local module = frame.module_index and artifact.modules[frame.module_index]
  if not module or not frame.token or frame.token == 0 or not (module.file or module.pdb_guid) then return nil end
  return {
    path = module.file or place_of(module, live), mvid = module.file and module.mvid or nil,
    pdb_guid = module.pdb_guid, pdb_age = module.pdb_age,
    pdb_path = module.pdb_path, token = frame.token, il_offset = il_offset_of(frame),
  }
end

local function lines(ctx, artifact, args, live)
  local requests, frames = {}, {}
  for _, n in ipairs(wanted(artifact, args.maxResolvedSources)) do
    local request = request_of(artifact, n, live)
    if request then requests[#requests + 1], frames[#requests + 1] = request, n end
  end
  artifact.sources = {}
  local options = {
    search = symbol_path.of_caller(ctx, args.symbolPath), search_2 = symbol_path.of_operator(), timeout_ms = M.TIMEOUT_MS,
  }
  for i, at in ipairs(answers(artifact, symbols.lines(requests, options))) do
    if at.file then
      artifact.sources[frames[i]] = { file = at.file, line = at.line, start_line = at.start_line, end_line = at.end_line, url = at.url }
    end
  end
end

--- Adds version ids, and lines of the hottest methods when they are asked for; what both took.
---@param ctx table
---@param artifact SampleArtifact   with hotspots
---@param args { resolveSourceLines: boolean, maxResolvedSources: integer, symbolPath: string? }
---@param live TargetProcess?
---@return { modules_ms: number, lines_ms: number }
function M.add(ctx, artifact, args, live)
  local took = { modules_ms = M.modules(artifact, live), lines_ms = 0 }
  if not args.resolveSourceLines then return took end
  local began = loop.now_ns()
  lines(ctx, artifact, args, live)
  took.lines_ms = since(began)
  return took
end

return M
