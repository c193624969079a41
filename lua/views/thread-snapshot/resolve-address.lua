-- SPDX-License-Identifier: MIT
-- thread-snapshot/resolve-address: what lies at addresses, asked of the process (or dump) that the snapshot is of.
local lazy = require("lunette.lazy")
local answer = require("threads.answer")
local errors = require("lunette.errors")
local identity = require("samplers.identity")
local json = require("lunette.json")
local names = require("threads.names")
local numbers = require("lunette.numbers")
local source = lazy("threads.source")
local view = require("lunette.view")
local worker = lazy("lunette.worker")

local MAX <const> = 64
local ORDER <const> = { __order = { "address", "kind", "display", "module", "rva", "buildId", "method" } }

local function parse(text)
  local list = {}
  for part in text:gmatch("[^,]+") do
    local n = numbers.parse_address(part)
    if not n then
      return nil, errors.invalid("address", ("address takes one or more numbers, 0x hex or decimal, with commas between; got %s."):format(
        part))
    end
    list[#list + 1] = numbers.address(n)
  end
  if #list == 0 then return nil, errors.invalid("address", "address is empty.") end
  if #list > MAX then return nil, errors.invalid("address", ("At most %d addresses a call; got %d."):format(MAX, #list)) end
  return list
end

local function base(path) return path and path:match("[^/]+$") or path end

local function display_of(found)
  if found.kind == "managed" then return ("%s+%s"):format(found.name or "<unknown>", found.offset or "0x0") end
  if found.kind == "module" then return ("%s+%s"):format(base(found.module), found.rva) end
  if found.kind == "mapped-non-module" then
    return ("%s+%s"):format(found.module and base(found.module) or "<anonymous memory>", found.rva or "0x0")
  end
  return ("<unmapped-or-not-captured %s>"):format(found.address)
end

local function row(found)
  local method
  if found.kind == "managed" and found.name then
    local type_name, name = names.split(found.name)
    method = identity.of({ kind = found.dynamic and "dynamic" or "managed", type = type_name, name = name, token = found.token },
      { name = base(found.modulePath), path = found.modulePath, mvid = found.mvid })
  end
  return setmetatable({
    address = found.address, kind = found.kind, display = display_of(found), module = base(found.module or found.modulePath),
    rva = found.kind == "module" and found.rva or nil, buildId = found.buildId ~= "" and found.buildId or nil, method = method,
  }, ORDER)
end

return view {
  kind = "thread-snapshot", name = "resolve-address",
  project = function(artifact, opts, _, ctx)
    local list, err = parse(tostring(opts.address))
    if not list then return nil, err end
    local from
    from, err = source.again(artifact)
    if not from then return nil, err end
    local job, options = worker.target(from)
    job.addresses = json.array(list)
    local facts
    facts, err = worker.json(ctx, "resolve", job, options)
    if not facts then return nil, source.explain(artifact, err) end
    local rows = json.array({})
    for i, found in ipairs(facts.addresses) do rows[i] = row(found) end
    return rows, { fields = answer.fields(artifact), summary = ("%d addresses."):format(#rows) }
  end,
}
