-- SPDX-License-Identifier: MIT
-- Everything that can be known of the scripts of some layers without running them on a process: what is broken, what is misspelt, what can
-- never happen.
local args_lib = require("lunette.args")
local build = require("lunette.generation.build")
local collector = require("lunette.collector")
local declaration = require("lunette.probe.declaration")
local declare = require("lunette.declare")
local events = require("lunette.check.events")
local fs = require("lunette.fs")
local generation = require("lunette.generation")
local kinds = require("lunette.kinds")
local names = require("lunette.check.names")
local power = require("lunette.generation.power")
local probe = require("lunette.probe")
local site = require("lunette.site")
local summary = require("lunette.check.summary")
local sys = require("lunette.sys")

local M = {}

-- Programs that files make while they are read: { program, file, line }.
local function watch_programs(list)
  local real = probe.program
  probe.program = function(declared)
    local program, why = declaration.compile(declared)
    if not program then error("probe.program: " .. why, 2) end
    local info = debug.getinfo(2, "Sl")
    list[#list + 1] = { program = program, file = info and info.source:gsub("^@", ""), line = info and info.currentline }
    return program
  end
  return function() probe.program = real end
end

local function add(out, file, line, message, path) out[#out + 1] = { file = file, line = line or 1, message = message, path = path } end

-- The whole path of a reducer of that name.
local function path_to(nodes, name, prefix)
  for _, node in ipairs(nodes or {}) do
    local path = prefix .. node.name
    if node.name == name or path == name then return path end
    local inner = path_to(node.keep, name, path .. ".")
    if inner then return inner end
  end
  return nil
end

-- Lets the engine read the expressions of a program, over a recording that is at hand.
local function try_engine(program, report)
  local path = sys.home .. "/share/demo.nettrace"
  if not fs.stat(path) then return end
  local session, err = probe.open(program, { path = path })
  if session then
    session:close()
  elseif err.kind == "InvalidArgument" then
    local place = err.message:match("^([%w_.]+): in the expression")
    report(place and path_to(program.keep, place, "") or place or "program", place and err.message:sub(#place + 3) or err.message)
  end
end

local function check_program(program, report)
  events.check(program, report)
  try_engine(program, report)
end

-- The program of a collector that declares one; of a function with the defaults of its parameters.
local function program_of(g, declared)
  local program = declared.program
  if type(program) == "function" then
    local tool = g.tools.collect_events
    local bound = tool and args_lib.bind(tool.params, { kind = declared.kind }, declared.kind)
    program = bound and program(bound.args)
  end
  return type(program) == "table" and collector.compiled(program) or nil
end

-- Where a place of a program stands in the declaration: a reducer below its parents' keep.
local function path_of(place)
  local first = place:match("^[^.]+")
  if first == "events" or first == "providers" or first == "let" then return "program." .. place end
  return "program.keep." .. place:gsub("%.", ".keep.")
end

local function check_collectors(g, out)
  for _, id in ipairs(g.order) do
    local unit = g.units[id]
    local known = unit.room == "collectors" and unit.site and unit.value and declare.of(unit.value)
    local program = known and program_of(g, known.declared)
    if program then
      check_program(program, function(place, message)
        add(out, known.at.file, declare.line_of(known.at, path_of(place)), message, place)
      end)
      summary.check(known.declared, program, function(path, message)
        add(out, known.at.file, declare.line_of(known.at, path), message, path)
      end)
    end
  end
end

local function check_files(g, broken)
  local seen, out = {}, {}
  for _, p in ipairs(broken) do seen[p.file .. ":" .. p.line] = true end
  for _, id in ipairs(g.order) do
    for _, level in ipairs(g.units[id].levels) do
      local run = level.run
      if run and run.source then
        local found = power.unknown(run.source, level.file.path)
        for dep in pairs(run.deps) do
          for _, p in ipairs(power.unknown(fs.read(dep, site.MAX_SCRIPT) or "", dep)) do found[#found + 1] = p end
        end
        for _, p in ipairs(found) do
          if not seen[p.file .. ":" .. p.line] then out[#out + 1] = p end
        end
      end
    end
  end
  table.move(out, 1, #out, #broken + 1, broken)
end

-- The line of a declaration in which the name stands that a message is about: its first in quotes.
local function line_of(file, line, message)
  local name = message:match('"([^"]+)"')
  return name and file and line and declare.line_with({ file = file }, line, name) or line
end

-- Rules that name facts that are none, or that can never fire.
local function check_rules(g, out)
  local found, index = pcall(require, "lunette.rules.index")
  if not found then return end
  for _, p in ipairs(index.of(g).problems or {}) do
    local file, line = tostring(p.file):match("^(.*):(%d+)$")
    add(out, file or p.file, line_of(file, math.tointeger(tonumber(line)), p.message), p.message)
  end
end

local function sorted(problems)
  local seen, list = {}, {}
  for _, p in ipairs(problems) do
    local line = declare.format(p)
    if not seen[line] then
      seen[line] = true
      list[#list + 1] = p
    end
  end
  table.sort(list, function(a, b)
    if a.file ~= b.file then return a.file < b.file end
    if a.line ~= b.line then return a.line < b.line end
    return a.message < b.message
  end)
  return list
end

-- Files that declare nothing, and so are run by others only, or never: helpers and specs.
local function check_helpers(layer, out)
  for _, room in ipairs({ "lib", "specs" }) do
    local folder = layer.dir .. "/" .. room
    for _, entry in ipairs(fs.list(folder) or {}) do
      local path = folder .. "/" .. entry
      local source = entry:find("%.lua$") and site.stamp(path) and fs.read(path, site.MAX_SCRIPT)
      local ok, why = load((source or ""):gsub("^\xEF\xBB\xBF", ""), "@" .. path, "t")
      if not ok then
        local line, message = why:match(":(%d+): (.*)$")
        add(out, path, math.tointeger(tonumber(line)), message or why)
      end
    end
  end
end

--- Checks layers. The generation that was built is left in place.
---@param layers Layer[]   above the product
---@return { problems: Problem[], generation: Generation, files: integer }
function M.layers(layers)
  local out, programs, all = {}, {}, { site.PRODUCT, table.unpack(layers) }
  declare.strict = true
  local unwatch = watch_programs(programs)
  kinds.use(generation.current)
  local g = build.build(all, nil, { eager = true })
  unwatch()
  generation.use(g)
  for _, p in ipairs(g.problems) do out[#out + 1] = p end
  for _, layer in ipairs(layers) do
    if layer.named and not fs.stat(layer.dir) then add(out, layer.dir, 1, "there is no such folder") end
    for _, stranger in ipairs(site.strangers(layer)) do add(out, stranger.path, 1, stranger.message) end
    check_helpers(layer, out)
  end
  check_files(g, out)
  check_collectors(g, out)
  for _, made in ipairs(programs) do
    if made.file and made.file:sub(1, 1) == "/" then
      check_program(made.program, function(place, message) add(out, made.file, made.line, message, place) end)
    end
  end
  check_rules(g, out)
  names.check(g, function(file, line, message, path) add(out, file, line, message, path) end)
  declare.strict = false
  local n = 0
  for _, id in ipairs(g.order) do
    for _, file in ipairs(g.units[id].files) do n = n + (file.layer.product and 0 or 1) end
  end
  return { problems = sorted(out), generation = g, files = n }
end

return M
