-- SPDX-License-Identifier: MIT
-- Which event sources a caller may open, and what is asked of them. An application's own events may hold anything: only the sources of the
-- platform, and those that the operator named, are open to whoever may trace.
local config = require("lunette.config")
local errors = require("lunette.errors")
local generation = require("lunette.generation")
local log = require("lunette.log")
local scopes = require("lunette.scopes")

local M = {}

M.ALLOWED = {
  "System.Runtime", "System.Threading.Tasks.TplEventSource", "System.Buffers.ArrayPoolEventSource", "System.Net.Http", "System.Net.Sockets",
  "System.Net.NameResolution", "System.Net.Security", "Microsoft-Windows-DotNETRuntime", "Microsoft-Windows-DotNETRuntimeRundown",
  "Microsoft-DotNETCore-SampleProfiler", "Microsoft.AspNetCore.Hosting", "Microsoft.AspNetCore.Server.Kestrel",
  "Microsoft-AspNetCore-Server-Kestrel", "Microsoft.AspNetCore.Http.Connections", "Microsoft.AspNetCore.Routing",
  "Microsoft-AspNetCore-Mvc", "Microsoft.Extensions.Diagnostics.HealthChecks", "Microsoft.Extensions.Hosting",
  "Microsoft-Extensions-Logging",
}
M.SCOPE = "eventsource-any"
M.EXTRA = "Diagnostics:EventSourceAllowlist"
M.LEGACY = "Diagnostics:AllowSensitiveHeapValues"
M.MAX_NAME = 256
M.ALL = -1            -- keywords: all of them
M.UNSAFE_LEVEL = 4    -- Informational: the most of a source that nobody vouched for
M.RUNTIME = "Microsoft-Windows-DotNETRuntime"
-- Keywords of the runtime that make it do more than tell: 0x800000 forces a full collection, 0x100000 walks the whole heap in one. They are
-- no part of "all": whoever wants them writes them.
M.RUNTIME_WORK = 0x900000
-- Bits that an EventSource sets on each of its events for itself. Without them in the mask of a session, events that it writes as a list of
-- objects are lost although they have no keyword (8.0, 9.0, 10.0 and NativeAOT); with them nothing else passes.
M.RESERVED = 0xf00000000000

local built_in = {}
for _, name in ipairs(M.ALLOWED) do built_in[name:lower()] = true end

local warned = {}

-- What unlocked a call although scopes should: said once in the log of a process.
local function warn_once(key, message)
  if warned[key] then return end
  warned[key] = true
  log.warning("event_source", message, { setting = key })
end

--- InvalidArgument for a name that cannot be passed to the runtime; nil when it can.
function M.check(name)
  if name == "" or #name > M.MAX_NAME or name:find("[%c\"]") then
    return errors.invalid("providerName",
      ("providerName is the name of an event source: 1 to %d bytes without control characters and quotes."):format(M.MAX_NAME))
  end
  if name:find("*", 1, true) then
    return errors.invalid("providerName", ("providerName is one whole name, not '%s': a runtime cannot be asked for all of its sources. "
      .. "collect_events(kind=\"catalog\") tells which emit events."):format(name))
  end
  return nil
end

local function extra()
  local set, list = {}, config.get(M.EXTRA) or {}
  for _, name in ipairs(list) do set[tostring(name):lower()] = true end
  return set, list
end

local function refusal(name, principal_may)
  local _, more = extra()
  local allowed = { table.unpack(M.ALLOWED) }
  table.move(more, 1, #more, #allowed + 1, allowed)
  for _, named in pairs(generation.current().event_sources) do allowed[#allowed + 1] = named end
  local cure = principal_may and "Call it again with unsafeProvider=true, or choose an allowed one."
    or ("Choose an allowed one, let the operator add it to %s, or use a token with the scope %s together with unsafeProvider=true.")
      :format(M.EXTRA, M.SCOPE)
  return errors.new("EventSourceProviderNotAllowed", ("The event source %s is not on the allowlist. %s Allowed: %s.")
    :format(name, cure, table.concat(allowed, ", ")), { detail = name, hints = {} })
end

---@class EventSourceGrant
---@field provider string
---@field unsafe boolean      opened by unsafeProvider: keywords and level are narrowed
---@field by? string          the setting that allowed it, when no scope did

--- Whether this caller may open that source.
---@param principal Principal?
---@param name string
---@param unsafe boolean   as the caller asked
---@return EventSourceGrant?, table? err
function M.decide(principal, name, unsafe)
  if built_in[name:lower()] or generation.current().event_sources[name:lower()] then return { provider = name, unsafe = false } end
  local literal = scopes.has(principal, M.SCOPE)
  if extra()[name:lower()] then return { provider = name, unsafe = false, by = not literal and M.EXTRA or nil } end
  if not unsafe then return nil, refusal(name, literal or config.get(M.LEGACY) == true) end
  if literal then return { provider = name, unsafe = true } end
  if config.get(M.LEGACY) == true then return { provider = name, unsafe = true, by = M.LEGACY } end
  return nil, refusal(name, false)
end

--- Tells the operator, once in a process, that a setting and no scope opened a source.
function M.warn(grant)
  if grant.by == M.EXTRA then
    warn_once(M.EXTRA, "a source was opened by the allowlist of the deployment alone; tokens with eventsource-any tell callers apart")
  elseif grant.by == M.LEGACY then
    warn_once(M.LEGACY, "a source was opened by a deprecated setting; give the token the scope eventsource-any instead")
  end
end

--- What a session enables: keywords and level after the rules, and notes on what they changed.
---@param grant EventSourceGrant
---@param keywords integer   M.ALL: all
---@param level integer
---@return { keywords: integer, mask: integer, level: integer, notes: string[] } enabled   mask: for the session
function M.enable(grant, keywords, level)
  local notes = {}
  if grant.unsafe and keywords == M.ALL then
    keywords = 0
    notes[#notes + 1] = "KeywordsNarrowed: keywords=0 on the unsafeProvider path, so only events without keywords come; give a mask for "
      .. "others."
  end
  if grant.unsafe and level > M.UNSAFE_LEVEL then
    level = M.UNSAFE_LEVEL
    notes[#notes + 1] = "LevelNarrowed: eventLevel=4 (Informational) on the unsafeProvider path."
  end
  if keywords == M.ALL and grant.provider:lower() == M.RUNTIME:lower() then
    keywords = ~M.RUNTIME_WORK
    notes[#notes + 1] = ("KeywordsNarrowed: all but 0x%x, which would make the runtime collect and walk its heap; give a mask to have it.")
      :format(M.RUNTIME_WORK)
  end
  local mask = grant.provider:lower() == M.RUNTIME:lower() and keywords or keywords | M.RESERVED
  return { keywords = keywords, mask = mask, level = level, notes = notes }
end

--- Whether a call makes the runtime work: an explicit mask with those keywords.
function M.forces_work(name, keywords)
  return name:lower() == M.RUNTIME:lower() and keywords ~= M.ALL and keywords & M.RUNTIME_WORK ~= 0
end

return M
