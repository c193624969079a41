-- SPDX-License-Identifier: MIT
-- What comes with the program is written as a site would write it: each file of its rooms runs inside the sandbox, with the words and the
-- modules that a site has.
local declare = require("lunette.declare")
local files = require("lunette.generation.files")
local site = require("lunette.site")
local sys = require("lunette.sys")

-- What a collector may need beyond what a site is given, and why a site is not.
local PRIVILEGED <const> = {
  ["lunette.config"] = "settings of the operator: the allowlist, whether programs may be started, the artifact root",
  ["lunette.cost"] = "measures what a window costs the target and us",
  ["lunette.fs"] = "reads the limits of a cgroup before a collection is forced",
  ["lunette.fanout"] = "makes calls of other tools",
  ["lunette.clr"] = "reads paths out of activity ids",
  ["lunette.atomic"] = "keeps counts whole between tasks",
}

local layer = { name = "ours", dir = sys.home .. "/lua" }

local function run(file)
  return files.run({ id = file.id, room = file.room, path = file.path, layer = layer }, site.ROOM[file.room], nil)
end

describe("the product's own files #unit", function()
  local product = site.files(site.PRODUCT)

  for _, room in ipairs({ "rules", "hints", "signals", "views", "collectors" }) do
    it("of " .. room .. "/ run in the sandbox", function()
      local n = 0
      for id, file in pairs(product) do
        local is_ours = file.room == room and not id:find("^views/process/") -- those are branches of inspect_process
        if is_ours and files.product(file) ~= nil then
          local result = run(file)
          local why = result.problems and declare.format(result.problems[1]) or ""
          local needs = why:match('there is no module "(lunette%.%w+)"')
          assert.is_true(result.problems == nil or PRIVILEGED[needs] ~= nil, why)
          if not result.problems then n = n + 1 end
          if room ~= "collectors" then assert.is_nil(result.problems, why) end
        end
      end
      assert.is_true(n >= 5, room)
    end)
  end

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
