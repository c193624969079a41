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

-- id -> its files, the lowest layer first; and the ids, sorted.
local function stacks_of(layers, product_files)
  local stacks, order = {}, {}
  for _, layer in ipairs(layers) do
    for id, file in pairs(layer.product and product_files or site.files(layer)) do
      if not stacks[id] then
        stacks[id] = {}
        order[#order + 1] = id
      end
      table.insert(stacks[id], file)
    end
  end
  table.sort(order)
  return stacks, order
end

-- Whether a file is what it was: by its stamp, else by its text.
local function unchanged(path, stamp, before_stamp, source)
  return stamp == before_stamp or (stamp and source and fs.read(path, site.MAX_SCRIPT) == source)
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

--- Builds a generation. May wait: other tasks run meanwhile.
---@param layers Layer[]     the product first
---@param before Generation?
---@param options? { eager: boolean?, product_files: table? }   eager: runs the product's files, too
---@return Generation
function M.build(layers, before, options)
  options = options or {}
  local started = loop.now_ns()
  local product_files = options.product_files or before and before.product_files or site.files(site.PRODUCT)
  local next_one = generation.new((before and before.number or 0) + 1)
  local stacks, order = stacks_of(layers, product_files)
  local build = { generation = next_one, eager = options.eager, n_run = 0 }
  next_one.order, next_one.layers, next_one.product_files = order, layers, product_files
  for _, room in ipairs(site.ROOMS) do
    for _, id in ipairs(order) do
      if stacks[id][1].room == room.name then
        next_one.units[id] = unit_of(id, stacks[id], before and before.units[id], build)
      end
    end
    assemble.after_room(room, build, before)
  end
  assemble.finish(build, before)
  next_one.n_run, next_one.build_ns = build.n_run, loop.now_ns() - started
  return next_one
end

return M
