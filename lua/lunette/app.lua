-- SPDX-License-Identifier: MIT
-- app: puts the program together: builds the first generation of what the product and the layers above it declare, hands it to the MCP
-- layer, and lets changes of the layers follow.
local build = require("lunette.generation.build")
local config = require("lunette.config")
local fs = require("lunette.fs")
local generation = require("lunette.generation")
local handles = require("lunette.handles")
local kinds = require("lunette.kinds")
local log = require("lunette.log")
local loop = require("lunette.loop")
local publish = require("lunette.generation.publish")
local redaction = require("lunette.redaction")
local registry = require("lunette.registry")
local resources = require("lunette.resources")
local site = require("lunette.site")

local M = {}

local SWEEP_MS <const>, PROBES_MS <const>, FORKS_MS <const> = 5000, 500, 60000

--- The tools of the call's generation, by name.
M.tools = setmetatable({}, {
  __index = function(_, name) return generation.current().tools[name] end,
  __pairs = function() return pairs(generation.current().tools) end,
})

--- The folder that holds lua/, playbooks/ and schemas/.
function M.home() return site.PRODUCT.dir end

-- Named layers that are not there.
local function absent(layers, failures)
  for _, layer in ipairs(layers) do
    if layer.named and not fs.stat(layer.dir) then failures[#failures + 1] = "there is no folder " .. layer.dir end
  end
end

--- Loads everything. What is broken is left out, told in the result and in the log.
---@param options? { config: table, layers: (string|Layer)[] }   layers above the product, as lunette.site.layers gives them
---@return { failures: string[], generation: Generation }
function M.load(options)
  options = options or {}
  local cfg = options.config or config.current()
  config.use(cfg)
  local entries, why = handles.entries_from(cfg:get("Diagnostics:HandleStore:MaxEntries"))
  if why then log.warning("config", why) end
  handles.configure(entries)
  redaction.configure(cfg:get("Diagnostics:RedactionPatterns"))
  kinds.use(generation.current)
  local layers, failures = site.named(options.layers or {}), {}
  table.insert(layers, 1, site.PRODUCT)
  collectgarbage("stop") -- what is loaded stays
  local ok, first = xpcall(build.build, debug.traceback, layers)
  collectgarbage("restart")
  if not ok then error(first, 0) end
  publish.to(first, registry)
  resources.register(registry, M.home())
  absent(layers, failures)
  publish.report(first, nil)
  for _, failure in ipairs(failures) do log.error("scripts", failure) end
  for _, p in ipairs(first.problems) do failures[#failures + 1] = require("lunette.declare").format(p) end
  return { failures = failures, generation = first }
end

--- Starts what runs beside requests: drops handles whose time or process has ended, and lets changes of the layers follow.
function M.start()
  local function sweep()
    handles.sweep()
    loop.timer(SWEEP_MS, sweep)
  end
  loop.timer(SWEEP_MS, sweep)
  loop.timer(PROBES_MS, function() require("lunette.hits").sweep() end)
  local function forks() -- again, as one may write for minutes yet
    require("dumps.forks").sweep()
    loop.timer(FORKS_MS, forks)
  end
  loop.timer(PROBES_MS, forks)
  require("lunette.generation.reload").start(registry)
  require("artifacts.reaper").start()
end

return M
