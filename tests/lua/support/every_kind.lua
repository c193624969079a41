-- SPDX-License-Identifier: MIT
-- One capture of each kind of collect_events over a recording with known contents, for what must hold for all of them alike.
local collect_events = require("tools.collect_events")
local kit = require("support.framework_kit")
local sys = require("lunette.sys")

local M = {}

--- Kinds that are made of others, or work on Pods: they have no window of their own.
M.COMPOSITE = { sweep = true, distributed_trace = true, replica_counters = true }
--- Kinds without a depth: their answer is the same at any.
M.NO_DEPTH = { activities = true }

-- kind -> a recording that has something of it, and what the kind must be told.
local RECORDED <const> = {
  counters = { "../demo" }, exceptions = { "throw" }, ["crash-guard"] = { "crash" }, gc = { "datas" }, datas = { "datas" },
  catalog = { "source" }, event_source = { "gcs", { providerName = "Microsoft-Windows-DotNETRuntime" } }, activities = { "spans" },
  logs = { "logs" }, jit = { "jit" }, threadpool = { "starve" }, contention = { "fights" }, db = { "db" }, kestrel = { "serve" },
  networking = { "http" }, requests = { "serve" }, startup = { "services" }, ["wait-handles"] = { "waits" },
  ["runtime-metrics"] = { "../demo" }, ["allocations-sampled"] = { "alloc" }, ["http-phases"] = { "http" },
}

local kept = {} -- answers by kind and depth: each recording is read once

--- The kinds with a window, in the order of the schema. A new one needs a recording here.
function M.kinds()
  local list = {}
  for _, kind in ipairs(collect_events.branch_names) do
    if not M.COMPOSITE[kind] then
      if not RECORDED[kind] then error("tests/lua/support/every_kind.lua names no recording of the kind " .. kind) end
      list[#list + 1] = kind
    end
  end
  return list
end

--- The arguments of a call of that kind over its recording.
---@param kind string
---@param more? table
function M.arguments(kind, more)
  local name, own = table.unpack(RECORDED[kind])
  local given = { kind = kind, traceFilePath = ("%s/tests/data/recordings/%s.nettrace"):format(sys.home, name) }
  for _, list in ipairs { own or {}, more or {} } do
    for k, v in pairs(list) do given[k] = v end
  end
  return given
end

--- A caller who may read recordings from anywhere.
---@param options? table   of framework_kit.ctx
function M.ctx(options)
  local ctx = kit.ctx(options)
  ctx.transport = "cli"
  return ctx
end

--- The answer of a kind at a depth, made once.
---@param kind string
---@param depth? string   as the caller writes it; absent: not given
---@return table envelope
function M.answer(kind, depth)
  local key = kind .. "/" .. (depth or "")
  if not kept[key] then
    local envelope = kit.call(collect_events, M.arguments(kind, { depth = not M.NO_DEPTH[kind] and depth or nil }), M.ctx())
    if envelope.error then error(("%s: %s"):format(kind, envelope.error.message), 2) end
    kept[key] = envelope
  end
  return kept[key]
end

--- Forgets the answers, when their handles are gone.
function M.forget() kept = {} end

return M
