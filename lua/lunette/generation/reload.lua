-- SPDX-License-Identifier: MIT
-- Lets changes of the layers follow. A watch tells that something happened; then all files are looked at again, so it does not matter how
-- an editor writes: over the file, beside it and renamed, in pieces, through a link that is swapped. What is new is built aside and put in
-- place at once.
local build = require("lunette.generation.build")
local fs = require("lunette.fs")
local generation = require("lunette.generation")
local log = require("lunette.log")
local loop = require("lunette.loop")
local metrics = require("lunette.metrics")
local publish = require("lunette.generation.publish")
local site = require("lunette.site")
local watch = require("lunette.watch")

local M = {}

M.SETTLE_MS = 50    -- without any event: then what was written is complete
M.WRITING_MS = 300  -- as long as a file is open that was written to, and at most this long
M.LONGEST_MS = 500  -- of events without a pause
M.LOOK_MS = 5000    -- what no event tells: file systems of other machines
M.POLL_MS = 1000    -- where a watch fails

local reloads = metrics.counter("lunette_script_reloads", "Reloads of site scripts, by whether all of them are sound.")

local function count(state)
  return function()
    local n = 0
    for _, unit in pairs(generation.newest().units) do
      if unit.site and unit.state == state then n = n + 1 end
    end
    return n
  end
end

--- The gauges of /metrics.
function M.publish_metrics()
  metrics.gauge("lunette_scripts_loaded", "Site scripts in use.", count("ok"))
  metrics.gauge("lunette_scripts_broken", "Site scripts that are broken: their last good version serves, or nothing.", count("broken"))
  metrics.gauge("lunette_scripts_disabled", "Declarations that a site script takes out.", count("disabled"))
  metrics.gauge("lunette_scripts_generation", "Number of the generation of scripts in use.", function()
    return generation.newest().number
  end)
end

-- ---- looking --------------------------------------------------------------------------------------------------------------------------

-- The files of lib/ that something in a generation used: path -> stamp, as it was then.
local function deps_of(g)
  local deps = {}
  for _, unit in pairs(g.units) do
    for _, level in ipairs(unit.site and unit.levels or {}) do
      for path, dep in pairs(level.run and level.run.deps or {}) do deps[path] = dep.stamp or false end
    end
  end
  return deps
end

---@class SiteLook   what is in the layers, and how it was found
---@field listed table<Layer, table<string, SiteFile>>
---@field stamps table<string, string|false>   path -> stamp
---@field n integer
---@field fresh boolean   something was written a moment ago and may be written again unseen

