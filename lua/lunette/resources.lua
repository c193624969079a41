-- SPDX-License-Identifier: MIT
-- resources: what clients may read: captures behind handles, the catalogue of kinds and views, and the guide.
local errors = require("lunette.errors")
local fs = require("lunette.fs")
local generation = require("lunette.generation")
local handles = require("lunette.handles")
local json = require("lunette.json")
local kinds = require("lunette.kinds")
local lazy = require("lunette.lazy")
local scopes = require("lunette.scopes")
local text = require("lunette.text")
local view = require("lunette.view")

local M = {}

local MAX_GUIDE <const> = 256 * 1024
local NOT_HERE <const> = -32602
local APP <const> = "text/html;profile=mcp-app"

local function contents(uri, mime, body) return { contents = json.array({ { uri = uri, mimeType = mime, text = body } }) } end

-- The entry behind a handle of that kind, for a principal that may read it; nil, err otherwise.
local function entry_of(ctx, id, kind)
  local entry, err = handles.get(id:upper())
  if not entry then return nil, errors.protocol(NOT_HERE, err.message, { kind = err.kind, handle = id }) end
  if entry.kind ~= kind.name then
    local message = ("Handle %s is %s, not %s."):format(id, text.with_article(entry.kind), text.with_article(kind.name))
    return nil, errors.protocol(NOT_HERE, message, { kind = "HandleKindMismatch", handle = id })
  end
  local ok, missing = scopes.check(ctx.principal, kind.scopes)
  if not ok then
    return nil, errors.protocol(NOT_HERE, "This needs the scope " .. missing .. ".", { kind = "PermissionDenied", missing = missing })
  end
  return entry
end

