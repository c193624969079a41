-- SPDX-License-Identifier: MIT
-- app: puts the program together: reads tools, views, prompts and resources of the product and of the site's folders into the registry.
local config = require("lunette.config")
local errors = require("lunette.errors")
local fs = require("lunette.fs")
local handles = require("lunette.handles")
local kinds = require("lunette.kinds")
local log = require("lunette.log")
local loop = require("lunette.loop")
local playbooks = require("lunette.playbooks")
local redaction = require("lunette.redaction")
local registry = require("lunette.registry")
local resources = require("lunette.resources")
local sys = require("lunette.sys")
local tool = require("lunette.tool")
local view = require("lunette.view")

local M = {}

local SWEEP_MS <const> = 5000
local MAX_SCRIPT <const> = 1024 * 1024
local MAX_FILES <const> = 256

M.tools = {} -- name -> compiled tool, in this process

local function names_of(dir, extension)
  local names = {}
  for _, entry in ipairs(fs.list(dir) or {}) do
    local name = entry:match("^([%w_%+%-]+)%." .. extension .. "$")
    if name and #names < MAX_FILES then names[#names + 1] = name end
  end
  table.sort(names)
  return names
end

local function add_tool(compiled)
  M.tools[compiled.name] = compiled
  registry.add_tool(compiled:definition())
end

-- What a script gave back, into the registry.
local function accept(value, where)
  if tool.is_tool(value) then return add_tool(value) end
  if view.is_view(value) then return view.register(value) end
  if type(value) == "function" then return value(registry) end
  if value == nil or value == true then return nil end
  error(where .. ": must return tool{…}, view{…} or a function(registry)", 0)
end

local function run_script(path)
  local body, err = fs.read(path, MAX_SCRIPT)
  if not body then return nil, err end
  local ours = sys.home .. "/lua/"
  local chunk, syntax = sys.load(body, "@" .. (path:sub(1, #ours) == ours and path:sub(#sys.home + 2) or path))
  if not chunk then return nil, errors.new("Internal", syntax) end
  local ok, why = xpcall(function() accept(chunk(), path) end, debug.traceback)
  if not ok then return nil, errors.new("Internal", tostring(why)) end
  return true
end

local function is_kind(name)
  for _, kind in ipairs(kinds.names()) do
    if kind == name then return true end
  end
  return false
end

-- tools/ and views/KIND/ of a folder. A script that fails is told and left out; the others are loaded.
local function load_folder(dir, failures)
  local function try(path)
    local ok, err = run_script(path)
    if not ok then failures[#failures + 1] = tostring(err.message or err) end
  end
  for _, name in ipairs(names_of(dir .. "/tools", "lua")) do try(dir .. "/tools/" .. name .. ".lua") end
  for _, kind in ipairs(fs.list(dir .. "/views") or {}) do
    for _, name in ipairs(is_kind(kind) and names_of(dir .. "/views/" .. kind, "lua") or {}) do
      try(("%s/views/%s/%s.lua"):format(dir, kind, name))
    end
  end
  return try
end

local function complete_pid(ctx, prefix)
  local has_process, process = pcall(require, "lunette.process")
  return has_process and process.complete and process.complete(ctx, prefix) or {}
end

local function load_prompts(dir)
  local all, err = playbooks.load(dir)
  if not all then return nil, err end
  for name, playbook in pairs(all) do registry.add_prompt(playbooks.definition(name, playbook, complete_pid)) end
  return true
end

-- A site's folder: tools/, views/KIND/, scripts at its top, playbooks/.
local function load_site(dir, failures)
  local try = load_folder(dir, failures)
  for _, name in ipairs(names_of(dir, "lua")) do try(dir .. "/" .. name .. ".lua") end
  if fs.stat(dir .. "/playbooks") then
    local ok, err = load_prompts(dir .. "/playbooks")
    if not ok then failures[#failures + 1] = tostring(err) end
  end
end

--- The folder that holds lua/, playbooks/ and schemas/.
function M.home() return sys.home end

--- The folders of site scripts: those of the configuration, then those of the command line.
---@param cfg table
---@param given string[]
---@return string[]
function M.script_folders(cfg, given)
  local list = {}
  for folder in (cfg:get("LUNETTE_SCRIPTS") or ""):gmatch("[^:]+") do list[#list + 1] = folder end
  for _, folder in ipairs(given) do list[#list + 1] = folder end
  return list
end

--- Loads everything. A script that fails is left out and told in the result and in the log.
---@param options? { config: table, scripts: string[] }
---@return { failures: string[] }
function M.load(options)
  options = options or {}
  local cfg = options.config or config.current()
  config.use(cfg)
  local entries, why = handles.entries_from(cfg:get("Diagnostics:HandleStore:MaxEntries"))
  if why then log.warning("config", why) end
  handles.configure(entries)
  redaction.configure(cfg:get("Diagnostics:RedactionPatterns"))
  local base, failures = M.home(), {}
  collectgarbage("stop") -- what is loaded stays
  load_folder(base .. "/lua", failures)
  local ok, err = load_prompts(base .. "/playbooks")
  if not ok then error(tostring(err), 0) end
  resources.register(registry, base)
  for _, dir in ipairs(options.scripts or {}) do
    if fs.stat(dir) then load_site(dir, failures) else failures[#failures + 1] = "there is no folder " .. dir end
  end
  collectgarbage("restart")
  for _, failure in ipairs(failures) do log.error("scripts", "a script was left out", { error = failure }) end
  return { failures = failures }
end

--- Starts what runs beside requests: drops handles whose time or process has ended.
function M.start()
  local function sweep()
    handles.sweep()
    loop.timer(SWEEP_MS, sweep)
  end
  loop.timer(SWEEP_MS, sweep)
end

return M
