-- SPDX-License-Identifier: MIT
--- What sandboxed scripts may `require`, function by function, and which scopes each asks for. A script may call a function only when what
--- it declares (a tool, a collector, a kind of handle) asks for those scopes too; so who may call the script may call the function.
--- What is not here is not to be had: fs, http, processes, the command line, configuration.
local words = require("lunette.sandbox.words")

local M = {}

local FREE <const> = {}
local COUNTERS <const> = { "read-counters" }
local EVENTS <const> = { "eventpipe" }

-- "a b c" with one list of scopes.
local function all(names, scopes, into)
  into = into or {}
  for name in names:gmatch("%S+") do into[name] = scopes end
  return into
end

--- Module -> function (or constant) -> the scopes that it asks for.
---@type table<string, table<string, string[]>>
M.MODULES = {
  ["lunette.json"] = all("encode decode array is_array null raw", FREE),
  ["lunette.numbers"] = all("address count finite iso parse_address round span timespan ulong", FREE),
  ["lunette.text"] = all("bytes count did_you_mean join keys nearest printable quote with_article", FREE),
  ["lunette.regex"] = all("compile", FREE),
  ["lunette.crypto"] = all("base64 base64url crockford equal hex hmac_sha256 random sha256 unbase64 unbase64url uuid", FREE),
  ["lunette.loop"] = all("now_ms now_ns unix_ms cpu_ms cancelled sleep_ms spawn channel on_cleanup set_budget", FREE),
  ["lunette.log"] = all("debug info notice warning error", FREE),
  ["lunette.sys"] = all("version utf8_cut utf8_sanitize", FREE),
  ["lunette.hints"] = all("MAX new", FREE),
  ["lunette.errors"] = all("KINDS classify new invalid not_supported", FREE),
  ["lunette.redaction"] = all("SENSITIVE METADATA_ONLY SQL_LITERAL redact", FREE),
  ["lunette.kinds"] = all("get names collector did_you_mean", FREE),
  ["lunette.view"] = all("view is_view", FREE),
  ["lunette.collector"] = all("source", EVENTS, all("is_gone", COUNTERS, all("collector empty_recording without_ended", FREE))),
  ["lunette.journey"] = all("captures compare dispersion view", FREE),
  ["lunette.progress"] = all("percent start", FREE),
  ["lunette.probe"] = all("run open", EVENTS, all("RUNTIME RUNDOWN KEYWORDS program count sum min max stats quantiles value distinct first "
    .. "last top group pair timeline filter each", FREE)),
  ["lunette.events"] = all("open", EVENTS, all("sql", FREE)),
  ["lunette.handles"] = all("get peek latest seconds_left", EVENTS),
  ["lunette.process"] = all("resolve without_socket list discover record why_not recall remember name_unreachable", COUNTERS),
  ["lunette.proc"] = all("cgroup clock host io limits pids smaps_rollup stat status fds thread_cpu watch", COUNTERS),
  ["lunette.atomic"] = {}, -- a function, without scopes
  ["lunette.clr"] = all("activity_path", FREE),
  ["lunette.cost"] = all("start", EVENTS),
  ["lunette.fanout"] = all("prepare run", FREE), -- each call asks the caller for its own scopes
  ["lunette.lazy"] = {}, -- `require` of the box, later
  ["lunette.readiness"] = all("attach cpu_efficiency facts native_alloc native_lock off_cpu os_cpu perf", COUNTERS),
  ["lunette.rules.index"] = all("hints", FREE),
  ["lunette.safety"] = all("descriptor rank max refused", FREE),
  ["lunette.sensitive"] = all("LEGACY PLACEHOLDER SCOPE names_secret shown text unlocked", FREE), -- it asks the caller's own rights
  ["lunette.signal"] = all("find stands_out of_capture", FREE),
  ["lunette.source_gate"] = all("ALL ALLOWED EXTRA LEGACY SCOPE UNSAFE_LEVEL check decide enable forces_work warn", FREE),
  ["lunette.thresholds"] = all("of", FREE),
  ["lunette.ipc"] = all("discover resolve process_info ping", COUNTERS),
}

--- Scopes of a function; nil when it is not granted.
---@param module string
---@param name string
---@return string[]?
function M.scopes(module, name)
  local functions = M.MODULES[module]
  return functions and functions[name]
end

--- The names of the modules, sorted.
---@return string[]
function M.names()
  local list = {}
  for name in pairs(M.MODULES) do list[#list + 1] = name end
  table.sort(list)
  return list
end

---@class GrantUse
---@field module string
---@field name string?      the function; nil: any of the module, since the text does not say which
---@field line integer
---@field scopes string[]
---@field unknown true?     there is no such module or function for sandboxed scripts

-- Adds the scopes of every function of a module.
local function any_of(module)
  local seen, list = {}, {}
  for _, scopes in pairs(M.MODULES[module]) do
    for _, scope in ipairs(scopes) do
      if not seen[scope] then seen[scope], list[#list + 1] = true, scope end
    end
  end
  table.sort(list)
  return list
end

--- What a source uses of the modules, read from its text: `local x = require "lunette.m"` and then x.f, or require("lunette.m").f. A module
--- that is handed on whole counts with all that it has. Modules of the site ("site.x") are not followed.
---@param source string
---@return string[] scopes, GrantUse[] uses   the scopes that a declaration must ask for at least, sorted; in the order of the text
function M.required(source)
  local uses, set, list = {}, {}, {}
  for _, use in ipairs(words.uses(source)) do
    local known = M.MODULES[use.module]
    local scopes = known and (use.name and known[use.name] or not use.name and any_of(use.module)) or nil
    if not use.module:find("^site%.") then
      uses[#uses + 1] = { module = use.module, name = use.name, line = use.line, scopes = scopes or {}, unknown = not scopes or nil }
      for _, scope in ipairs(scopes or {}) do
        if not set[scope] then set[scope], list[#list + 1] = true, scope end
      end
    end
  end
  table.sort(list)
  return list, uses
end

return M
