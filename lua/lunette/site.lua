-- SPDX-License-Identifier: MIT
-- site: the layers of scripts: which folders there are, and which files are in them. The product is the lowest layer.
local fs = require("lunette.fs")
local loop = require("lunette.loop")
local sys = require("lunette.sys")
local text = require("lunette.text")

local M = {}

M.MAX_SCRIPT = 256 * 1024 -- bytes of one file: more would hold up the others while it is compiled
M.MAX_FILES = 2000         -- of one room of one layer
M.SYSTEM = "/etc/lunette"
M.FRESH_MS = 100    -- several ticks of any file system's clock
M.FRESH = ":fresh"  -- at the end of a stamp

--- The rooms of a layer, in the order in which their files are run: what others refer to goes first. `deep`: one folder in between.
M.ROOMS = {
  { name = "collectors", kind = "collector" }, { name = "views", kind = "view", deep = true },
  { name = "signals", kind = "signal", several = true },
  { name = "rules", kind = "rule", several = true }, { name = "hints", kind = "hint_rule", several = true },
  { name = "redaction", kind = "redaction" }, { name = "event-sources", kind = "event_sources" }, { name = "waits", kind = "waits" },
  { name = "tools", kind = "tool" },
  { name = "playbooks", kind = "playbook", ending = "md" },
}
M.ROOM = {}
for _, room in ipairs(M.ROOMS) do M.ROOM[room.name] = room end
M.OTHER_ROOMS = { "lib", "specs", "recordings" } -- beside those whose files declare

---@class Layer
---@field name string      "product", or the folder
---@field dir string
---@field named boolean    asked for by name: it is a problem when it does not exist
---@field product boolean

---@class SiteFile
---@field id string        "rules/queue"
---@field room string
---@field path string
---@field layer Layer
---@field stamp string?    changes when the file does; nil for the product
---@field real string?     what it is a link to

