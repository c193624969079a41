-- SPDX-License-Identifier: MIT
-- playbooks: prompts from Markdown files with a short header. One file is one prompt; its name is the file's (docs/writing-tools.md).
local errors = require("lunette.errors")
local fs = require("lunette.fs")
local json = require("lunette.json")
local numbers = require("lunette.numbers")

local M = {}

local MAX_BYTES <const> = 64 * 1024
local MAX_FILES <const> = 64
local MAX_ARGUMENT <const> = 2000 -- bytes of one argument

local function parse_argument(line)
  local name, default, description = line:match("^%s+([%w_]+)%s*=%s*(%S+)%s*:%s*(.+)$")
  if not name then name, description = line:match("^%s+([%w_]+)%s*:%s*(.+)$") end
  return name and { name = name, default = default, description = description }
end

-- Header lines -> { title, description, arguments }.
local function parse_header(header, where)
  local out, inside = { arguments = {} }, false
  for line in (header .. "\n"):gmatch("(.-)\n") do
    local key, value = line:match("^(%w+):%s*(.-)%s*$")
    if line:match("^%s*$") then
      inside = inside and true
    elseif key == "arguments" then
      inside = true
    elseif key == "title" or key == "description" then
      out[key], inside = value, false
    else
      local argument = inside and parse_argument(line)
      if not argument then return nil, errors.new("InvalidArgument", ("%s: cannot read the header line %q"):format(where, line)) end
      out.arguments[#out.arguments + 1] = argument
    end
  end
  if not out.title or not out.description then
    return nil, errors.new("InvalidArgument", where .. ": the header needs title and description")
  end
  return out
end

--- Reads a playbook: header between two lines of ---, then the text.
---@param body string
---@param where string   for messages
---@return table? playbook   { title, description, arguments = {{name, default?, description}}, text }
---@return table? err
function M.parse(body, where)
  body = body:gsub("\r\n", "\n")
  local header, text = body:match("^%-%-%-\n(.-)\n%-%-%-\n(.*)$")
  if not header then return nil, errors.new("InvalidArgument", where .. ": must begin with a header between two lines of ---") end
  local playbook, err = parse_header(header, where)
  if not playbook then return nil, err end
  playbook.text = text
  return playbook
end

-- An argument as it is put in: one line, bounded.
local function clean(value) return (tostring(value):gsub("%c+", " "):sub(1, MAX_ARGUMENT)) end

--- The text with its arguments put in: {{name}}, {{#name}}…{{/name}} when given, {{^name}}…{{/name}} when not, {{pid}}.
---@param playbook table
---@param given table<string, string>
function M.render(playbook, given)
  local values = {}
  for _, argument in ipairs(playbook.arguments) do
    local value = given[argument.name]
    if value ~= nil and value ~= "" then values[argument.name] = clean(value) else values[argument.name] = argument.default end
  end
  local function has(name) return given[name] ~= nil and given[name] ~= "" end
  local text = playbook.text
  text = text:gsub("{{#(%w+)}}(.-){{/%1}}", function(name, part) return has(name) and part or "" end)
  text = text:gsub("{{%^(%w+)}}(.-){{/%1}}", function(name, part) return has(name) and "" or part end)
  values.pid = has("processId") and ", processId=" .. values.processId or ""
  return (text:gsub("{{(%w+)}}", function(name) return values[name] or "" end):gsub("\n\n\n+", "\n\n"))
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
    body, err = fs.read(dir .. "/" .. name .. ".md", MAX_BYTES)
    if not body then return nil, err end
    all[name], err = M.parse(body, dir .. "/" .. name .. ".md")
    if not all[name] then return nil, err end
  end
  return all
end

--- The tool calls that a text contains: { tool, argument names }.
function M.calls(text)
  local list = {}
  for tool, inner in text:gmatch("%f[%w_]([%l]+_[%l_]+)(%b())") do
    local names = {}
    for name in inner:gmatch("(%w+)%s*[=<]") do names[#names + 1] = name end
    list[#list + 1] = { tool = tool, names = names, text = tool .. inner }
  end
  return list
end

return M
