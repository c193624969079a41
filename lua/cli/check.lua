-- SPDX-License-Identifier: MIT
-- lunette check: is everything in a folder of site scripts sound; with file and line of what is not.
local config = require("lunette.config")
local declare = require("lunette.declare")
local json = require("lunette.json")
local options = require("lunette.options")
local site = require("lunette.site")
local sys = require("lunette.sys")
local terminal = require("lunette.terminal")

local M = {}

M.summary = "check site scripts: what is broken, misspelt or can never happen"
M.help = [[
usage: lunette check [DIR...] [OPTION...]

Reads all that DIR declares (tools, collectors, views, signals, rules, hints, playbooks, ...) together with the product, as a server would,
and says what is wrong, a line each: FILE:LINE: what, what was expected, and what was probably meant. Nothing is run on a process.
Without DIR: the folders that a server would read (/etc/lunette, ~/.config/lunette, LUNETTE_SITE), and what comes with the program.

  --json         the problems as JSON: [{file, line, message}]
  --config FILE  a Lua configuration file, for LUNETTE_SITE

Exit code: 0 all is sound, 1 something is not, 2 for a wrong command line.
]]

local EXIT_PROBLEMS <const> = 1

local function layers_of(opts)
  if opts[1] then return site.named({ table.unpack(opts) }) end
  return site.layers(config.load({ file = opts.config }), site.given(opts))
end

local function as_json(problems)
  local list = {}
  for i, p in ipairs(problems) do
    list[i] = setmetatable({ file = p.file, line = p.line, field = p.path ~= "" and p.path or nil, message = p.message },
      { __order = { "file", "line", "field", "message" } })
  end
  return json.encode(json.array(list))
end

--- lunette check.
---@param args string[]
function M.main(args)
  local opts, why = options.parse(args, { ["--json"] = "flag", ["--config"] = "value", ["--site"] = "list", ["--scripts"] = "list" })
  if not opts then return terminal.usage("check", why) end
  local layers = layers_of(opts)
  local result = require("lunette.check.run").layers(layers)
  if opts.json then
    sys.write(as_json(result.problems) .. "\n")
  else
    for _, p in ipairs(result.problems) do sys.write(terminal.printable(declare.format(p)) .. "\n") end
    local n = #result.problems
    sys.write(("%d file%s in %d folder%s: %s\n"):format(result.files, result.files == 1 and "" or "s", #layers, #layers == 1 and "" or "s",
      n == 0 and "all is sound" or n == 1 and "1 problem" or n .. " problems"))
  end
  return #result.problems > 0 and EXIT_PROBLEMS or terminal.EXIT_OK
end

return M
