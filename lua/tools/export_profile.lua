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

local function export() return require("samplers.export") end

local function entry_of(id, parameter)
  local entry, err = handles.get(id:upper())
  if not entry then
    err.detail = parameter
    return nil, err
  end
  if export().can(entry) then return entry end
  return nil, errors.new("UnsupportedHandleKind", ("A %s handle has no call tree to export. cpu-sample and allocation-sample handles have.")
    :format(entry.kind), { detail = entry.kind, hints = {
      hints.new("collect_sample", "Sample the stacks.",
        { kind = "cpu", processId = entry.process_id ~= 0 and entry.process_id or nil }, "high"),
    } })
end

local function entries_of(args)
  local entry, err = entry_of(args.handle, "handle")
  if not entry then return nil, err end
  if not args.baselineHandle then return { entry = entry } end
  if args.format ~= "flamegraph" then
    return nil, errors.invalid("baselineHandle", "baselineHandle colours a flame graph; other formats hold one capture.")
  end
  local baseline
  baseline, err = entry_of(args.baselineHandle, "baselineHandle")
  if not baseline then return nil, err end
  if baseline.kind ~= entry.kind then
    return nil, errors.invalid("baselineHandle", ("baselineHandle must be a %s handle, as handle is; it is a %s."):format(entry.kind,
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

local function run(ctx, args)
  local found, err = entries_of(args)
  if not found then return nil, err end
  local entry, how = found.entry, export().FORMATS[args.format]
  local by_bytes = entry.artifact.profile:info().bytes ~= nil and not args.countSamples
  local content -- behind this the handle may be gone
  content, err = export().content(entry, args.format, { baseline = found.baseline, samples = args.countSamples })
  if not content then return nil, err end
  local name
  name, err = write(entry, how, content)
  if not name then return nil, err end
  local uri = "profile://" .. entry.id .. "/"
  local shown = ctx.transport == "cli" and require("lunette.recordings").root() .. "/" .. name or name
  return setmetatable({
    handle = entry.id, baselineHandle = found.baseline and found.baseline.id, format = args.format,
    counted = by_bytes and "bytes" or "samples", path = shown, bytes = #content, sha256 = crypto.hex(crypto.sha256(content)),
    resourceUri = not found.baseline and uri .. args.format or nil,
    flameUri = args.format == "flamegraph" and not found.baseline and uri .. "flame" or nil,
  }, ORDER), {
    summary = ("%s of %s as %s: %s in %s."):format(entry.kind == "allocation-sample" and "The allocations" or "The stack samples",
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
    .. "graph (one HTML page), speedscope JSON, folded stacks or pprof.",
  scopes = { list = { "investigation-export" }, semantics = "any" }, call_scopes = call_scopes,
  params = {
    { "handle", "string", required = true, trim = true, note = "The capture." },
    {
      "format", "string", default = "flamegraph", ci = true, enum = { "flamegraph", "speedscope", "folded", "pprof" },
      note = "flamegraph: a page with search, zoom, reverse.",
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
