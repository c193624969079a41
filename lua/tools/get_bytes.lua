-- SPDX-License-Identifier: MIT
-- get_bytes: modules, dumps and traces in pieces, for a tool that is elsewhere; the inventory of the artifacts, and the removal of one.
local lazy = require("lunette.lazy")
local artifacts = lazy("lunette.artifacts")
local crypto = lazy("lunette.crypto")
local errors = require("lunette.errors")
local hints = require("lunette.hints")
local json = require("lunette.json")
local loop = require("lunette.loop")
local modules = lazy("artifacts.modules")
local numbers = require("lunette.numbers")
local store = lazy("artifacts.store")
local text = require("lunette.text")
local tool = require("lunette.tool")

local MAX_CHUNK <const> = 16 * 1024 * 1024
local MAX_ANSWER <const> = 48 * 1024 * 1024 -- of a piece in base64
local MAX_ROWS <const> = 200
local NS_PER_MS <const> = 1000000
local BYTES <const> = { "module-bytes-read" }
local PIECES <const> = { "module", "dump", "trace" }
local PIECE <const> = { __order = {
  "kind", "asset", "identifier", "sourcePath", "totalSize", "sha256", "offset", "chunkSize", "nextOffset", "companionPdbPath",
  "pdbIsEmbedded", "processId", "base64Chunk" } }
local ENTRY <const> = { __order = { "relativePath", "absolutePath", "sizeBytes", "lastModifiedUtc", "ageSeconds" } }
local INVENTORY <const> = { __order = { "root", "count", "totalSizeBytes", "artifacts" } }

local LARGE <const> = 2 * 1024 * 1024 -- bytes of a piece that is not made beside another: each takes six times its size for a moment
local LARGE_WAIT_MS <const> = 60000
local turn -- a channel that holds one token

-- Waits for its turn, which ends with the task. true, or nil, err.
local function wait_for_turn(args)
  if args.maxBytes <= LARGE then return true end
  if not turn then
    turn = loop.channel(1)
    turn:send(true)
  end
  local mine, err = turn:recv(LARGE_WAIT_MS)
  if not mine then
    if err.kind ~= "Timeout" then return nil, err end
    return nil, errors.new("Busy", "Other large pieces are being fetched. Ask again, or for smaller pieces.", { detail = "maxBytes" })
  end
  loop.on_cleanup(function()
    collectgarbage()
    turn:send(true)
  end)
  return true
end

-- The envelope of a piece, and the hint at the next one.
local function answer(piece, args, more)
  local at = args.offset + #piece.bytes
  local rest = at < piece.size
  local data = setmetatable({
    kind = args.kind, totalSize = piece.size, sha256 = piece.sha256, offset = args.offset, chunkSize = #piece.bytes,
    nextOffset = rest and at or nil, base64Chunk = crypto.base64(piece.bytes),
  }, PIECE)
  piece.bytes = nil -- it may be large
  for k, v in pairs(more.fields) do data[k] = v end
  local again = rest and { kind = args.kind, offset = at, maxBytes = args.maxBytes }
  for k, v in pairs(rest and more.again or {}) do again[k] = v end
  return data, {
    summary = ("Bytes %d to %d of %d of %s.%s"):format(args.offset, at, piece.size, data.identifier,
      rest and (" The next piece begins at %d."):format(at) or " That is the last piece."),
    process = more.process, hints = again and { hints.new("get_bytes", "Fetch the next piece.", again) } or {},
  }
end

local function path_of(kind)
  local parameter = kind .. "FilePath"
  return function(_, args)
    local name, err = store.existing(args[parameter], parameter, true)
    if not name then return nil, err end
    local ok
    ok, err = wait_for_turn(args)
    if not ok then return nil, err end
    local piece
    piece, err = artifacts.read(store.root(), name, args.offset, args.maxBytes)
    if not piece then
      if err.kind == "InvalidArgument" and (err.detail or "") == "" then err.detail = parameter end
      return nil, store.about(err, parameter)
    end
    local path = store.path(name)
    return answer(piece, args, {
      fields = { asset = kind, identifier = path, sourcePath = path }, again = { [parameter] = args[parameter] },
    })
  end
end

local function module(ctx, args)
  local found, err = modules.find(ctx, args)
  if not found then return nil, err end
  local ok
  ok, err = wait_for_turn(args)
  if not ok then return nil, err end
  local piece
  piece, err = modules.read(found, args)
  if not piece then return nil, err end
  return answer(piece, args, {
    process = found.process, again = {
      moduleVersionId = args.moduleVersionId, asset = args.asset ~= "pe" and args.asset or nil, processId = found.process.pid,
    },
    fields = {
      asset = args.asset, identifier = found.mvid, sourcePath = found.source, companionPdbPath = found.pdb_path,
      pdbIsEmbedded = found.pdb_embedded, processId = found.process.pid,
    },
  })
