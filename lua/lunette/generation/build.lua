-- SPDX-License-Identifier: MIT
-- Builds a generation from the layers: runs what is new or changed, keeps the rest of the one before, and puts it together. A file that is
-- broken leaves the last good version of its thing in place, else what lies beneath it.
local assemble = require("lunette.generation.assemble")
local files = require("lunette.generation.files")
local fs = require("lunette.fs")
local generation = require("lunette.generation")
local log = require("lunette.log")
local loop = require("lunette.loop")
local site = require("lunette.site")

local M = {}

local NONE <const> = {}

-- id -> its files, the lowest layer first; and the ids.
local function stacks_of(layers, product_files, listed)
  local stacks, ids = {}, {}
  for _, layer in ipairs(layers) do
    for id, file in pairs(layer.product and product_files or listed and listed[layer] or site.files(layer)) do
      local stack = stacks[id]
      if stack then
        stack[#stack + 1] = file
      else
        stacks[id], ids[#ids + 1] = { file }, id
      end
    end
  end
  return stacks, ids
end

-- Whether a file is what it was: by its stamp, else by its text.
local function unchanged(path, stamp, before_stamp, source)
  return stamp == before_stamp or (stamp and source and fs.read(path, site.MAX_SCRIPT) == source)
end

-- ---- what is as it was ------------------------------------------------------------------------------------------------------------

-- Stamps of files of lib/, looked at once in a build.
local function stamp_of(build, path)
  local stamp = build.stamps[path]
  if stamp == nil then
    stamp = site.stamp(path) or false
    build.stamps[path] = stamp
  end
  return stamp or nil
end

-- Whether no file of a unit has changed, nor what it used of lib/: by their stamps alone.
local function untouched(unit, stack, build)
  if not unit or unit.state == "broken" or #unit.files ~= #stack then return false end
  for i, file in ipairs(stack) do
    local was, run = unit.files[i], unit.levels[i].run
    if was.path ~= file.path or was.stamp ~= file.stamp then return false end
    for path, dep in pairs(run and run.deps or NONE) do
      if stamp_of(build, path) ~= dep.stamp then return false end
    end
  end
  return true
end

-- Which units may be taken over whole, and in which rooms something differs. A collector makes kinds of handles, which all others are
-- checked against; playbooks name all that there is.
local function survey(build, stacks, ids, before)
  local differs, kept, n = {}, {}, 0
  for _, id in ipairs(ids) do
    local unit = before and before.units[id]
    if untouched(unit, stacks[id], build) then kept[id] = unit else differs[stacks[id][1].room] = true end
    if unit then n = n + 1 end
  end
  local same_ids = before ~= nil and n == #ids and n == #before.order
  for _, id in ipairs(not same_ids and before and before.order or NONE) do
    if not stacks[id] then differs[before.units[id].room] = true end
  end
  build.differs, build.kept, build.same_ids = differs, kept, same_ids
  build.steady = before ~= nil and not differs.collectors
end

local function may_keep(build, unit)
  if not unit.site then return true end
  if unit.room == "playbooks" then
    for room in pairs(build.differs) do
      if room ~= "playbooks" then return false end
    end
  end
  return build.steady
end

-- Whether the files of lib/ that a file used are as they were.
local function deps_hold(run)
  for path, dep in pairs(run.deps) do
    local stamp = site.stamp(path)
    if not unchanged(path, stamp, dep.stamp, dep.source) then return false end
    dep.stamp = stamp
  end
  return true
end

-- Whether a value fits into the generation: its problems, or nil. What nobody thought of is a problem of this file, not of all others.
local function problems_of(run, file, room, build, below)
  local ok, problems = pcall(assemble.check, run, file, room, build, below)
  if ok then return problems end
  log.error("scripts", "a script could not be looked at", { script = file.path, error = tostring(problems) })
  return { { file = file.path, line = 1, message = "cannot be used: " .. tostring(problems):gsub("^lua/[%w_/.-]+:%d+: ", "") } }
end

-- One file upon what lies beneath it. before: how it was in the last generation.
local function level_of(file, room, below, before, build)
  local value = below and below.value
  local same = before and before.below == value and unchanged(file.path, file.stamp, before.file.stamp, before.run.source)
    and deps_hold(before.run)
  local run = same and before.run or files.run(file, room, value)
  if not same then build.n_run = build.n_run + 1 end
  local level = { file = file, below = value, run = run, disabled = run.disabled }
  if run.disabled then return level end
  local problems = run.problems or problems_of(run, file, room, build, value)
  if not problems then
    level.value, level.good = run.value, run
    return level
  end
  local good = before and before.good
  level.problems = problems
  if good and not problems_of(good, file, room, build, value) then
    level.value, level.good, level.serving = good.value, good, "last good"
  else
    level.value, level.serving = value, value ~= nil and "beneath" or "nothing"
  end
  return level
end

-- The file of the product: run now when something lies upon it, else when it is asked for.
local function product_level(file, needed, before)
  local level = before or { file = file }
  if needed and not level.loaded then level.value, level.loaded = files.product(file), true end
  return level
end

local function level_at(levels, path)
  for _, level in ipairs(levels or {}) do
    if level.file.path == path then return level end
  end
  return nil
end

local function unit_of(id, stack, before, build)
  local room, levels = site.ROOM[stack[1].room], {}
  local unit = { id = id, room = room.name, files = stack, levels = levels, state = "ok", problems = {} }
  for i, file in ipairs(stack) do
    local old = before and level_at(before.levels, file.path)
    if file.layer.product then
      levels[i] = product_level(file, #stack > 1 or build.eager, old)
    else
      levels[i] = level_of(file, room, levels[i - 1], old, build)
    end
    for _, p in ipairs(levels[i].problems or {}) do unit.problems[#unit.problems + 1] = p end
  end
  local top = levels[#levels]
  unit.site, unit.value, unit.box = not top.file.layer.product, top.value, top.good and top.good.box
  if top.disabled then
    unit.state, unit.reason = "disabled", top.disabled
  elseif top.problems then
    unit.state, unit.serving = "broken", top.serving
  end
  if not unit.site and not top.loaded then
    unit.load = function() return product_level(top.file, true, top).value end
  end
  return unit
end

-- The ids, sorted, and those of each room.
local function order_of(ids, stacks, build, before)
  if build.same_ids then return before.order, before.by_room end
  table.sort(ids)
  local by_room = {}
  for _, room in ipairs(site.ROOMS) do by_room[room.name] = {} end
  for _, id in ipairs(ids) do
    local list = by_room[stacks[id][1].room]
    list[#list + 1] = id
  end
  return ids, by_room
end

--- Builds a generation. May wait: other tasks run meanwhile. What has not changed is taken over from the one before.
---@param layers Layer[]     the product first
---@param before Generation?
---@param options? { eager: boolean?, listed: table<Layer, table<string, SiteFile>>? }   eager: runs the product's files, too; listed: what
---  is in the layers, when that was looked up already
---@return Generation
function M.build(layers, before, options)
  options = options or NONE
  local started = loop.now_ns()
  local product_files = before and before.product_files or site.files(site.PRODUCT)
  local next_one = generation.new((before and before.number or 0) + 1)
  local stacks, ids = stacks_of(layers, product_files, options.listed)
  local build = { generation = next_one, eager = options.eager, n_run = 0, stamps = {} }
  survey(build, stacks, ids, before)
  next_one.order, next_one.by_room = order_of(ids, stacks, build, before)
  next_one.layers, next_one.product_files = layers, product_files
  local units = next_one.units
  for _, room in ipairs(site.ROOMS) do
    for _, id in ipairs(next_one.by_room[room.name]) do
      local unit = build.kept[id]
      units[id] = unit and may_keep(build, unit) and unit or unit_of(id, stacks[id], before and before.units[id], build)
    end
    assemble.after_room(room, build, before)
  end
  assemble.finish(build, before)
  next_one.n_run, next_one.build_ns = build.n_run, loop.now_ns() - started
  return next_one
end

return M
