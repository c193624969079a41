-- SPDX-License-Identifier: MIT
--- Loads a directory of site scripts into the registry. Each file ends in `return function(registry) … end`; files are run in the order of
--- their names; a fault names the file and the line.

local fs = require("lunette.fs")
local registry = require("lunette.registry")

local MAX_FILES <const> = 256
local MAX_BYTES <const> = 1024 * 1024

local M = {}

local function failure(message)
  return setmetatable({ kind = "InvalidScript", message = message }, { __tostring = function(e) return e.kind .. ": " .. e.message end })
end

local function script_names(dir)
  local entries, err = fs.list(dir)
  if not entries then return nil, err end
  local names = {}
  for _, entry in ipairs(entries) do
    local name = type(entry) == "table" and entry.name or entry
    if name:sub(-4) == ".lua" then names[#names + 1] = name end
  end
  table.sort(names)
  if #names > MAX_FILES then return nil, failure(dir .. ": more than " .. MAX_FILES .. " scripts") end
  return names
end

local function run_file(path, target)
  local text, err = fs.read(path, MAX_BYTES)
  if not text then return nil, err end
  local chunk, syntax = load(text, "@" .. path, "t")
  if not chunk then return nil, failure(syntax) end
  local ok, define = xpcall(chunk, debug.traceback)
  if not ok then return nil, failure(tostring(define)) end
  if define == nil then return true end -- it spoke to lunette.registry itself
  if type(define) ~= "function" then return nil, failure(path .. ": must return a function(registry)") end
  local defined, why = xpcall(define, debug.traceback, target)
  if not defined then return nil, failure(tostring(why)) end
  return true
end

--- Runs every script of a directory. All that load stay loaded when one fails.
---@param dir string
---@param target? table   another registry than the process's own
---@return integer|nil n_loaded
---@return table? err
function M.load(dir, target)
  local names, err = script_names(dir)
  if not names then return nil, err end
  for _, name in ipairs(names) do
    local ok, why = run_file(dir .. "/" .. name, target or registry)
    if not ok then return nil, why end
  end
  return #names
end

return M
