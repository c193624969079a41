-- SPDX-License-Identifier: MIT
-- What comes with the program is written as a site would write it: each file of its rooms runs inside the sandbox, with the words and the
-- modules that a site has.
local declare = require("lunette.declare")
local files = require("lunette.generation.files")
local fs = require("lunette.fs")
local power = require("lunette.generation.power")
local site = require("lunette.site")
local sys = require("lunette.sys")

-- What files of ours use beyond what a site is given, each a native privilege behind a scope or a part of the framework itself: why a
-- site is not given it.
local PRIVILEGED <const> = {
  ["views/process/requests-now.lua lunette.worker"] = "attaches to a process by ptrace, or opens any file as a dump: each tool that does "
    .. "it asks for the scopes of its own",
  ["views/thread-snapshot/resolve-address.lua lunette.worker"] = "the same, a second time",
  ["views/thread-snapshot/frame-vars.lua lunette.worker"] = "the same",
  ["views/process/runtime-config.lua lunette.proc"] = "reads links, files and the environment of another process, behind the scope ptrace",
  ["views/process/runtime-config.lua lunette.artifacts"] = "the same",
  ["views/process/runtime-config.lua memory.settings"] = "the same: it attaches",
  ["views/process/capabilities.lua dumps.able"] = "looks for the runtime's program that writes dumps among the files of another process",
  ["collectors/startup.lua lunette.launch"] = "starts programs with the rights of the server: critical, over stdio only, if the operator "
    .. "allows it",
  ["collectors/counters/trigger.lua lunette.captures"] = "takes dumps and heap walks, each behind the scope of its own tool",
  ["collectors/batch.lua lunette.fanout"] = "a composite tool: its parts' risk becomes its own, and it sets their arguments; a site has "
    .. "prepare and run",
  ["collectors/sweep.lua lunette.fanout"] = "a composite call: its scope covers that of its parts; a site has prepare and run",
  ["collectors/sweep.lua triage"] = "the triage itself, of which it is a part; a site writes rules for it",
}

local ROOMS <const> = { "rules", "hints", "signals", "views", "collectors" }

local layer = { name = "ours", dir = sys.home .. "/lua" }

local function run(file)
  return files.run({ id = file.id, room = file.room, path = file.path, layer = layer }, site.ROOM[file.room], nil)
end

describe("the product's own files #unit", function()
  local product = site.files(site.PRODUCT)

  for _, room in ipairs(ROOMS) do
    it("of " .. room .. "/ run in the sandbox", function()
      local n = 0
      for id, file in pairs(product) do
        local is_ours = file.room == room and not id:find("^views/process/") -- those are branches of inspect_process
        if is_ours and files.product(file) ~= nil then
          local result = run(file)
          local why = result.problems and declare.format(result.problems[1]) or ""
          local needs = why:match('there is no module "([%w_.]+)"')
          assert.is_true(result.problems == nil or PRIVILEGED[("%s.lua %s"):format(id, needs)] ~= nil, why)
          if not result.problems then n = n + 1 end
        end
      end
      assert.is_true(n >= 5, room)
    end)
  end

  it("use no module and no function that a site has not, but for what is privileged", function()
    local used = {}
    for _, room in ipairs(ROOMS) do
      local list = io.popen(("cd '%s' && find %s -name '*.lua'"):format(layer.dir, room))
      for path in list:lines() do
        for _, p in ipairs(power.unknown(assert(fs.read(layer.dir .. "/" .. path, site.MAX_SCRIPT)), path)) do
          local module = p.message:match("^there is no module ([%w_.]+) for") or p.message:match("^([%w_.]+) has no ")
          local key = path .. " " .. module
          assert.is_string(PRIVILEGED[key], ("%s:%d: %s"):format(path, p.line, p.message))
          used[key] = true
        end
      end
      list:close()
    end
    for key in pairs(PRIVILEGED) do assert.is_true(used[key], "not needed any more: " .. key) end
  end)

  -- Limits of what is kept or shown, formats and statistics are no thresholds; each number that something measured is compared with is.
  it("compare what is measured with numbers of rules, signals and hints only", function()
    local NO_THRESHOLD <const> = {
      ["statusCode >= 400"] = "an error by the definition of HTTP", ["status >= 400"] = "the same", ["Level >= %d"] = "an enumeration",
      ["Level >= %d and Level <= 5"] = "an enumeration", ["row.size >= "] = "the layout of a payload", ["best < 3"] = "a kind of row",
      ["n_names >= 1024"] = "a cap of a cache", ["FORM <const>"] = "an example", ["(MethodFlags"] = "bits",
      ["@version >= 2"] = "a version", ["mark.id <= 2"] = "an id",
    }
    local found = {}
    local function is_known(line)
      for text in pairs(NO_THRESHOLD) do
        if line:find(text, 1, true) then return true end
      end
      return false
    end
    for _, room in ipairs({ "views", "collectors" }) do
      local list = io.popen(("cd '%s' && find %s -name '*.lua'"):format(layer.dir, room))
      for path in list:lines() do
        local n = 0
        for line in (assert(fs.read(layer.dir .. "/" .. path, site.MAX_SCRIPT)) .. "\n"):gmatch("(.-)\n") do
          n = n + 1
          local code = line:gsub("%-%-.*$", ""):gsub("%d+ %* [%u_M.]+", "CAP") -- some times a cap
          for before, number in code:gmatch("([%w_%])]+) *[<>]=? *(%d[%d.]*)") do
            local x = tonumber(number)
            local index = before:find("^[#%d]") ~= nil or code:find("#[%w_.]+ *[<>]=? *" .. number) ~= nil
            if not (x == nil or x <= 1 or index or is_known(code) or code:find("[<>][<>]") ~= nil) then
              found[#found + 1] = ("%s:%d compares with %s"):format(path, n, number)
            end
          end
        end
      end
      list:close()
    end
    assert.same({}, found) -- a threshold is a number of a rule: lunette.thresholds
  end)

  it("declare nothing that is unknown", function()
    declare.strict = true
    for _, file in pairs(product) do
      local value = file.room ~= "playbooks" and files.product(file)
      local known = type(value) == "table" and declare.of(value)
      if known then declare.check(known.kind, known.declared, known.at) end
    end
    declare.strict = false
  end)
end)
