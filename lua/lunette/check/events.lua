-- SPDX-License-Identifier: MIT
-- Are the events and fields of a program known? Of the providers of the runtime itself all of them are; what an EventSource of an
-- application writes only its events tell.
local fs = require("lunette.fs")
local json = require("lunette.json")
local sys = require("lunette.sys")
local text = require("lunette.text")

local M = {}

local MAX_MANIFEST <const> = 8 * 1024 * 1024
-- Names of well-known sources, for a misspelt one.
local SOURCES <const> = {
  "System.Runtime", "System.Threading.Tasks.TplEventSource", "System.Buffers.ArrayPoolEventSource", "System.Net.Http",
  "System.Net.Sockets", "System.Net.NameResolution", "System.Net.Security", "System.Diagnostics.Metrics",
  "Microsoft-Diagnostics-DiagnosticSource", "Microsoft.AspNetCore.Hosting", "Microsoft-AspNetCore-Server-Kestrel",
  "Microsoft.AspNetCore.Http.Connections", "Microsoft-Extensions-Logging", "Microsoft.Data.SqlClient.EventSource",
  "Microsoft.EntityFrameworkCore", "Microsoft-Extensions-DependencyInjection",
}
local WORDS <const> = {
  ["and"] = true, ["or"] = true, ["not"] = true, ["true"] = true, ["false"] = true, ["null"] = true,
}

-- provider in small letters -> { name, events = { name or display in small letters -> { field -> true } }, names }
local manifest

-- Names that only a version has which no runtime of today sends, and what all versions are called.
local function old_names(events)
  local newest, old = {}, {}
  for _, event in ipairs(events) do
    local display = event.display or event.name
    newest[display] = math.max(newest[display] or 0, event.version)
  end
  for _, event in ipairs(events) do
    local is_old = event.version == 0 and event.display and newest[event.display] > 0
    if is_old and event.name ~= event.display then old[event.name:lower()] = event.display end
  end
  return old
end

