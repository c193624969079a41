-- SPDX-License-Identifier: MIT
-- export_profile: the call tree of a capture as a file: a flame graph for a browser, or the format of another program.
local crypto = require("lunette.crypto")
local errors = require("lunette.errors")
local fs = require("lunette.fs")
local handles = require("lunette.handles")
local hints = require("lunette.hints")
local kinds = require("lunette.kinds")
local loop = require("lunette.loop")
local text = require("lunette.text")
local tool = require("lunette.tool")

local FOLDER <const> = "exports"
local RANDOM <const> = 8
local ORDER <const> = { __order = {
  "handle", "baselineHandle", "format", "counted", "path", "bytes", "sha256", "resourceUri", "flameUri",
} }

local HEAP <const>, HEAP_FORMAT <const> = "heap-snapshot", "heapmap"

local function export() return require("samplers.export") end

local function format_of(args) return args.format == HEAP_FORMAT and require("heap.export").FORMAT or export().FORMATS[args.format] end

local function entry_of(id, parameter)
  local entry, err = handles.get(id:upper())
  if not entry then
    err.detail = parameter
    return nil, err
  end
  if export().can(entry) or entry.kind == HEAP then return entry end
  return nil, errors.new("UnsupportedHandleKind", ("The handle is %s: no call tree to export. cpu-sample and allocation-sample have one.")
    :format(text.with_article(entry.kind)), { detail = entry.kind, hints = {
      hints.new("collect_sample", "Sample the stacks.",
        { kind = "cpu", processId = entry.process_id ~= 0 and entry.process_id or nil }, "high"),
    } })
end

-- A heap has one form, which nothing else has.
local function check_form(entry, args, given)
  if entry.kind == HEAP and not given.format then args.format = HEAP_FORMAT end
  if (entry.kind == HEAP) == (args.format == HEAP_FORMAT) then return true end
  return nil, errors.invalid("format", entry.kind == HEAP and "A heap-snapshot is exported as heapmap."
    or "heapmap shows a heap-snapshot; this handle has a call tree.")
end

local function entries_of(args, given)
  local entry, err = entry_of(args.handle, "handle")
  if not entry then return nil, err end
  local ok
  ok, err = check_form(entry, args, given)
  if not ok then return nil, err end
  if not args.baselineHandle then return { entry = entry } end
  if args.format ~= "flamegraph" then
    return nil, errors.invalid("baselineHandle", "baselineHandle colours a flame graph; other formats hold one capture.")
  end
  local baseline
  baseline, err = entry_of(args.baselineHandle, "baselineHandle")
  if not baseline then return nil, err end
  if baseline.kind ~= entry.kind then
    return nil, errors.invalid("baselineHandle", ("baselineHandle must be of the kind %s, as handle is; it is of %s."):format(entry.kind,
      baseline.kind))
  end
  return { entry = entry, baseline = baseline }
end

-- A new file below the artifact root, for its owner alone.
local function write(entry, how, content)
  local recordings = require("lunette.recordings")
  local name = ("%s/%s-%d-%s%s"):format(FOLDER, os.date("!%Y%m%dT%H%M%SZ", loop.unix_ms() // 1000), entry.process_id,
    crypto.crockford(RANDOM):lower(), how.suffix)
  local root = recordings.root()
  local ok, err = fs.mkdirs(root .. "/" .. FOLDER)
  if ok then require("artifacts.reaper").sweep() end
  if ok then ok, err = fs.write_private(root .. "/" .. name, content) end
  if ok then return name end
  return nil, errors.new("Internal", ("The export cannot be written below %s: %s. Set MCP_ARTIFACT_ROOT to a folder that can be written "
    .. "to."):format(root, tostring(err)), { hints = {} })
end

local function content_of(found, args)
  if args.format == HEAP_FORMAT then return require("heap.export").content(found.entry) end
  return export().content(found.entry, args.format, { baseline = found.baseline, samples = args.countSamples })
end

local WHAT <const> = { ["allocation-sample"] = "The allocations", ["cpu-sample"] = "The stack samples", [HEAP] = "The heap" }

local function run(ctx, args, call)
  local found, err = entries_of(args, call.explicit)
  if not found then return nil, err end
  local entry, how = found.entry, format_of(args)
  local profile = entry.artifact.profile
  local by_bytes = not profile or profile:info().bytes ~= nil and not args.countSamples
  local content -- behind this the handle may be gone
  content, err = content_of(found, args)
  if not content then return nil, err end
  local name
  name, err = write(entry, how, content)
  if not name then return nil, err end
  local uri = "profile://" .. entry.id .. "/"
  local shown = ctx.transport == "cli" and require("lunette.recordings").root() .. "/" .. name or name
  return setmetatable({
    handle = entry.id, baselineHandle = found.baseline and found.baseline.id, format = args.format,
    counted = by_bytes and "bytes" or "samples", path = shown, bytes = #content, sha256 = crypto.hex(crypto.sha256(content)),
    resourceUri = profile and not found.baseline and uri .. args.format or nil,
    flameUri = args.format == "flamegraph" and not found.baseline and uri .. "flame" or nil,
  }, ORDER), {
    summary = ("%s of %s as %s: %s in %s."):format(WHAT[entry.kind] or "The samples",
      entry.id, args.format, text.bytes(#content), shown),
  }
end

-- Who may ask about the handle may have it as a file.
local function call_scopes(_, args)
  local entry = type(args.handle) == "string" and handles.peek(args.handle:upper())
  local kind = entry and kinds.get(entry.kind)
  return kind and kind.scopes.list or { "investigation-export" }
end

return tool {
  name = "export_profile", title = "Export a profile",
  description = "Writes the call tree of a cpu-sample or allocation-sample handle to a file below the artifact root: an interactive flame "
    .. "graph (one HTML page), speedscope JSON, folded stacks or pprof; a heap-snapshot as a treemap and sunburst of what keeps what.",
  scopes = { list = { "investigation-export" }, semantics = "any" }, call_scopes = call_scopes,
  params = {
    { "handle", "string", required = true, trim = true, note = "The capture." },
    {
      "format", "string", default = "flamegraph", ci = true, enum = { "flamegraph", "speedscope", "folded", "pprof", "heapmap" },
      note = "flamegraph, heapmap: a page with search and zoom.",
    },
    {
      "baselineHandle", "string?", trim = true,
      note = "flamegraph: an earlier capture of the same kind; colours show what grew and shrank.",
    },
    { "countSamples", "bool", default = false, note = "Allocations: count samples instead of bytes." },
  },
  ui = "ui://lunette/flamegraph", risk = {
    level = "low", reason = "Writes what a capture has seen to a file; the target is not asked again.",
    side_effects = { "writes a file below the artifact root" },
  }, payload = "ProfileExport", run = run,
}
