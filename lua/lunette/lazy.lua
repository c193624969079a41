-- SPDX-License-Identifier: MIT
-- lazy: modules that are loaded when something of them is first used. Most runs use few of the collectors, and a server is to answer soon
-- after its start. `local lazy = require("lunette.lazy")`, then `local wire = lazy("collectors.gc.wire")`.

local M = {}

--- `lazy` upon a `require` of one's own (a sandbox has one).
---@param requires fun(name: string): any
---@return fun(name: string): table
function M.upon(requires)
  local name_of = setmetatable({}, { __mode = "k" })

  -- Loads the module in the proxy's place: from then on a field costs one look-up more than one of the module itself.
  local function module_of(proxy)
    local loaded = requires(name_of[proxy])
    setmetatable(proxy, {
      __index = loaded, __newindex = loaded,
      __call = function(_, ...) return loaded(...) end, __pairs = function() return pairs(loaded) end,
    })
    return loaded
  end

  local unloaded = {
    __index = function(proxy, key) return module_of(proxy)[key] end,
    __newindex = function(proxy, key, value) module_of(proxy)[key] = value end,
    __call = function(proxy, ...) return module_of(proxy)(...) end,
    __pairs = function(proxy) return pairs(module_of(proxy)) end,
  }

  return function(name)
    local proxy = setmetatable({}, unloaded)
    name_of[proxy] = name
    return proxy
  end
end

local of_the_program = M.upon(require)

--- What require gives for a module that is a table or a function, without loading it yet. What is wrong with the module is told at its
--- first use.
---@param name string
---@return table
function M.lazy(name) return package.loaded[name] or of_the_program(name) end

return setmetatable(M, { __call = function(_, name) return M.lazy(name) end })
