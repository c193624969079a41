-- SPDX-License-Identifier: MIT
-- asking: commands of a person that call tools. What such a command does is what its help says, so a high-risk call needs no second
-- question; progress goes to the terminal.
local app = require("lunette.app")
local config = require("lunette.config")
local handles = require("lunette.handles")
local json = require("lunette.json")
local loop = require("lunette.loop")
local mcp = require("lunette.mcp")
local options = require("lunette.options")
local site = require("lunette.site")
local terminal = require("lunette.terminal")

local M = {}

local function once(name, arguments)
  local draw, clear = terminal.progress_bar()
  local result, err = mcp.call_local(name, arguments, { on_progress = draw })
  clear()
  if not result then return nil, { message = tostring(err) } end
  local answer = json.decode(result.content[1].text, true)
  if type(answer) ~= "table" then return nil, { message = tostring(result.content[1].text) } end
  if answer.error then return nil, answer.error end
  return answer
end

--- Calls a tool as a client would, and acknowledges its risk.
---@param name string
---@param arguments table<string, any>
---@return table? envelope, table? err
function M.ask(name, arguments)
  local answer, err = once(name, arguments)
  if answer and answer.safetyApproval then
    arguments._dotnetDiagnostics = { acknowledgement = answer.safetyApproval.requiredAcknowledgement }
    answer, err = once(name, arguments)
  end
  return answer, err
end

--- The main function of a command that captures something and shows it.
---@param name string
---@param known table<string, string>   its options, as of lunette.options; among them --json, --site, --scripts and --config
---@param plan_of fun(opts: table): table?, string?        what is to be done; nil and why for a wrong command line
---@param run fun(plan: table, as_json: boolean?): true?, table?   does it and prints; nil and the error
---@return fun(args: string[]): integer   the exit code
function M.command(name, known, plan_of, run)
  return function(args)
    local opts, why = options.parse(args, known)
    if not opts then return terminal.usage(name, why) end
    local plan
    plan, why = plan_of(opts)
    if not plan then return terminal.usage(name, why) end
    local cfg = config.load({ file = opts.config })
    if cfg.fatal then return terminal.usage(name, cfg.fatal) end
    app.load({ config = cfg, layers = site.layers(cfg, site.given(opts)) })
    loop.on_cleanup(handles.clear)
    handles.outlive_processes()
    local ok, err = run(plan, opts.json)
    if not ok then return terminal.fail(name, err) end
    return terminal.EXIT_OK
  end
end

return M