local function split(list, into)
  for folder in (list or ""):gmatch("[^:]+") do into[#into + 1] = { name = folder, dir = folder, named = true } end
end

local function absolute(dir)
  dir = dir:gsub("(.)/+$", "%1")
  if dir:sub(1, 1) == "/" then return dir end
  local here = fs.realpath(".")
  return here and here .. "/" .. dir or dir
end

M.PRODUCT = { name = "product", dir = sys.home, named = false, product = true }

--- The layers above the product, the lowest first: of the machine, of the user, of the configuration, of the command line.
---@param cfg table
---@param given? string[]   folders of --site
---@return Layer[]
function M.layers(cfg, given)
  local list = { { name = M.SYSTEM, dir = M.SYSTEM } }
  local home, xdg = sys.getenv("HOME"), sys.getenv("XDG_CONFIG_HOME")
  if not (xdg and xdg:sub(1, 1) == "/") then xdg = home and home:sub(1, 1) == "/" and home .. "/.config" or nil end
  if xdg then list[#list + 1] = { name = xdg .. "/lunette", dir = xdg .. "/lunette" } end
  split(cfg:get("LUNETTE_SITE"), list)
  split(cfg:get("LUNETTE_SCRIPTS"), list)
  for _, folder in ipairs(given or {}) do list[#list + 1] = { name = folder, dir = folder, named = true } end
  return M.named(list)
end

--- The folders of --site, and of --scripts, its older name.
---@param options table   of a command line
---@return string[]
function M.given(options)
  local list = { table.unpack(options.scripts or {}) }
  return table.move(options.site or {}, 1, #(options.site or {}), #list + 1, list)
end

--- Layers from folders or records of layers, each folder once (the last place counts).
---@param list (string|Layer)[]
---@return Layer[]
function M.named(list)
  local out, seen = {}, {}
  for i = #list, 1, -1 do
    local layer = type(list[i]) == "string" and { name = list[i], dir = list[i], named = true } or list[i]
    layer.dir = absolute(layer.dir)
    if not seen[layer.dir] then
      seen[layer.dir] = true
      table.insert(out, 1, layer)
    end
  end
  return out
end

-- What tells one state of a file from another. A link is followed: it is the file behind it that counts. A file that was written a moment
-- ago may be written again within the same tick of the file system's clock, with the same size: its stamp says so, and will be another one.
-- The second value: what a link leads to.
local function stamp_of(path)
  local stat = fs.stat(path)
  local real = path
  if stat and stat.kind == "link" then
    real = fs.realpath(path)
    stat = real and fs.stat(real)
  end
  if not stat or stat.kind ~= "file" then return nil end
  local age_ms = loop.unix_ms() - stat.mtime_ns // 1000000
  return ("%s:%d:%d%s"):format(real, stat.mtime_ns, stat.size, age_ms >= 0 and age_ms < M.FRESH_MS and M.FRESH or ""),
    real ~= path and real or nil
end
M.stamp = stamp_of

local function name_of(entry, ending) return entry:match("^([%w_+%-]+)%." .. ending .. "$") end

local function names_in(dir, ending)
  local names = {}
  for _, entry in ipairs(fs.list(dir) or {}) do names[#names + 1] = name_of(entry, ending) end
  table.sort(names)
  return table.move(names, 1, math.min(#names, M.MAX_FILES), 1, {})
end

-- The names in a folder; that it cannot be read is told, a folder that is not there is none.
local function entries(folder, out)
  local list, err = fs.list(folder)
  if not list and err.kind == "PermissionDenied" then
    out[#out + 1] = { path = folder, message = "nothing in it is looked at: " .. err.message }
  end
  return list or {}
end

-- What lies in a room and is not looked at: { { path, message } }.
local function overlooked(folder, ending, out)
  local n = 0
  for _, entry in ipairs(entries(folder, out)) do
    local message
    if entry:sub(1, 1) == "." then -- hidden on purpose
      message = nil
    elseif name_of(entry, ending) then
      n = n + 1
      if not stamp_of(folder .. "/" .. entry) then message = "it is no file: a folder, a device, or a link to nothing" end
    elseif entry:find("%." .. ending .. "$") then
      message = "it is not looked at: the name of a file may hold letters, digits, _, + and - only"
    elseif entry:find("%.lua$") or entry:find("%.md$") then
      message = ("it is not looked at: files of this room end in .%s"):format(ending)
    end
    if message then out[#out + 1] = { path = folder .. "/" .. entry, message = message } end
  end
  if n > M.MAX_FILES then
    out[#out + 1] = { path = folder, message = ("of its %d files, the first %d by name are looked at"):format(n, M.MAX_FILES) }
  end
end

-- All rooms of a layer.
local function overlooked_in(layer, out)
  for _, room in ipairs(M.ROOMS) do
    local folder = layer.dir .. "/" .. room.name
    if not room.deep then
      overlooked(folder, room.ending or "lua", out)
    else
      for _, inner in ipairs(entries(folder, out)) do
        if inner:find("%.lua$") then
          local message = "it is not looked at: it belongs into views/KIND/, of the kind of its handle"
          out[#out + 1] = { path = folder .. "/" .. inner, message = message }
        else
          overlooked(folder .. "/" .. inner, "lua", out)
        end
      end
    end
  end
  return out
end

local function folder_of(layer, room)
  if layer.product and room.name ~= "playbooks" then return layer.dir .. "/lua/" .. room.name end
  return layer.dir .. "/" .. room.name
end

--- All files of a layer that declare something, by path.
---@param layer Layer
---@return table<string, SiteFile>
function M.files(layer)
  local found = {}
  local function add(room, folder, prefix)
    local ending = room.ending or "lua"
    for _, name in ipairs(names_in(folder, ending)) do
      local path = folder .. "/" .. name .. "." .. ending
      local stamp, real
      if not layer.product then stamp, real = stamp_of(path) end
      if layer.product or stamp then
        local id = prefix .. "/" .. name
        found[id] = { id = id, room = room.name, path = path, layer = layer, stamp = stamp, real = real }
      end
    end
  end
  for _, room in ipairs(M.ROOMS) do
    local folder = folder_of(layer, room)
    if room.deep then
      for _, inner in ipairs(fs.list(folder) or {}) do
        if inner:find("^[%w_+%-]+$") then add(room, folder .. "/" .. inner, room.name .. "/" .. inner) end
      end
    else
      add(room, folder, room.name)
    end
  end
  return found
end

--- The folders that a layer's files are in, whether they exist or not: what a watch looks at.
---@param layer Layer
---@return string[]
function M.folders(layer)
  local list = { layer.dir }
  for _, room in ipairs(M.ROOMS) do
    local folder = layer.dir .. "/" .. room.name
    list[#list + 1] = folder
    if room.deep then
      for _, inner in ipairs(fs.list(folder) or {}) do
        local stat = fs.stat(folder .. "/" .. inner)
        if stat and stat.kind ~= "file" then list[#list + 1] = folder .. "/" .. inner end
      end
    end
  end
  list[#list + 1] = layer.dir .. "/lib"
  return list
end

--- What lies in a layer and is not looked at: what is in no room (probably misspelt), or in a room under a name that is none.
--- { { path, message } }
---@param layer Layer
function M.strangers(layer)
  local names, out = {}, {}
  for _, room in ipairs(M.ROOMS) do names[#names + 1] = room.name end
  for _, name in ipairs(M.OTHER_ROOMS) do names[#names + 1] = name end
  local inside = entries(layer.dir, out)
  if out[1] then return out end -- nothing of it can be read
  for _, entry in ipairs(inside) do
    local path = layer.dir .. "/" .. entry
    local stat = fs.stat(path)
    local known = false
    for _, name in ipairs(names) do known = known or name == entry end
    if entry:sub(1, 1) ~= "." and not known then
      if stat and stat.kind == "file" and entry:find("%.lua$") then
        out[#out + 1] = {
          path = path, message = "a script here is not looked at: put it into the room of what it declares (tools, views, …)",
        }
      elseif stat and stat.kind ~= "file" then
        out[#out + 1] = { path = path, message = ("there is no room %s.%s"):format(text.quote(entry), text.did_you_mean(entry, names)) }
      end
    end
  end
  return overlooked_in(layer, out)
end

return M
