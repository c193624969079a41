-- SPDX-License-Identifier: MIT
--- The registry: tools, prompts and resources for the MCP layer. Definitions are plain tables (docs/registry-api.md); lists are sorted by
--- name; a change calls the listeners. The module itself is the process's registry; `registry.new()` makes another one (for tests).

local atomic = require("lunette.atomic")
local faults = require("lunette.faults")
local guard = require("lunette.guard")
local log = require("lunette.log")
local param_headers = require("lunette.mcp.param_headers")
local uri_template = require("lunette.mcp.uri_template")

local MAX_DEFINITIONS <const> = 1024 -- of one kind
local MAX_NAME <const> = 60          -- some clients hide longer ones

local function require_string(def, field, what)
  if type(def[field]) ~= "string" or def[field] == "" then error(what .. ": '" .. field .. "' must be a non-empty string", 4) end
end

local function check_tool(def)
  require_string(def, "name", "add_tool")
  local what = "add_tool " .. def.name
  if #def.name > MAX_NAME or def.name:find("[^%w_.-]") then error(what .. ": at most 60 of A-Z a-z 0-9 _ - .", 3) end
  require_string(def, "description", what)
  if type(def.handler) ~= "function" then error(what .. ": 'handler' must be a function", 3) end
  if type(def.inputSchema) ~= "table" or def.inputSchema.type ~= "object" then
    error(what .. ": inputSchema must be a table with type = \"object\"", 3)
  end
  local mirrored, why = param_headers.of_schema(def.inputSchema)
  if not mirrored then error(what .. ": " .. why, 3) end
  return { param_headers = mirrored }
end

local function check_prompt(def)
  require_string(def, "name", "add_prompt")
  if type(def.get) ~= "function" then error("add_prompt " .. def.name .. ": 'get' must be a function", 3) end
  return {}
end

local function check_resource(def)
  require_string(def, "uri", "add_resource")
  require_string(def, "name", "add_resource " .. def.uri)
  if type(def.read) ~= "function" then error("add_resource " .. def.uri .. ": 'read' must be a function", 3) end
  return {}
end

local function check_template(def)
  require_string(def, "uriTemplate", "add_template")
  local what = "add_template " .. def.uriTemplate
  require_string(def, "name", what)
  if type(def.read) ~= "function" then error(what .. ": 'read' must be a function", 3) end
  local compiled, why = uri_template.compile(def.uriTemplate)
  if not compiled then error(what .. ": " .. why, 3) end
  return { template = compiled }
end

local told = setmetatable({}, { __mode = "k" }) -- definitions whose `visible` failed, of which the log tells already

--- May the principal see it? What cannot be asked is hidden, and the log says so once.
local function shows(def, principal)
  if def.visible == nil then return true end
  local ok, seen, err = guard.call(def.visible, principal)
  if ok and (seen ~= nil or type(err) ~= "table" or err.kind == "Cancelled") then return seen end
  if not told[def] then
    told[def] = true
    log.error("scripts", "'visible' failed: what it is of is hidden", { what = def.name, error = faults.text(ok and err or seen) })
  end
  return false
end

