-- SPDX-License-Identifier: MIT
-- Puts the parts of a generation together: kinds of handles with their views, collect_events with the kinds of all layers, tools, prompts;
-- and checks what one file cannot know of itself.
local lazy = require("lunette.lazy")
local collect = lazy("lunette.generation.collect")
local declare = require("lunette.declare")
local generation = require("lunette.generation")
local kinds = require("lunette.kinds")
local playbooks = require("lunette.playbooks")
local power = lazy("lunette.generation.power")
local text = require("lunette.text")

local M = {}

local COLLECT_EVENTS <const> = "collect_events"

-- A problem at a field of a declaration.
local function at_field(value, path, message)
  local known = declare.of(value)
  return { { file = known.at.file, line = declare.line_of(known.at, path), path = path, message = message } }
end

-- ---- what one file cannot know ------------------------------------------------------------------------------------------------------

local check = {}

-- The default view of a new kind of handle is one that it lists, or one that has a file.
local function default_problem(value, made, build)
  local names, folder = {}, "views/" .. made.name .. "/"
  for _, spec in ipairs(made.views) do names[#names + 1] = spec:match("^([%w%-+]+)") end
  for _, id in ipairs(build.generation.by_room.views) do
    if id:sub(1, #folder) == folder then names[#names + 1] = id:sub(#folder + 1) end
  end
  for _, name in ipairs(names) do
    if name == made.default_view then return nil end
  end
  return at_field(value, "handle.default_view", ("there is no view %s of %s.%s"):format(text.quote(made.default_view), made.name,
    text.did_you_mean(made.default_view, names)))
end

function check.collectors(value, _, build)
  local declared = declare.of(value).declared
  for _, id in ipairs(build.generation.by_room.collectors) do
    local unit = build.generation.units[id] -- nil while it is still to come
    local other = unit and unit.site and unit.value and declare.of(unit.value)
    if other and other.declared.kind == declared.kind and other.declared ~= declared then
      return at_field(value, "kind", ("the kind %s is already collected by %s"):format(text.quote(declared.kind), id))
    end
  end
  local ok, made = pcall(collect.kind_of, declared)
  if not ok then return at_field(value, "handle", made) end
  return made and made.default_view and default_problem(value, made, build) or nil
end

local function kind_names(build)
  local names = kinds.base_names()
  for name in pairs(build.kinds or {}) do names[#names + 1] = name end
  return names
end

function check.views(value, file, build)
  local declared = declare.of(value).declared
  local folder, name = file.id:match("^views/(.-)/(.+)$")
  if declared.kind ~= folder then
    return at_field(value, "kind", ("this file is in views/%s/, so its kind is %q"):format(folder, folder))
  elseif declared.name ~= name then
    return at_field(value, "name", ("this file is %s.lua, so the name of the view is %q"):format(name, name))
  elseif not kinds.base(declared.kind) and not build.kinds[declared.kind] then
    return at_field(value, "kind", ("there is no kind of handle %s.%s"):format(text.quote(declared.kind),
      text.did_you_mean(declared.kind, kind_names(build))))
  end
  return nil
end

function check.playbooks(value, file, build)
  local problems = generation.with(build.generation, playbooks.check, value, file.path, build.generation.tools)
  return #problems > 0 and problems or nil
end

--- What is wrong with a value in this generation; nil when nothing is.
---@param run RunResult
---@param file SiteFile
---@param room table
---@param build table
---@param below any   the value beneath
---@return Problem[]?
function M.check(run, file, room, build, below)
  local one = check[room.name]
  local problems = one and one(run.value, file, build)
  if problems or not run.box then return problems end
  local open, why = power.too_open(run.value)
  if open then return at_field(run.value, open, why) end
  local weaker = power.weaker(run.value, below)
  if weaker then
    return at_field(run.value, weaker, "must ask for at least what the declaration beneath asks for, since its functions may be used here")
  end
  local have = power.scopes(run.value, build)
  local key = table.concat(have, " ")
  if run.powers ~= key then run.powers, run.missing = key, power.missing(run, file, have) or false end -- the same file, the same answer
  if run.missing then return { run.missing } end
  run.box.scopes, run.box.risk = have, power.risk(run.value)
  return nil
end

-- ---- after a room -------------------------------------------------------------------------------------------------------------------

local after = {}

local function each(build, room, fn)
  local units = build.generation.units
  for _, id in ipairs(build.generation.by_room[room]) do fn(units[id], id) end
end

-- The kinds of handles that collectors of layers make.
function after.collectors(build)
  build.kinds, build.collectors = {}, {}
  each(build, "collectors", function(unit)
    if not unit.site or not unit.value then return end
    build.collectors[#build.collectors + 1] = unit.value
    local made = collect.kind_of(declare.of(unit.value).declared)
    if made then build.kinds[made.name] = made end
  end)
end

local function copy(unit)
  local out = {}
  for k, v in pairs(unit) do out[k] = v end
  return out
end

-- What met an error only when it was put together with the rest is left out, whatever it was: the others serve.
local function leave_out(build, id, why)
  local unit = copy(build.generation.units[id]) -- an earlier generation may have it, too
  build.generation.units[id] = unit
  unit.problems = at_field(unit.value, "", "cannot be put together with the rest: " .. tostring(why):gsub("^lua/[%w_/.-]+:%d+: ", ""))
  unit.state, unit.serving, unit.value = "broken", "nothing", nil
end

-- The files of layers that declare something of a kind of handles.
local function leave_out_kind(build, name, why)
  each(build, "collectors", function(unit, id)
    local made = unit.site and unit.value and collect.kind_of(declare.of(unit.value).declared)
    if not made or made.name ~= name then return end
    for i, value in ipairs(build.collectors) do
      if value == unit.value then table.remove(build.collectors, i) break end
    end
    build.kinds[name] = nil
    leave_out(build, id, why)
  end)
  each(build, "views", function(unit, id)
    if unit.site and unit.value and declare.of(unit.value).declared.kind == name then leave_out(build, id, why) end
  end)
end

-- Views that a kind does not list itself are added to it.
function after.views(build, before)
  local g, more = build.generation, {}
  if build.steady and not build.differs.views then
    g.kinds, g.kind_names = before.kinds, before.kind_names
    return
  end
  each(build, "views", function(unit)
    local declared = unit.site and unit.value and declare.of(unit.value).declared
    if declared then
      more[declared.kind] = more[declared.kind] or {}
      table.insert(more[declared.kind], declared)
    end
  end)
  for name in pairs(build.kinds) do more[name] = more[name] or {} end
  for name, views in pairs(more) do
    local ok, made = pcall(kinds.with, build.kinds[name] or kinds.declaration(name), views)
    if not ok then
      leave_out_kind(build, name, made)
      made = nil
    end
    if made then g.kinds[name] = made end
    if made and not kinds.base(name) then g.kind_names[#g.kind_names + 1] = name end
  end
  table.sort(g.kind_names)
end

-- Same parts as before: the same tool, so that nobody is told of a change that is none.
local function with_kinds(base, collectors, before)
  local was = before and before.collect
  local same = was and was.base == base and #was.collectors == #collectors
  for i, value in ipairs(collectors) do same = same and was.collectors[i] == value end
  if same then return was end
  return { base = base, collectors = collectors, tool = #collectors == 0 and base or collect.extend(base, collectors) }
end

-- Those collectors with which collect_events can be made.
local function fitting(build, base, collectors)
  local fit, list = {}, {}
  each(build, "collectors", function(unit, id)
    if not unit.site or not unit.value then return end
    local ok, why = pcall(collect.extend, base, { unit.value })
    fit[unit.value] = ok
    if not ok then leave_out(build, id, why) end
  end)
  for _, value in ipairs(collectors) do
    if fit[value] then list[#list + 1] = value end
  end
  return list
end

function after.tools(build, before)
  local g, from = build.generation, {}
  each(build, "tools", function(unit, id)
    local value = unit.value or unit.load and unit.load()
    if not value then return end
    unit.value = value
    local first = from[value.name]
    if first then
      local loser_id = unit.site and id or first
      local loser = copy(g.units[loser_id]) -- an earlier generation may have it, too
      g.units[loser_id] = loser
      loser.state, loser.serving = "broken", "nothing"
      loser.problems = at_field(loser.value, "name", ("there is already a tool %s, of %s"):format(value.name, first))
      if loser_id == id then return end
    end
    from[value.name] = id
    g.tools[value.name] = value
  end)
  if g.tools[COLLECT_EVENTS] then
    local base = g.tools[COLLECT_EVENTS]
    local ok, made = pcall(with_kinds, base, build.collectors, before)
    g.collect = ok and made or with_kinds(base, fitting(build, base, build.collectors), before)
    g.tools[COLLECT_EVENTS] = g.collect.tool
  end
end

--- Called when all files of a room have run.
function M.after_room(room, build, before)
  if after[room.name] then after[room.name](build, before) end
end

--- The rest, once all rooms are done.
function M.finish(build, before)
  local g = build.generation
  each(build, "playbooks", function(unit, id)
    local playbook = unit.value or unit.load and unit.load()
    unit.value = playbook
    if playbook then g.prompts[id:match("^playbooks/(.+)$")] = playbook end
  end)
  g.event_sources = {}
  each(build, "event-sources", function(unit)
    local declared = unit.value or unit.load and unit.load()
    for _, name in ipairs(declared and declared.names or {}) do g.event_sources[name:lower()] = name end
  end)
  for _, id in ipairs(g.order) do
    local unit = g.units[id]
    if unit.problems[1] then table.move(unit.problems, 1, #unit.problems, #g.problems + 1, g.problems) end
  end
  if before then g.reloads = (before.reloads or 0) + 1 else g.reloads = 0 end
end

return M
