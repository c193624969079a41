-- SPDX-License-Identifier: MIT
-- gen-schemas: writes schemas/tools/NAME.input.json and NAME.output.json from the declarations of the tools.
-- Use: lunette lua scripts/gen-schemas.lua          writes them below the source tree
--      lunette lua scripts/gen-schemas.lua --check  tells which are out of date; exit code 1 when one is
local app = require("lunette.app")
local fs = require("lunette.fs")
local json = require("lunette.json")
local schema = require("lunette.schema")
local sys = require("lunette.sys")
local text = require("lunette.text")

local MAX_FILE <const> = 8 * 1024 * 1024

--- JSON with one member a line down to a depth, compact below it: small diffs, small files.
local function pretty(value, depth, indent)
  if depth == 0 or type(value) ~= "table" or value == json.null or next(value) == nil then return json.encode(value) end
  local inner = indent .. " "
  if json.is_array(value) then
    local parts = {}
    for i, item in ipairs(value) do parts[i] = inner .. pretty(item, depth - 1, inner) end
    return "[\n" .. table.concat(parts, ",\n") .. "\n" .. indent .. "]"
  end
  local parts = {}
  for i, key in ipairs(text.keys(value)) do parts[i] = inner .. json.encode(key) .. ": " .. pretty(value[key], depth - 1, inner) end
  return "{\n" .. table.concat(parts, ",\n") .. "\n" .. indent .. "}"
end

local function documents()
  local all = {}
  for name, compiled in pairs(app.tools) do
    all["schemas/tools/" .. name .. ".input.json"] = pretty(schema.input_file(compiled), 2, "") .. "\n"
    all["schemas/tools/" .. name .. ".output.json"] = pretty(schema.output(compiled), 2, "") .. "\n"
  end
  return all
end

local function write(path, body)
  local file = assert(io.open(path, "w"))
  file:write(body)
  file:close()
end

local function main(args)
  local home = sys.home
  assert(schema.load_records(home .. "/schemas/records.json"))
  local loaded = app.load({})
  if #loaded.failures > 0 then error(table.concat(loaded.failures, "\n"), 0) end
  local stale = 0
  local all = documents()
  for _, name in ipairs(text.keys(all)) do
    local path = home .. "/" .. name
    if fs.read(path, MAX_FILE) ~= all[name] then
      stale = stale + 1
      if args[1] == "--check" then
        io.stderr:write(name, " is out of date: lunette lua scripts/gen-schemas.lua writes it\n")
      else
        write(path, all[name])
        sys.write(name .. "\n")
      end
    end
  end
  return args[1] == "--check" and stale > 0 and 1 or 0
end

return main({ ... })
