-- SPDX-License-Identifier: MIT
-- lunette call: runs tools in this process: the same engine as the server, for people and for scripts.
local app = require("lunette.app")
local config = require("lunette.config")
local handles = require("lunette.handles")
local json = require("lunette.json")
local loop = require("lunette.loop")
local mcp = require("lunette.mcp")
local options = require("lunette.options")
local render = require("lunette.render")
local scopes = require("lunette.scopes")
local site = require("lunette.site")
local sys = require("lunette.sys")
local terminal = require("lunette.terminal")
local text = require("lunette.text")

local M = {}

M.summary = "run a tool here and now"
M.help = [==[
usage: lunette call TOOL [NAME=VALUE...] [OPTION...] [then TOOL [NAME=VALUE...]]...
       lunette call TOOL --help        what a tool takes
       lunette call                    the tools there are

Runs a tool in this process, with the same engine as the server. A value may be text, a number, true or false, or JSON; a name that is given
several times makes a list. A capture ends with this process: chain questions about it with "then", where handle=@ is the newest handle.

  --json          print what an MCP client gets (one line a call) instead of tables
  --approve       run high-risk calls without showing the preview first; on a terminal critical ones still ask
  --scopes A,B    act as a token with these scopes (default: root)
  --site DIR      a folder of site scripts, above /etc/lunette and ~/.config/lunette; may be given several times
  --config FILE   a Lua configuration file

Exit code: 0 done, 1 the answer is an error or nothing was done, 2 the call cannot be understood.
]==]

local EXIT_OK <const>, EXIT_ERROR <const>, EXIT_USAGE <const> = 0, 1, 2
local KNOWN <const> = {
  ["--json"] = "flag", ["--approve"] = "flag", ["--scopes"] = "value", ["--site"] = "list", ["--scripts"] = "list",
  ["--config"] = "value", ["--help"] = "flag",
}
local STDIN <const>, STDOUT <const>, STDERR <const> = 0, 1, 2

local function complain(message)
  io.stderr:write("lunette call: ", message, "\n")
  return EXIT_USAGE
end

