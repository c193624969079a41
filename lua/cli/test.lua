-- SPDX-License-Identifier: MIT
-- lunette test: runs the specs of a site in the host, with what it declares loaded as a server would. No .NET is needed.
local app = require("lunette.app")
local bust = require("lunette.testing.busted")
local config = require("lunette.config")
local fs = require("lunette.fs")
local handles = require("lunette.handles")
local log = require("lunette.log")
local loop = require("lunette.loop")
local mini = require("lunette.testing.mini")
local options = require("lunette.options")
local site = require("lunette.site")
local sys = require("lunette.sys")
local terminal = require("lunette.terminal")
local testing = require("lunette.testing")

local M = {}

M.summary = "run the specs of a site's scripts"
M.help = [[
usage: lunette test [DIR] [OPTION...]

Runs DIR/specs/*_spec.lua (busted's describe, it, assert) with what DIR declares loaded, as a server would load it.
require("lunette.testing") gives the specs what they need: rules, collectors, views, signals and playbooks on a recording
(.nettrace) or on made-up readings. Nothing else is needed: no .NET, no server. Specs are yours and run without the limits of
the sandbox; what they test runs within them.
Without DIR: the folders of LUNETTE_SITE and --site, /etc/lunette and ~/.config/lunette.

  --filter PATTERN  only tests whose full name matches this Lua pattern; may be given several times
  --site DIR        further layers below DIR; may be given several times
  --plain           the built-in runner, also where busted (Debian package lua-busted) is installed

Exit code: 0 all passed; 1 a test failed, none ran, or a file of DIR is broken; 2 for a wrong command line.
]]

local KNOWN <const> = { ["--filter"] = "list", ["--site"] = "list", ["--scripts"] = "list", ["--plain"] = "flag", ["--config"] = "value" }

-- require "site.NAME" in a spec: lib/NAME.lua of the layer, as its files have it.
local function give_lib(dir)
  local preload = getmetatable(package.preload) or {}
  preload.__index = function(_, name)
    local short = type(name) == "string" and name:match("^site%.([%w_.%-]+)$")
    local path = short and ("%s/lib/%s.lua"):format(dir, (short:gsub("%.", "/")))
    local body = path and fs.read(path, site.MAX_SCRIPT)
    return body and assert(load(body, "@" .. path, "t")) or nil
  end
  setmetatable(package.preload, preload)
  package.path = ("%s/specs/?.lua;%s"):format(dir, package.path)
end

local function has_specs(dir)
  for _, entry in ipairs(fs.list(dir .. "/specs") or {}) do
    if entry:find("_spec%.lua$") then return true end
    local stat = fs.stat(dir .. "/specs/" .. entry)
    if stat and stat.kind == "directory" then return true end
  end
  return false
end

local function run_specs(dir, opts)
  testing.folder = dir
  give_lib(dir)
  local roots = { dir .. "/specs" }
  local core = not opts.plain and bust.load()
  if core then return bust.run(core, { roots = roots, filter = opts.filter, output = "plainTerminal" }) end
  return mini.run { roots = roots, filter = opts.filter, write = sys.write }
end

-- Loads the layers; what is broken is told. Returns how many problems there are.
local function load_layers(cfg, layers)
  local loaded = app.load { config = cfg, layers = layers }
  local n = 0
  local function tell(message)
    n = n + 1
    io.stderr:write("broken: ", terminal.printable(message), "\n")
  end
  for _, failure in ipairs(loaded.failures) do tell(failure) end
  local problems, doubts = testing.problems()
  for _, problem in ipairs(problems) do tell(problem) end
  for _, doubt in ipairs(doubts) do io.stderr:write("doubtful: ", terminal.printable(doubt), "\n") end
  return n
end

-- The folder under test, and the layers that are loaded.
local function plan(opts, cfg)
  if opts[1] then
    local dir = fs.realpath(opts[1])
    if not dir then return nil, ("there is no folder %s"):format(opts[1]) end
    local layers = site.given(opts)
    layers[#layers + 1] = dir
    return { dir }, site.named(layers)
  end
  local layers, dirs = site.layers(cfg, site.given(opts)), {}
  for _, layer in ipairs(layers) do
    if has_specs(layer.dir) then dirs[#dirs + 1] = layer.dir end
  end
  if #dirs == 0 then return nil, "no site folder has specs; name one: lunette test DIR" end
  return dirs, layers
end

--- lunette test.
---@param args string[]
---@return integer exit_code
function M.main(args)
  local opts, why = options.parse(args, KNOWN)
  if not opts then return terminal.usage("test", why) end
  if #opts > 1 then return terminal.usage("test", "give one folder") end
  local cfg = config.load({ file = opts.config })
  if cfg.fatal then return terminal.usage("test", cfg.fatal) end
  local dirs, layers = plan(opts, cfg)
  if not dirs then return terminal.usage("test", layers) end
  bust.add_paths()
  log.level("error") -- what specs provoke on purpose is theirs
  loop.on_cleanup(handles.clear)
  local ran, failed = 0, load_layers(cfg, layers)
  for _, dir in ipairs(dirs) do
    local seen = run_specs(dir, opts)
    ran, failed = ran + seen.ran, failed + seen.failed
  end
  if ran == 0 then
    io.stderr:write("lunette test: no test ran: specs are ", table.concat(dirs, ", "), "/specs/*_spec.lua\n")
    return terminal.EXIT_FAILURE
  end
  return failed == 0 and terminal.EXIT_OK or terminal.EXIT_FAILURE
end

return M