-- What the layers hold now.
local function look(layers, g)
  local seen = { listed = {}, stamps = {}, n = 0, fresh = false }
  local function note(path, stamp)
    seen.stamps[path], seen.n = stamp, seen.n + 1
    seen.fresh = seen.fresh or stamp and stamp:find(site.FRESH, -#site.FRESH, true) ~= nil
  end
  for _, layer in ipairs(layers) do
    if not layer.product then
      seen.listed[layer] = site.files(layer)
      for _, file in pairs(seen.listed[layer]) do note(file.path, file.stamp) end
    end
  end
  for path in pairs(deps_of(g)) do note(path, site.stamp(path) or false) end
  return seen
end

-- Whether a generation was built of just that: what has changed since differs from it, whenever that was.
local function built_of(g, seen)
  local n = 0
  for _, unit in pairs(g.units) do
    for _, file in ipairs(unit.files) do
      if file.stamp then
        if seen.stamps[file.path] ~= file.stamp then return false end
        n = n + 1
      end
    end
  end
  for path, stamp in pairs(deps_of(g)) do
    if seen.stamps[path] ~= stamp then return false end
    n = n + 1
  end
  return n == seen.n
end

-- Whether two looks found the same.
local function same_look(a, b)
  if not b or a.n ~= b.n then return false end
  for path, stamp in pairs(a.stamps) do
    if b.stamps[path] ~= stamp then return false end
  end
  return true
end

-- Which files there are: with no file run anew, that is all that can differ.
local function shape(g)
  local parts = {}
  for _, id in ipairs(g.order) do
    local files = g.units[id].files
    parts[#parts + 1] = g.units[id].site and id .. "\0" .. #files .. files[#files].path or nil
  end
  return table.concat(parts, "\n")
end

--- Builds and puts in place what the layers hold now.
---@param layers Layer[]   the product first
---@param registry table
---@param listed table<Layer, table<string, SiteFile>>?   what is in the layers, when that was looked up already
---@return Generation? g   nil when it could not be built, which is a bug: then everything stays
function M.reload(layers, registry, listed)
  local before = generation.newest()
  local started = loop.now_ns()
  local ok, g = xpcall(build.build, debug.traceback, layers, before, { listed = listed })
  if not ok then
    log.error("scripts", "the scripts could not be loaded again; everything stays as it was", { error = tostring(g) })
    return nil
  end
  local changed
  ok, changed = xpcall(publish.to, debug.traceback, g, registry)
  if not ok then
    log.error("scripts", "the scripts could not be put in place; everything stays as it was", { error = tostring(changed) })
    generation.use(before)
    return nil
  end
  publish.report(g, before)
  if g.n_run == 0 and shape(g) == shape(before) then -- touched, not changed
    g.reloads, g.reload_ms, g.number = before.reloads, before.reload_ms, before.number
    return g
  end
  g.reload_ms = (loop.now_ns() - started) / 1e6
  reloads:add({ result = #g.problems == 0 and "ok" or "broken" })
  log.notice("scripts", "scripts were reloaded", {
    generation = g.number, scripts_run = g.n_run, tools = changed.tools, prompts = changed.prompts, problems = #g.problems,
    ms = math.floor(g.reload_ms * 10 + 0.5) / 10,
  })
  registry.resource_updated(publish.RESOURCE)
  return g
end

-- ---- watching -------------------------------------------------------------------------------------------------------------------------

local function parent_of(path) return path:match("^(.+)/[^/]+$") or "/", path:match("([^/]+)$") end

-- The layer's own place: its folder may come, go, or be a link that is swapped; the same for the folders above it that are not there yet.
local function add_place(w, dir, ids)
  local path = dir
  while path and path ~= "/" do
    local parent, name = parent_of(path)
    if fs.stat(parent) then
      local id = w:add(parent, name)
      if id then ids[id] = true end
      return id ~= nil
    end
    path = parent
  end
  return true
end

--- Watches all folders in which something may change; false when that is not possible for one of them.
---@param w LunetteWatch
---@param layers Layer[]
---@param g Generation
function M.arm(w, layers, g)
  local ids, all = {}, true
  local function add(folder, name)
    local id, err = w:add(folder, name)
    if id then
      ids[id] = true
    elseif err.kind ~= "NotFound" then
      all = false
    end
  end
  for _, layer in ipairs(layers) do
    if not layer.product then
      all = add_place(w, layer.dir, ids) and all
      for _, folder in ipairs(site.folders(layer)) do
        add(folder)
        local real = fs.realpath(folder)
        if real and real ~= folder then add(parent_of(real)) end -- a link: what it points to may be replaced, too
      end
    end
  end
  for _, unit in pairs(g.units) do
    for _, file in ipairs(unit.site and unit.files or {}) do
      if file.real then add(parent_of(file.real)) end -- a link to a file that lies elsewhere
    end
  end
  w:keep(ids)
  return all
end

-- Waits until it is quiet.
local function settle(w)
  local now = loop.now_ms()
  local last, writing = now + M.LONGEST_MS, 0
  local written = now + M.WRITING_MS
  while loop.now_ms() < last do
    local changes, err = w:next(M.SETTLE_MS)
    if changes then
      writing = changes.writing
    elseif err.kind ~= "Timeout" then
      return nil
    elseif writing == 0 or loop.now_ms() >= written then
      return true
    end
  end
  return true
end

-- Waits for something to look at; false when the task is to end.
local function wait(w, every)
  if not w then return loop.sleep_ms(every) ~= nil end
  local changes, err = w:next(every)
  if not changes then return err.kind == "Timeout" end
  return settle(w) == true
end

local function follow(layers, registry, w)
  loop.set_budget(-1)
  local complete = w and M.arm(w, layers, generation.newest())
  if not complete then
    log.notice("scripts", "not all folders can be watched: they are looked at every second instead", { ms = M.POLL_MS })
  end
  local failed -- what was there when no generation could be built: it is not tried again until something differs
  local first, fresh = true, false
  while not loop.cancelled() do
    local every = complete and M.LOOK_MS or M.POLL_MS
    if fresh then every = site.FRESH_MS end
    if not first and not wait(w, every) then break end -- something may have happened since the layers were loaded
    first = false
    if w then complete = M.arm(w, layers, generation.newest()) end -- before the look: what happens from now on is told
    local now = look(layers, generation.newest())
    fresh = now.fresh
    if not built_of(generation.newest(), now) and not same_look(now, failed) then
      failed = not M.reload(layers, registry, now.listed) and now or nil
    end
  end
  if w then w:close() end
end

--- Starts to follow the layers of the newest generation.
---@param registry table
---@return LunetteTask?
function M.start(registry)
  local layers = generation.newest().layers
  if not layers or #layers < 2 then return nil end
  return loop.spawn(follow, layers, registry, (watch.new()))
end

return M
