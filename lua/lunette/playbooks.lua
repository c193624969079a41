-- SPDX-License-Identifier: MIT
-- playbooks: prompts from Markdown files with a short header. One file is one prompt; its name is the file's (docs/writing-tools.md).
local declare = require("lunette.declare")
local errors = require("lunette.errors")
local fs = require("lunette.fs")
local generation = require("lunette.generation")
local handles = require("lunette.handles")
local json = require("lunette.json")
local kinds = require("lunette.kinds")
local numbers = require("lunette.numbers")
local text = require("lunette.text")

local M = {}

M.MAX_BYTES = 64 * 1024
local MAX_FILES <const> = 64
local MAX_ARGUMENT <const> = 2000 -- bytes of one argument
local HEADER_KEYS <const> = { "title", "description", "arguments" }
local NEEDED <const> = { "title", "description" }

local function parse_argument(line)
  local name, default, description = line:match("^%s+([%w_]+)%s*=%s*(%S+)%s*:%s*(.+)$")
  if not name then name, description = line:match("^%s+([%w_]+)%s*:%s*(.+)$") end
  return name and { name = name, default = default, description = description }
end

-- Header lines -> { title, description, arguments }. report(line, message)
local function parse_header(header, report)
  local out, inside, n = { arguments = {} }, false, 1
  for line in (header .. "\n"):gmatch("(.-)\n") do
    n = n + 1
    local key, value = line:match("^(%w+):%s*(.-)%s*$")
    if key == "arguments" then
      inside = true
    elseif key == "title" or key == "description" then
      out[key], inside = value, false
    elseif key then
      report(n, ("the header has no %s.%s"):format(text.quote(key), text.did_you_mean(key, HEADER_KEYS)))
    elseif not line:match("^%s*$") then
      local argument = inside and parse_argument(line)
      if argument then
        out.arguments[#out.arguments + 1] = argument
      else
        report(n, ("cannot read the header line %q: expected title:, description:, or arguments: and below it, indented, NAME: what it "
          .. "is, or NAME = DEFAULT: what it is"):format(line))
      end
    end
  end
  for _, key in ipairs(NEEDED) do
    if not out[key] then report(1, ("the header needs %s:"):format(key)) end
  end
  return out
end

-- ---- expressions --------------------------------------------------------------------------------------------------------------------

-- {{WORD:REST}}: facts of what is installed and of what was captured. Each gives a text, "" when there is nothing.
local FACTS = {}

--- {{handle:KIND}}: the newest living handle of that kind.
FACTS.handle = {
  words = function() return kinds.names() end,
  value = function(kind)
    local entry = handles.latest(kind)
    return entry and entry.id or ""
  end,
}

--- {{views:KIND}}: the views of a kind of handle.
FACTS.views = {
  words = function() return kinds.names() end,
  value = function(kind)
    local found = kinds.get(kind)
    return found and table.concat(found.view_names, ", ") or ""
  end,
}

-- The rules of this generation by their names.
local function rules()
  return generation.current():derived("playbooks.rules", function(g)
    local map = {}
    for _, rule in ipairs(g:list("rules")) do
      local known = declare.of(rule)
      local declared = known and known.declared or rule
      if type(declared.name) == "string" then map[declared.name] = declared end
    end
    return map
  end)
end

--- {{rule:NAME}}, {{rule:NAME/FIELD}}, {{rule:NAME/levels.elevated}}: what a rule says.
FACTS.rule = {
  words = function()
    local list = {}
    for name in pairs(rules()) do list[#list + 1] = name end
    return list
  end,
  value = function(what)
    local name, path = what:match("^([^/]+)/?(.*)$")
    local value = rules()[name]
    for key in (path ~= "" and path or "summary"):gmatch("[^.]+") do
      if type(value) ~= "table" then return "" end
      value = value[key] == nil and value[math.tointeger(tonumber(key))] or value[key]
    end
    return (type(value) == "string" or type(value) == "number") and tostring(value) or ""
  end,
}

--- {{#can:TOOL}}…{{/can:TOOL}}, {{#can:TOOL/WORD}}…: when this build has the tool, and can do what the word of its discriminator says. So a
--- playbook walks through calls that work here, and through others ({{^can:…}}) where they do not.
FACTS.can = {
  value = function(what)
    local name, word = what:match("^([^/]+)/?(.*)$")
    local tool = generation.current().tools[name]
    local branch = tool and (word == "" and tool or tool.branches and tool.branches[word])
    return branch and not branch.missing and "yes" or ""
  end,
}

local EXPRESSION <const> = "{{([#^/]?)([%w_]+:?[%w_.+/%-]*)}}"

local function line_of(body, at)
  local _, n = body:sub(1, at - 1):gsub("\n", "")
  return n + 1
end

local function names_of(playbook)
  local names = { "pid" }
  for _, argument in ipairs(playbook.arguments) do names[#names + 1] = argument.name end
  return names
end

-- What is wrong with the name in an expression; nil when nothing is. Facts are only checked when `facts` is true: they are of a generation.
local function bad_name(name, names, facts)
  local word, rest = name:match("^([%w_]+):(.*)$")
  if not word then
    for _, known in ipairs(names) do
      if known == name then return nil end
    end
    return ("there is no argument %s.%s"):format(text.quote(name), text.did_you_mean(name, names))
  end
  if not FACTS[word] then
    return ("there is no expression {{%s:…}}.%s"):format(word, text.did_you_mean(word, text.keys(FACTS)))
  end
  if not facts or not FACTS[word].words then return nil end
  local words, wanted = FACTS[word].words(), rest:match("^[^/]+") or ""
  for _, known in ipairs(words) do
    if known == wanted then return nil end
  end
  return ("there is no %s %s.%s"):format(word, text.quote(wanted), text.did_you_mean(wanted, words))
end

-- report(line, message) for every expression that cannot be read.
local function check_expressions(playbook, report, facts)
  local body, names, open = playbook.text, names_of(playbook), {}
  local function line_at(at) return line_of(body, at) + playbook.first_line - 1 end -- only asked for what is wrong
  for at, mark, name in body:gmatch("()" .. EXPRESSION) do
    local why = bad_name(name, names, facts)
    if why then report(line_at(at), why) end
    if mark == "/" then
      local last = table.remove(open)
      if not last or last.name ~= name then
        report(line_at(at), last and ("{{/%s}} ends what {{#%s}} began in line %d"):format(name, last.name, line_at(last.at))
          or ("{{/%s}} ends what nothing began"):format(name))
      end
    elseif mark ~= "" then
      open[#open + 1] = { name = name, at = at }
    end
  end
  for _, left in ipairs(open) do report(line_at(left.at), ("{{#%s}} has no {{/%s}}"):format(left.name, left.name)) end
  for at, inner in body:gmatch("(){{(.-)}}") do
    if not ("{{" .. inner .. "}}"):find("^" .. EXPRESSION .. "$") then
      report(line_of(body, at) + playbook.first_line - 1, ("cannot read {{%s}}: expected {{name}}, {{#name}}…{{/name}}, "
        .. "{{^name}}…{{/name}}, {{handle:KIND}}, {{views:KIND}}, {{rule:NAME/FIELD}} or {{#can:TOOL/WORD}}…"):format(inner))
    end
  end
end

local function collector_of(where)
  local problems = {}
  return problems, function(line, message) problems[#problems + 1] = { file = where, line = line, message = message } end
end

--- Reads a playbook: a header between two lines of ---, then the text.
---@param body string
---@param where string   for messages
---@return table? playbook   { title, description, arguments = {{name, default?, description}}, text, first_line }
---@return Problem[]? problems
function M.read(body, where)
  local problems, report = collector_of(where)
  body = body:gsub("\r\n", "\n")
  local header, rest = body:match("^%-%-%-\n(.-)\n%-%-%-\n(.*)$")
  if not header then
    report(1, "must begin with a header between two lines of ---")
    return nil, problems
  end
  local playbook = parse_header(header, report)
  playbook.text, playbook.first_line = rest, line_of(header, #header + 1) + 3
  if #problems == 0 then check_expressions(playbook, report, false) end
  if #problems > 0 then return nil, problems end
  return playbook
end

--- As read, with one error.
---@return table? playbook, table? err
function M.parse(body, where)
  local playbook, problems = M.read(body, where)
  if playbook then return playbook end
  return nil, errors.new("InvalidArgument", declare.format(problems[1]))
end

-- An argument as it is put in: one line, bounded.
local function clean(value) return (tostring(value):gsub("%c+", " "):sub(1, MAX_ARGUMENT)) end

-- Sections, the innermost first: {{#name}}…{{/name}} when there is something, {{^name}}…{{/name}} when not.
local function sections(body, value_of)
  local changed = true
  while changed do
    changed = false
    local from = 1
    while true do
      local s, e, mark, name = body:find("{{([#^])([%w_]+:?[%w_.+/%-]*)}}", from)
      if not s then break end
      local close_s, close_e = body:find("{{/" .. name .. "}}", e + 1, true)
      local inner = close_s and body:sub(e + 1, close_s - 1)
      if inner and not inner:find("{{[#^]") then
        local keep = (value_of(name, true) ~= "") == (mark == "#")
        body = body:sub(1, s - 1) .. (keep and inner or "") .. body:sub(close_e + 1)
        changed, from = true, s
      else
        from = e + 1
      end
    end
  end
  return body
end

--- The text with its arguments put in: {{name}}, {{#name}}…{{/name}} when given, {{^name}}…{{/name}} when not, {{pid}}; and with what is
--- installed and captured: {{handle:KIND}}, {{views:KIND}}, {{rule:NAME/FIELD}}.
---@param playbook table
---@param given table<string, string>
function M.render(playbook, given)
  local values = {}
  for _, argument in ipairs(playbook.arguments) do
    local value = given[argument.name]
    if value ~= nil and value ~= "" then values[argument.name] = clean(value) else values[argument.name] = argument.default end
  end
  local function has(name) return given[name] ~= nil and given[name] ~= "" end
  values.pid = has("processId") and ", processId=" .. values.processId or ""
  local function value_of(name, for_section)
    local word, rest = name:match("^([%w_]+):(.*)$")
    if word then return FACTS[word] and FACTS[word].value(rest) or "" end
    if for_section then return has(name) and "x" or "" end
    return values[name] or ""
  end
  local body = sections(playbook.text, value_of)
  return (body:gsub("{{([%w_]+:?[%w_.+/%-]*)}}", function(name) return value_of(name) end):gsub("\n\n\n+", "\n\n"))
end

local function is_number(name) return name == "processId" or name:find("Seconds$") ~= nil end

-- Arguments of numbers must be numbers: they end up in tool calls.
local function check(playbook, given)
  for _, argument in ipairs(playbook.arguments) do
    local value = given[argument.name]
    if value and value ~= "" and is_number(argument.name) and not (value:match("^%d+$") and numbers.parse_address(value)) then
      return nil, errors.protocol(-32602, ("argument '%s' must be a whole number"):format(argument.name))
    end
  end
  return true
end

--- The registry's definition of a playbook. complete_pid(ctx, prefix) -> list of process ids, or nil.
function M.definition(name, playbook, complete_pid)
  local arguments = {}
  for i, argument in ipairs(playbook.arguments) do
    local note = argument.default and (" Default %s."):format(argument.default) or ""
    arguments[i] = {
      name = argument.name, description = argument.description .. note, required = false,
      complete = argument.name == "processId" and complete_pid or nil,
    }
  end
  return {
    name = name, title = playbook.title, description = playbook.description, arguments = arguments,
    get = function(_, given)
      local ok, err = check(playbook, given or {})
      if not ok then return nil, err end
      local content = { type = "text", text = M.render(playbook, given or {}), annotations = { audience = json.array({ "assistant" }) } }
      return { description = playbook.description, messages = json.array({ { role = "user", content = content } }) }
    end,
  }
end

local function names_in(dir)
  local entries, err = fs.list(dir)
  if not entries then return nil, err end
  local names = {}
  for _, entry in ipairs(entries) do
    local name = entry:match("^([%w_%-]+)%.md$")
    if name then names[#names + 1] = name end
  end
  table.sort(names)
  for i = #names, MAX_FILES + 1, -1 do names[i] = nil end
  return names
end

--- All playbooks of a folder: name -> playbook.
---@param dir string
---@return table<string, table>? playbooks, table? err
function M.load(dir)
  local names, err = names_in(dir)
  if not names then return nil, err end
  local all = {}
  for _, name in ipairs(names) do
    local body
    body, err = fs.read(dir .. "/" .. name .. ".md", M.MAX_BYTES)
    if not body then return nil, err end
    all[name], err = M.parse(body, dir .. "/" .. name .. ".md")
    if not all[name] then return nil, err end
  end
  return all
end

--- The tool calls that a text contains: { tool, names of arguments, text, at }.
function M.calls(body)
  local list = {}
  for at, tool, inner in body:gmatch("()%f[%w_]([%l]+_[%l_]+)(%b())") do
    local names, bare = {}, inner:gsub("\"[^\"]*\"", "\"\"")
    for name in bare:gmatch("(%w+)%s*[=<]") do names[#names + 1] = name end
    list[#list + 1] = { tool = tool, names = names, text = tool .. inner, at = at }
  end
  return list
end

-- Whether a call stands in a section that is there only with its tool.
local function asks_first(playbook, call)
  local before, open = playbook.text:sub(1, call.at - 1), 0
  for mark, tool in before:gmatch("{{([#/])can:([%w_]+)[%w_/%-]*}}") do
    if tool == call.tool then open = open + (mark == "#" and 1 or -1) end
  end
  return open > 0
end

local function check_call(call, tools, report, playbook)
  local tool = tools[call.tool]
  if not tool and asks_first(playbook, call) then return end
  if not tool then return report(("there is no tool %s.%s"):format(call.tool, text.did_you_mean(call.tool, text.keys(tools)))) end
  for _, name in ipairs(call.names) do
    if not tool.params.by_name[name] then
      report(("%s has no parameter %s.%s"):format(call.tool, text.quote(name), text.did_you_mean(name, tool.params.names)))
    end
  end
  local p = tool.discriminator and tool.params.by_name[tool.discriminator]
  local word = p and call.text:match(p.name .. '%s*=%s*"([^"{}]+)"')
  if word and tool.branches and not tool.branches[word] then
    report(("%s has no %s %s.%s"):format(call.tool, p.name, text.quote(word), text.did_you_mean(word, tool.branch_names)))
  end
end

--- What is wrong with a playbook in a generation: facts that are not there, calls of tools that are none or with parameters that they
--- do not have.
---@param playbook table
---@param where string
---@param tools table<string, table>
---@return Problem[]
function M.check(playbook, where, tools)
  local problems, report = collector_of(where)
  check_expressions(playbook, report, true)
  for _, call in ipairs(M.calls(playbook.text)) do
    check_call(call, tools, function(message) report(line_of(playbook.text, call.at) + playbook.first_line - 1, message) end, playbook)
  end
  return problems
end

return M