local function load_manifest()
  if manifest then return manifest end
  manifest = {}
  local body = fs.read(sys.home .. "/schemas/clr-events.json", MAX_MANIFEST)
  for _, provider in ipairs(body and json.decode(body).providers or {}) do
    if #provider.events == 0 then goto next_one end -- an EventSource: its events describe themselves
    local one = { name = provider.name, events = {}, names = {}, old = old_names(provider.events) }
    for _, event in ipairs(provider.events) do
      for _, name in ipairs({ event.name, event.display, event.version > 0 and ("%s_V%d"):format(event.name, event.version) or nil }) do
        local fields = one.events[name:lower()]
        if not fields then
          fields = {}
          one.events[name:lower()] = fields
          one.names[#one.names + 1] = name
        end
        for _, field in ipairs(event.fields) do fields[field.name] = true end
      end
    end
    manifest[provider.name:lower()] = one
    ::next_one::
  end
  return manifest
end

local function provider_names()
  local names = { table.unpack(SOURCES) }
  for _, one in pairs(load_manifest()) do names[#names + 1] = one.name end
  return names
end

-- A name that is none of the known ones, but nearly one of them.
local function misspelt(name)
  if load_manifest()[name:lower()] then return nil end
  for _, known in ipairs(SOURCES) do
    if known:lower() == name:lower() then return nil end
  end
  local near = text.nearest(name, provider_names())
  if not near or math.abs(#near - #name) > 2 or near:sub(1, 4):lower() ~= name:sub(1, 4):lower() then return nil end
  return near
end

--- The fields of a pattern "PROVIDER/EVENT": a set; false when they cannot be known; nil and what is wrong.
local function fields_of(pattern)
  local provider, event = pattern:match("^([^/]+)/(.+)$")
  local known = provider and load_manifest()[provider:lower()]
  if not known then
    local near = provider and misspelt(provider)
    if near then return nil, ("there is no known provider %s. Did you mean %q?"):format(text.quote(provider), near) end
    return false
  end
  if event == "*" or event:sub(1, 1) == "#" then return false end
  local display = known.old[event:lower()]
  if display then
    return nil, ("%s is the first version of the event, which no runtime of today sends. Did you mean %q?"):format(text.quote(event),
      display)
  end
  local fields = known.events[event:lower()]
  if fields then return fields end
  local near = text.did_you_mean(event, known.names)
  near = near:gsub('"([^"]+)"', function(name) -- never one that would only lead to the message above
    local later = known.old[name:lower()]
    return later and text.quote(later) or nil
  end)
  return nil, ("%s has no event %s.%s"):format(known.name, text.quote(event), near)
end

-- The names of fields that an expression reads: { { side?, name } }.
local function names_in(expression)
  local found, i = {}, 1
  while i <= #expression do
    local quoted = expression:match('^"[^"]*"()', i) or expression:match("^'[^']*'()", i)
    local at = expression:match("^@[%w_]+()", i)
    local number = expression:match("^%d[%w.]*()", i)
    local ticked, after_tick = expression:match("^`([^`]*)`()", i)
    local word, after = expression:match("^([%a_][%w_.]*)()", i)
    if quoted or at or number then
      i = quoted or at or number
    elseif ticked then
      found[#found + 1] = { name = ticked }
      i = after_tick
    elseif word then
      local call = expression:match("^%s*%(", after)
      if not call and not WORDS[word] then
        local side, name = word:match("^(start)%.(.+)$")
        local first = (name or word):match("^[^.]+")
        if not expression:find("^@", after) and first ~= "" then found[#found + 1] = { side = side, name = first } end
      end
      i = after
    else
      i = i + 1
    end
  end
  return found
end

-- Fields of any of these events; false when one of them cannot be known.
local function union(names, by_event)
  local out = {}
  for _, name in ipairs(names) do
    if by_event[name] == false or by_event[name] == nil then return false end
    for field in pairs(by_event[name]) do out[field] = true end
  end
  return out
end

local Walk = {}
Walk.__index = Walk

function Walk:expression(place, expression, own, start)
  if type(expression) ~= "string" then return end
  for _, used in ipairs(names_in(expression)) do
    local fields = own
    if used.side then fields = start end
    if fields and not fields[used.name] and not self.let[used.name] and not (not used.side and used.name == "start") then
      self.report(place, ("no event here has the field %s.%s"):format(text.quote(used.name),
        text.did_you_mean(used.name, text.keys(fields))))
    end
  end
end

function Walk:rows(place, rows, own, start)
  for _, row in ipairs(rows or {}) do self:expression(place, row[2], own, start) end
end

function Walk:node(node, place, on, start)
  local events = node.on and #node.on > 0 and node.on or on
  local own, first = union(events, self.by_event), start
  if node.op == "pair" then
    first = union(node.start or {}, self.by_event)
    own, events = union(node.stop or {}, self.by_event), node.stop or {}
    self:rows(place, node.row, first, first)
  else
    self:rows(place, node.row, own, first)
    self:rows(place, node.by, own, first)
  end
  self:expression(place, node.where, own, first)
  self:expression(place, node.expr, own, first)
  self:expression(place, node.weight, own, first)
  for _, inner in ipairs(node.keep or {}) do self:node(inner, place .. "." .. inner.name, events, first) end
end

--- Checks a compiled program (probe.program): report(place, message) for everything that no runtime has.
---@param program table
---@param report fun(place: string, message: string)
function M.check(program, report)
  local by_event, names, let = {}, {}, {}
  for _, event in ipairs(program.events) do
    local fields, why = fields_of(event[2])
    if why then report("events." .. event[1], why) end
    if by_event[event[1]] == nil then
      by_event[event[1]] = fields or false
      names[#names + 1] = event[1]
    elseif fields and by_event[event[1]] then
      for name in pairs(fields) do by_event[event[1]][name] = true end
    else
      by_event[event[1]] = false
    end
  end
  for _, provider in ipairs(program.providers) do
    local near = misspelt(provider.name)
    if near then report("providers", ("there is no known provider %s. Did you mean %q?"):format(text.quote(provider.name), near)) end
  end
  for _, row in ipairs(program.let or {}) do let[row[1]] = true end
  local walk = setmetatable({ by_event = by_event, let = let, report = report }, Walk)
  for _, node in ipairs(program.keep) do walk:node(node, node.name, names, nil) end
end

M.names_in = names_in
return M