--- Handles of a kind that begin with what was typed, newest first.
function M.complete_handle(kind_name)
  return function(_, prefix)
    local list = {}
    for _, entry in ipairs(handles.list()) do
      if (not kind_name or entry.kind == kind_name) and entry.id:sub(1, #prefix) == prefix:upper() then table.insert(list, 1, entry.id) end
    end
    return list
  end
end

-- A template over one kind. read_entry(entry) -> table, or nil, err.
local function of_handle(template, title, kind_name, read_entry)
  local kind = kinds.get(kind_name)
  return {
    uriTemplate = template, name = template:match("^([%w%-]+)"), title = title, mimeType = "application/json",
    complete = { handle = M.complete_handle(kind_name) },
    read = function(ctx, uri, vars)
      local entry, err = entry_of(ctx, vars.handle, kind)
      if not entry then return nil, err end
      local body
      body, err = read_entry(entry)
      if not body then return nil, err end
      return contents(uri, "application/json", json.encode(body))
    end,
  }
end

-- What an artifact says of itself for a resource: its method of that name.
local function asked(method)
  return function(entry)
    local artifact = entry.artifact
    local fn = (type(artifact) == "table" or type(artifact) == "userdata") and artifact[method]
    if type(fn) ~= "function" then
      return nil, errors.protocol(NOT_HERE, "This capture has no such resource.", { kind = "NotSupported", handle = entry.id })
    end
    return fn(artifact, entry)
  end
end

local function with_prefix(words, prefix)
  local list = {}
  for _, word in ipairs(words) do
    if word:sub(1, #prefix):lower() == prefix:lower() then list[#list + 1] = word end
  end
  return list
end

local function describe_view(kind, name)
  local v = kind.views[name]
  local options = {}
  for i, option in ipairs(v.order) do
    options[i] = { name = option, required = v.options[option].required or nil, default = v.options[option].default }
  end
  return {
    kind = kind.name, view = name, default = name == kind.default_view or nil, options = json.array(options), payload = v.payload,
    requiredScopes = json.array((v.scopes or kind.scopes).list), semantics = (v.scopes or kind.scopes).semantics,
    riskLevel = v.risk, available = view.find(kind.name, name) ~= nil,
  }
end

local function views_template()
  return {
    uriTemplate = "diag://views/{kind}/{view}", name = "views", title = "What a view answers", mimeType = "application/json",
    description = "Options, payload and scopes of a view of query_snapshot.",
    complete = {
      kind = function(_, prefix) return with_prefix(kinds.names(), prefix) end,
      view = function(_, prefix, chosen)
        local kind = kinds.get(chosen and chosen.kind)
        return kind and with_prefix(kind.view_names, prefix) or {}
      end,
    },
    read = function(_, uri, vars)
      local kind = kinds.get(vars.kind)
      if not kind or not kind.views[vars.view] then
        local near = kind and kind.view_names or kinds.names()
        return nil, errors.protocol(NOT_HERE, "There is no such view. There are: " .. table.concat(near, ", ") .. ".", { uri = uri })
      end
      return contents(uri, "application/json", json.encode(describe_view(kind, vars.view)))
    end,
  }
end

local function guide(base)
  return {
    uri = "diag://guides/investigation", name = "investigation", title = "How to investigate", mimeType = "text/markdown",
    description = "Which tool answers which question, from cheap to intrusive.",
    read = function(_, uri)
      local body, err = fs.read(base .. "/playbooks/guides/investigation.md", MAX_GUIDE)
      if not body then return nil, err end
      return contents(uri, "text/markdown", body)
    end,
  }
end

-- What of the site's scripts is in use, and what is broken.
local function scripts()
  return {
    uri = "lunette://scripts", name = "scripts", title = "Site scripts", mimeType = "application/json",
    description = "Which scripts of which layers are in use, and which are broken, with file and line.",
    read = function(_, uri)
      local status = require("lunette.generation.status")
      return contents(uri, "application/json", json.encode(status.of(generation.current())))
    end,
  }
end

-- The call tree behind a handle, in the format of another program.
local function profiles()
  local export = lazy("samplers.export")
  return {
    uriTemplate = "profile://{handle}/{format}", name = "profile", title = "Call tree of a capture",
    description = "format: flamegraph (an HTML page), speedscope, folded, pprof, or flame (the data of the page).",
    complete = { handle = M.complete_handle(), format = function(_, prefix) return with_prefix(text.keys(export.FORMATS), prefix) end },
    read = function(ctx, uri, vars)
      local how, found = export.FORMATS[vars.format], handles.peek(vars.handle:upper())
      if not how then
        local message = "There is no such format. There are: " .. table.concat(text.keys(export.FORMATS), ", ") .. "."
        return nil, errors.protocol(NOT_HERE, message, { uri = uri })
      end
      local entry, err = entry_of(ctx, vars.handle, kinds.get(found and found.kind) or kinds.get("cpu-sample"))
      if not entry then return nil, err end
      if not export.can(entry) then
        local message = ("The handle is %s and has no call tree."):format(text.with_article(entry.kind))
        return nil, errors.protocol(NOT_HERE, message, { kind = "NotSupported", handle = entry.id })
      end
      local content
      content, err = export.content(entry, vars.format)
      if not content then return nil, err end
      if not how.binary then return contents(uri, how.mime, content) end
      return { contents = json.array({ { uri = uri, mimeType = how.mime, blob = require("lunette.crypto").base64(content) } }) }
    end,
  }
end

-- The page that clients with MCP Apps show for export_profile: it reads profile://HANDLE/flame.
local function flame_page()
  return {
    uri = "ui://lunette/flamegraph", name = "flamegraph", title = "Flame graph", mimeType = APP,
    description = "Shows the result of export_profile.",
    read = function(_, uri)
      local page, err = require("samplers.export").page()
      if not page then return nil, err end
      return contents(uri, APP, page)
    end,
  }
end

--- Adds all resources and templates.
---@param registry table
---@param base string   folder that holds playbooks/
function M.register(registry, base)
  registry.add_resource(guide(base))
  registry.add_resource(scripts())
  registry.add_resource(flame_page())
  registry.add_template(profiles())
  registry.add_template(of_handle("signals://cpu-sample/{handle}", "Signals of a CPU sample", "cpu-sample", asked("signals_resource")))
  registry.add_template(of_handle("heap-snapshot://{handle}", "Heap snapshot, metadata only", "heap-snapshot", asked("resource")))
  registry.add_template({
    uriTemplate = "journey://diff/{handle}", name = "journey", title = "Full matrix of a diff", mimeType = "application/json",
    complete = { handle = M.complete_handle("journey-diff") },
    read = function(ctx, uri, vars)
      local entry, err = handles.get(vars.handle:upper())
      if not entry then return nil, errors.protocol(NOT_HERE, err.message, { kind = err.kind, handle = vars.handle }) end
      local of = kinds.get(type(entry.artifact) == "table" and entry.artifact.of_kind or entry.kind)
      local ok, missing = scopes.check(ctx.principal, of and of.scopes or { semantics = "all", list = {} })
      if not ok then return nil, errors.protocol(NOT_HERE, "This needs the scope " .. missing .. ".", { kind = "PermissionDenied" }) end
      local body
      body, err = asked("journey_resource")(entry)
      if not body then return nil, err end
      return contents(uri, "application/json", json.encode(body))
    end,
  })
  registry.add_template(views_template())
end

return M