end

local function row(name, info, now_ms)
  local at_ms = info.mtime_ns // NS_PER_MS
  return setmetatable({
    relativePath = name, absolutePath = store.path(name), sizeBytes = info.size, lastModifiedUtc = numbers.iso(at_ms),
    ageSeconds = numbers.round(math.max(0, now_ms - at_ms) / 1000, 1),
  }, ENTRY)
end

-- What is still being written is none yet.
local function is_whole(name) return not name:find("%.part$") and not name:find("%.lunette%-%x+/") end

local function list()
  local found, err = artifacts.list(store.root())
  if not found then return nil, err end
  local rows, total, count, now_ms = json.array({}), 0, found.dropped or 0, loop.unix_ms()
  for _, one in ipairs(found) do
    if is_whole(one.name) then
      total, count = total + one.size, count + 1
      if #rows < MAX_ROWS then rows[#rows + 1] = row(one.name, one, now_ms) end
    end
  end
  return setmetatable({ root = store.root(), count = count, totalSizeBytes = total, artifacts = rows }, INVENTORY), {
    summary = ("%d artifacts, %s, below %s.%s"):format(count, text.bytes(total), store.root(),
      count > #rows and (" The newest %d are listed."):format(#rows) or ""),
  }
end

local function delete(_, args)
  local name, err = store.existing(args.artifactPath, "artifactPath")
  if not name then return nil, err end
  local gone
  gone, err = artifacts.remove(store.root(), name)
  if not gone then return nil, store.about(err, "artifactPath") end
  return row(name, gone, loop.unix_ms()), {
    summary = ("%s (%s) is removed."):format(name, text.bytes(gone.size)),
    hints = { hints.new("get_bytes", "See what is left.", { kind = "list" }) },
  }
end

local function check_module(args)
  if modules.is_guid(args.moduleVersionId) then return true end
  return nil, errors.invalid("moduleVersionId", "moduleVersionId is a GUID: 8-4-4-4-12 hexadecimal digits.")
end

-- Content leaves the host, for a scope that no token has by chance; what is changed is nothing.
local function content(reason)
  return { level = "moderate", target_impact = "none", data_exposure = "secrets", reason = reason }
end

local function piece_branch(run, risk, check)
  return { run = run, risk = risk, payload = "ByteFetchEnvelope", scopes = BYTES, budget = MAX_ANSWER, check = check }
end

return tool {
  name = "get_bytes", title = "Fetch bytes",
  description = "Fetches a module, dump or trace in pieces with the SHA-256 of the whole; lists the artifacts; deletes one.",
  scopes = { list = BYTES },
  annotations = { read_only = false, destructive = true },
  discriminator = "kind",
  params = {
    { "kind", "string", enum = { "module", "dump", "trace", "list", "delete" }, required = true, trim = true, note = "What to do." },
    { "moduleVersionId", "string?", applies_to = { "module" }, required_for = { "module" }, trim = true, lower = true, note = "GUID." },
    { "asset", "string", enum = { "pe", "pdb" }, default = "pe", ci = true, applies_to = { "module" }, note = "The file or its symbols." },
    tool.process_id { applies_to = { "module" } },
    {
      "dumpFilePath", "string?", applies_to = { "dump" }, required_for = { "dump" }, note = "Below the artifact root.",
    },
    { "traceFilePath", "string?", applies_to = { "trace" }, required_for = { "trace" }, note = "Below the artifact root." },
    { "artifactPath", "string?", applies_to = { "delete" }, required_for = { "delete" }, note = "Relative to the artifact root." },
    { "offset", "long", default = 0, min = 0, applies_to = PIECES, note = "Where the piece begins." },
    { "maxBytes", "int", default = 4194304, min = 1, clamp_to = MAX_CHUNK, applies_to = PIECES, note = "Of the piece." },
  },
  branches = {
    module = piece_branch(module, {
      level = "moderate", target_impact = "none", data_exposure = "content", reason = "Reads the code of an application from the disk.",
    }, check_module),
    dump = piece_branch(path_of("dump"), content("The memory of a process leaves the host.")),
    trace = piece_branch(path_of("trace"), content("What a process told of itself leaves the host.")),
    list = { run = list, risk = "low", payload = "ArtifactInventory", scopes = BYTES },
    delete = {
      run = delete, payload = "ArtifactEntry", scopes = { "module-bytes-read", "delete-artifact" },
      risk = {
        level = "high", target_impact = "none", data_exposure = "metadata", reason = "Removes a file for good.",
        side_effects = { "removes a file below the artifact root" },
      },
    },
  },
}