--- Words -> steps: { { tool =, arguments =, words = } }. "then" separates them.
---@return table[]? steps, string? why
function M.parse_steps(words)
  local steps, step = {}, nil
  for _, word in ipairs(words) do
    local name, value = word:match("^([%w_]+)=(.*)$")
    if word == "then" then
      if not step then return nil, '"then" needs a call before it' end
      step = nil
    elseif not step then
      if name then return nil, ("the tool comes first, not %s"):format(word) end
      step = { tool = word, arguments = {}, words = { word } }
      steps[#steps + 1] = step
    elseif not name then
      return nil, ("%s is no NAME=VALUE"):format(text.quote(word))
    else
      local before = step.arguments[name]
      if before == nil then
        step.arguments[name] = value
      else
        step.arguments[name] = json.array(type(before) == "table" and { table.unpack(before) } or { before })
        table.insert(step.arguments[name], value)
      end
      step.words[#step.words + 1] = name .. "=" .. render.quoted(value)
    end
  end
  if step == nil and #steps > 0 then return nil, '"then" needs a call behind it' end
  return steps
end

-- handle=@ is the newest handle of this process.
local function put_handles(arguments)
  local all = handles.list()
  local newest = all[#all]
  for name, value in pairs(arguments) do
    if value == "@" then
      if not newest then return nil, name .. "=@ needs a call before it that made a handle" end
      arguments[name] = newest.id
    end
  end
  return true
end

-- ---- help ---------------------------------------------------------------------------------------------------------------------------

local function list_tools()
  local out = {}
  for _, name in ipairs(text.keys(app.tools)) do
    local description = app.tools[name].description:match("^(.-[%.;])%s") or app.tools[name].description
    out[#out + 1] = ("  %-18s %s"):format(name, (description:gsub(";$", ".")))
  end
  sys.write("usage: lunette call TOOL [NAME=VALUE...]\n\n" .. table.concat(out, "\n")
    .. "\n\n  lunette call TOOL --help tells what a tool takes.\n")
  return EXIT_OK
end

local function default_text(p)
  if not p.default_by_branch then return p.default ~= nil and "default " .. tostring(p.default) or nil end
  local parts = {}
  for _, branch in ipairs(text.keys(p.default_by_branch)) do parts[#parts + 1] = branch .. " " .. tostring(p.default_by_branch[branch]) end
  if #parts > 6 then return nil end
  if p.default ~= nil then parts[#parts + 1] = "else " .. tostring(p.default) end
  return "default " .. table.concat(parts, ", ")
end

local function parameter_lines(p, out)
  local facts = {}
  if p.required then facts[#facts + 1] = "required" end
  facts[#facts + 1] = default_text(p)
  if p.min or p.max then facts[#facts + 1] = ("%s to %s"):format(p.min or "any", p.max or p.max_without_task or "any") end
  out[#out + 1] = ("  %s=%s%s%s"):format(p.name, p.base, p.note and "  " .. p.note or "",
    #facts > 0 and " (" .. table.concat(facts, "; ") .. ")" or "")
  if p.enum then out[#out + 1] = "      one of " .. table.concat(p.enum, ", ") end
  if p.applies_to then out[#out + 1] = "      for " .. table.concat(p.applies_to, ", ") end
end

-- The scopes of a branch; of one whose scopes depend on its arguments, those without any.
local function needs_of(branch)
  local list = (branch.requirement or scopes.requirement(branch.scopes({}, {}))).list
  return #list > 0 and ", needs " .. table.concat(list, " + ") or ""
end

local function branch_lines(compiled, out)
  out[#out + 1] = ""
  out[#out + 1] = compiled.discriminator .. ":"
  for _, value in ipairs(compiled.branch_names) do
    local branch = compiled.branches[value]
    local needs = needs_of(branch)
    local what = branch.missing and "not available: " .. branch.missing or branch.description or ""
    local level = (type(branch.risk) == "function" and "up to " or "") .. branch.static.riskLevel
    out[#out + 1] = ("  %-16s %s risk%s%s"):format(value, level, needs, what ~= "" and "; " .. what or "")
  end
end

--- The help text of a tool, from its declaration.
function M.tool_help(compiled)
  local out = { "usage: lunette call " .. compiled.name .. " [NAME=VALUE...]", "", compiled.description, "" }
  for _, p in ipairs(compiled.params.list) do parameter_lines(p, out) end
  if compiled.discriminator then branch_lines(compiled, out) end
  return table.concat(out, "\n") .. "\n"
end

-- ---- running ------------------------------------------------------------------------------------------------------------------------

-- Asks the person at the terminal; nil when there is none.
local function terminal_elicit()
  if not (sys.isatty(STDIN) and sys.isatty(STDERR)) then return nil end
  return function(params)
    io.stderr:write(params.message, "\nRun it? [y/N] ")
    local line = io.read("l")
    local yes = line and line:lower():match("^%s*y") ~= nil
    return { action = yes and "accept" or "decline", content = yes and { approve = true } or nil }
  end
end

local function run_once(step, run)
  local draw, clear = terminal.progress_bar()
  local asked = { principal = run.principal, on_progress = draw, elicit = terminal_elicit() }
  local result, err = mcp.call_local(step.tool, step.arguments, asked)
  clear()
  if not result then return nil, err end
  local body = result.content[1].text
  local envelope = json.decode(body, true)
  if type(envelope) ~= "table" or envelope.summary == nil then -- a sentence: what --json prints is JSON all the same
    envelope = { summary = body, hints = json.array {} }
    body = json.encode(envelope)
  end
  return { envelope = envelope, body = body, is_error = result.isError }
end

local function run_step(step, run)
  local answer, err = run_once(step, run)
  local approval = answer and answer.envelope.safetyApproval
  if approval and run.approve then
    step.arguments._dotnetDiagnostics = { acknowledgement = approval.requiredAcknowledgement }
    answer, err = run_once(step, run)
  end
  return answer, err
end

local function exit_code(answer)
  local e = answer.envelope
  if e.error then return e.error.kind == "InvalidArgument" and EXIT_USAGE or EXIT_ERROR end
  return (answer.is_error or e.safetyApproval or e.cancelled) and EXIT_ERROR or EXIT_OK
end

-- What a handle from another command cannot do, and what can be done instead.
local function handles_end_here(envelope)
  if not (envelope.error and envelope.error.kind == "HandleNotFound") then return "" end
  return '\nA handle ends with the command that made it. Ask in the same one: lunette call TOOL ... then query_snapshot handle=@\n'
end

local function print_answer(answer, run)
  if run.json then return sys.write(answer.body .. "\n") end
  local e = answer.envelope
  local all = handles.list()
  local page = render.answer(e, {
    style = sys.isatty(STDOUT), previous = table.concat(run.typed, " then "), handle = all[#all] and all[#all].id,
  })
  return sys.write(page .. handles_end_here(e))
end

local function run_steps(steps, run)
  local code = EXIT_OK
  run.typed = {}
  for _, step in ipairs(steps) do
    run.typed[#run.typed + 1] = table.concat(step.words, " ")
    local ok, why = put_handles(step.arguments)
    if not ok then return complain(why) end
    local answer, err = run_step(step, run)
    if not answer then
      io.stderr:write("lunette call: ", tostring(err), "\n")
      return EXIT_ERROR
    end
    print_answer(answer, run)
    code = exit_code(answer)
    if code ~= EXIT_OK then return code end
  end
  return code
end

local function principal_of(opts)
  if not opts.scopes then return nil end
  local list = {}
  for scope in opts.scopes:gmatch("[^,%s]+") do
    if not scopes.known(scope) then
      return nil, ("there is no scope %s.%s"):format(scope, text.did_you_mean(scope, scopes.names()))
    end
    list[#list + 1] = scope
  end
  return scopes.principal("cli", list)
end

--- Runs the command.
---@param args string[]
---@return integer exit_code
function M.main(args)
  local opts, why = options.parse(args, KNOWN)
  if not opts then return complain(why) end
  local principal
  principal, why = principal_of(opts)
  if why then return complain(why) end
  local cfg = config.load({ file = opts.config })
  if cfg.fatal then return complain(cfg.fatal) end
  app.load({ config = cfg, layers = site.layers(cfg, site.given(opts)) })
  loop.on_cleanup(handles.clear)
  handles.outlive_processes()
  if not opts[1] then return list_tools() end
  local steps
  steps, why = M.parse_steps(opts)
  if not steps then return complain(why) end
  for _, step in ipairs(steps) do
    if not app.tools[step.tool] and not require("lunette.registry").tool(step.tool) then
      return complain(("there is no tool %s.%s"):format(step.tool, text.did_you_mean(step.tool, text.keys(app.tools))))
    end
  end
  if opts.help then
    sys.write(M.tool_help(app.tools[steps[1].tool]))
    return EXIT_OK
  end
  return run_steps(steps, { principal = principal, json = opts.json, approve = opts.approve })
end

return M