-- One sorted collection of definitions. `key` is the field that names an entry, `kind` what listeners are told.
local function collection(R, kind, key, check, changed)
  local C = { by_key = {}, extra = {}, sorted = nil, n = 0 }

  -- Puts a definition in, or takes one out (def nil). false: there is no room.
  local put = atomic(function(name, def, extra)
    local n = C.n + (def and 1 or 0) - (C.by_key[name] and 1 or 0)
    if n > MAX_DEFINITIONS then return false end
    C.by_key[name], C.extra[name], C.sorted, C.n = def, extra, nil, n
    R.revision = R.revision + 1
    return true
  end)

  function C.add(def)
    if type(def) ~= "table" then error("a definition must be a table", 3) end
    local extra = check(def)
    if not put(def[key], def, extra) then error("too many " .. kind .. " (at most " .. MAX_DEFINITIONS .. ")", 3) end
    changed(kind)
  end

  --- As add and remove, without telling anybody: for a change of many at once.
  function C.check(def) return check(def) end
  C.put = put

  function C.remove(name)
    if not C.by_key[name] then return false end
    put(name)
    changed(kind)
    return true
  end

  local sort = atomic(function()
    local sorted, hides = {}, false
    for _, def in pairs(C.by_key) do
      sorted[#sorted + 1] = def
      hides = hides or def.visible ~= nil
    end
    table.sort(sorted, function(a, b) return a[key] < b[key] end)
    C.sorted, C.hides = sorted, hides
    return sorted
  end)

  --- All definitions that the principal may see, sorted. The list is shared when nothing is hidden: not to be changed.
  function C.list(principal)
    local sorted = C.sorted or sort()
    if not C.hides then return sorted end
    local seen = {}
    for _, def in ipairs(sorted) do
      if shows(def, principal) then seen[#seen + 1] = def end
    end
    return seen
  end

  return C
end

local function new()
  local R = { revision = 0, shows = shows } -- grows with every change: what caches of lists are checked against
  local listeners, updated_listeners = {}, {}

  local function changed(kind)
    for _, fn in ipairs(listeners) do fn(kind) end
  end
  local tools = collection(R, "tools", "name", check_tool, changed)
  local prompts = collection(R, "prompts", "name", check_prompt, changed)
  local resources = collection(R, "resources", "uri", check_resource, changed)
  local templates = collection(R, "resources", "uriTemplate", check_template, changed)

  R.add_tool, R.remove_tool, R.tools = tools.add, tools.remove, tools.list
  R.add_prompt, R.remove_prompt, R.prompts = prompts.add, prompts.remove, prompts.list
  R.add_resource, R.remove_resource, R.resources = resources.add, resources.remove, resources.list
  R.add_template, R.remove_template, R.templates = templates.add, templates.remove, templates.list
  function R.tool(name) return tools.by_key[name] end
  function R.prompt(name) return prompts.by_key[name] end
  function R.resource(uri) return resources.by_key[uri] end
  function R.template(text) return templates.by_key[text] end

  local by_kind <const> = { tools = tools, prompts = prompts, resources = resources }

  --- Many changes as one: who lists sees either none or all of them; each kind that changed is told once.
  --- @param change { tools?: { add: table[], remove: string[] }, prompts?: …, resources?: … }   add: definitions; remove: names
  function R.update(change)
    local puts, touched = {}, {}
    for kind, c in pairs(by_kind) do
      for _, name in ipairs(change[kind] and change[kind].remove or {}) do puts[#puts + 1] = { c, name } end
      for _, def in ipairs(change[kind] and change[kind].add or {}) do
        local key = kind == "resources" and def.uri or def.name
        puts[#puts + 1] = { c, key, def, c.check(def) }
      end
      if change[kind] and #change[kind].remove + #change[kind].add > 0 then touched[#touched + 1] = kind end
    end
    atomic(function()
      for _, p in ipairs(puts) do p[1].put(p[2], p[3], p[4]) end
    end)()
    table.sort(touched)
    for _, kind in ipairs(touched) do changed(kind) end
  end

  --- The parameters of a tool that modern HTTP clients mirror in headers.
  function R.param_headers(name) return tools.extra[name].param_headers end

  --- The first template (in sorted order) that can produce the URI, and its variables.
  function R.match_template(uri, principal)
    for _, def in ipairs(templates.list(principal)) do
      local vars = uri_template.match(templates.extra[def.uriTemplate].template, uri)
      if vars then return def, vars end
    end
    return nil
  end

  --- fn(kind) after every change; kind is "tools", "prompts" or "resources".
  function R.on_change(fn) listeners[#listeners + 1] = fn end
  --- fn(uri) when the content of a resource changed.
  function R.on_resource_updated(fn) updated_listeners[#updated_listeners + 1] = fn end
  --- Says that the content behind a URI changed: subscribers are told.
  function R.resource_updated(uri)
    for _, fn in ipairs(updated_listeners) do fn(uri) end
  end

  return R
end

local M = new()
M.new = new
return M
