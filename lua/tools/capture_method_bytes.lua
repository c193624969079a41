-- SPDX-License-Identifier: MIT
-- capture_method_bytes: the native code that the JIT has made of one method, as files: one for its hot region, one for its cold one.
local lazy = require("lunette.lazy")
local artifacts = lazy("lunette.artifacts")
local errors = require("lunette.errors")
local hints = require("lunette.hints")
local json = require("lunette.json")
local process = require("lunette.process")
local store = lazy("artifacts.store")
local text = require("lunette.text")
local tool = require("lunette.tool")
local worker = lazy("lunette.worker")

local PTRACE <const> = { "ptrace" }
local ARCHITECTURE <const> = "X64"
local MAX_NAME <const> = 120 -- bytes of a method's name in a file's name
local GUID <const> = "^%x%x%x%x%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%x%x%x%x%x%x%x%x$"
local ORDER <const> = { __order = {
  "origin", "processId", "runtimeName", "runtimeVersion", "architecture", "method", "regions", "outputDirectory", "warnings" } }
local METHOD <const> = { __order = {
  "methodName", "genericArity", "moduleName", "modulePath", "moduleVersionId", "metadataToken", "typeFullName" } }
local REGION <const> = { __order = { "filePath", "size", "baseAddress", "architecture", "region", "tier", "compilationType" } }
local LIVE <const> = {
  level = "high", target_impact = "low", data_exposure = "content", reason = "It attaches to the process and suspends it for a moment.",
  side_effects = { "writes files below the artifact root" }, mitigations = { "read a dump instead: dumpFilePath" },
}
local OF_A_DUMP <const> = {
  level = "moderate", target_impact = "none", data_exposure = "content", reason = "Writes code of an application to files.",
  side_effects = { "writes files below the artifact root" },
}

local function number(value)
  local s = tostring(value):match("^%s*(.-)%s*$")
  local digits = s:match("^0[xX](%x+)$")
  if digits then return #digits <= 16 and tonumber(digits, 16) or nil end
  return s:find("^%d+$") and math.tointeger(tonumber(s)) or nil
end

local function check(args)
  if not args.moduleVersionId:find(GUID) then
    return nil, errors.invalid("moduleVersionId", "moduleVersionId is a GUID: 8-4-4-4-12 hexadecimal digits.")
  end
  local token = number(args.metadataToken)
  if not token or token <= 0 or token >> 24 ~= 0x06 or token & 0xffffff == 0 then
    return nil, errors.invalid("metadataToken", ("metadataToken is that of a method, 0x06000001 and above, hexadecimal or decimal; got %s.")
      :format(text.quote(args.metadataToken)))
  end
  local address = args.codeAddress and number(args.codeAddress)
  if args.codeAddress and (not address or address == 0) then
    return nil, errors.invalid("codeAddress", ("codeAddress is an address, as 0x7f… or decimal; got %s."):format(
      text.quote(args.codeAddress)))
  end
  return true
end

-- What is read, as the worker's arguments want it: { process = … } or { dump = path }.
local function source_of(ctx, args)
  if args.dumpFilePath then
    local name, err = store.existing(args.dumpFilePath, "dumpFilePath", true)
    if not name then return nil, err end
    return { dump = store.path(name) }
  end
  local target, err = process.without_socket(ctx, args.processId)
  if not target then return nil, err end
  if target.endpoint and target.endpoint.runtime == "NativeAot" then
    return nil, errors.not_supported(("Process %d is compiled by NativeAOT: its code is in the file of the program, %s. Disassemble that.")
      :format(target.pid, require("lunette.proc").link(target.pid, "exe") or "its executable"), {})
  end
  return { process = target }
end

-- A file name's part: letters, digits and what reads well.
local function file_word(s, max) return (s:gsub("[^%w._-]", "_"):sub(1, max or MAX_NAME)) end

-- "Ns.Type.Method(Args)" -> "Method".
local function plain_name(seen)
  local name = (seen.name or "?"):gsub("%(.*$", "")
  local type_name = seen.typeName
  if type_name and name:sub(1, #type_name + 1) == type_name .. "." then return name:sub(#type_name + 2) end
  return name:match("([^.]+)$") or name
end

local function arity(name)
  local inside = name:match("%[%[?(.*)%]%]?$")
  if not inside then return 0 end
  local _, commas = inside:gsub("%],%s*%[", "")
  return commas + 1
end

local function unhex(s) return (s:gsub("%x%x", function(pair) return string.char(tonumber(pair, 16)) end)) end

local function write_regions(seen, args, folder, method)
  local list = json.array({})
  for i, region in ipairs(seen.regions) do
    local name = ("%s.%s-%s-%s-0x%08x.bin"):format(file_word(method.typeFullName or "code"), file_word(method.methodName), region.region,
      file_word(args.tier or "", 32), method.metadataToken)
    local below = (folder == "" and "" or folder .. "/") .. name
    local path = store.path(below)
    local ok, err = artifacts.write(store.root(), below, unhex(region.hex or ""))
    if not ok and err.kind == "InvalidArtifactPath" then return nil, store.about(err, "outputDirectory") end
    if not ok then
      local why = err.hint and err.hint ~= "" and ("%s; %s"):format(err.message, err.hint) or tostring(err.message)
      return nil, errors.new(err.kind == "Conflict" and "Conflict" or "PermissionDenied", ("The code cannot be written to %s: %s."):format(
        path, why), { detail = err.detail, hints = {} })
    end
    list[i] = setmetatable({
      filePath = path, size = region.size, baseAddress = region.start, architecture = ARCHITECTURE, region = region.region,
      tier = args.tier, compilationType = "Jit",
    }, REGION)
  end
  return list
end

local function next_steps(regions)
  local list = {}
  for i, region in ipairs(regions) do
    list[i] = hints.new("dotnet-native-mcp.disassemble", ("Disassemble the %s region."):format(region.region:lower()), {
      imagePath = region.filePath, rawBlob = true, rva = 0, size = region.size, architecture = region.architecture,
      baseAddress = region.baseAddress,
    })
  end
  return list
end

local function warnings_of(seen, args)
  local list = {}
  if seen.versions > 1 then
    list[1] = ("The method has had %d bodies of code; this is %s."):format(seen.versions,
      args.codeAddress and "the one at codeAddress" or "the newest")
  end
  if seen.tier then list[#list + 1] = ("The runtime calls its tier %s."):format(seen.tier) end
  return json.array(list)
end

-- The folder below the root, which is that of the process where none is given.
local function folder_of(args, pid)
  if args.outputDirectory then return store.folder(args.outputDirectory, "outputDirectory") end
  return "method-bytes/" .. pid
end

local function read_code(ctx, args, source)
  local sent, options = worker.target(source)
  sent.moduleVersionId, sent.metadataToken = args.moduleVersionId, number(args.metadataToken)
  sent.codeAddress = args.codeAddress and ("0x%x"):format(number(args.codeAddress))
  options.message = "Reading the method's code"
  local seen, err = worker.json(ctx, "method-code", sent, options)
  if not seen and err.kind == "MalformedInput" or not seen and err.kind == "TruncatedInput" then
    err = errors.invalid("dumpFilePath", tostring(err.message))
  end
  return seen, err
end

local function run(ctx, args)
  local folder, err = folder_of(args, "0") -- a wrong one is told before anything is attached to
  if not folder then return nil, err end
  local source
  source, err = source_of(ctx, args)
  if not source then return nil, err end
  local seen
  seen, err = read_code(ctx, args, source)
  if not seen then return nil, err end
  folder = assert(folder_of(args, source.process and source.process.pid or seen.pid))
  local method = setmetatable({
    methodName = plain_name(seen), genericArity = arity(plain_name(seen)),
    moduleName = seen.modulePath and seen.modulePath:match("([^/]+)$"), modulePath = seen.modulePath,
    moduleVersionId = args.moduleVersionId:lower(), metadataToken = number(args.metadataToken), typeFullName = seen.typeName,
  }, METHOD)
  local regions
  regions, err = write_regions(seen, args, folder, method)
  if not regions then return nil, err end
  return setmetatable({
    origin = source.dump and "dump" or "live", processId = source.process and source.process.pid or seen.pid, runtimeName = "coreclr",
    runtimeVersion = seen.runtimeVersion, architecture = ARCHITECTURE, method = method, regions = regions,
    outputDirectory = store.path(folder), warnings = warnings_of(seen, args),
  }, ORDER), {
    summary = ("%s: %d region%s, %d bytes of code%s."):format(seen.name or method.methodName, #regions, #regions == 1 and "" or "s",
      (regions[1] and regions[1].size or 0) + (regions[2] and regions[2].size or 0),
      source.process and (" (the process stood still for %.0f ms)"):format(seen.stopNs / 1000000) or ""),
    process = source.process, hints = next_steps(regions),
  }
end

return tool {
  name = "capture_method_bytes", title = "Capture a method's machine code",
  description = "Writes the native code that the JIT made of one method to files, for a disassembler.",
  scopes = { list = PTRACE },
  annotations = { read_only = true },
  params = {
    { "moduleVersionId", "string", required = true, trim = true, note = "GUID of the module." },
    { "metadataToken", "string", required = true, trim = true, note = "MethodDef token, 0x06… or decimal." },
    tool.process_id { excludes = { "dumpFilePath" } },
    { "dumpFilePath", "string?", note = "A WithHeap or Full dump below the artifact root." },
    { "codeAddress", "string?", trim = true, note = "An address in the wanted body." },
    { "tier", "string?", trim = true, note = "A label for the file name." },
    { "outputDirectory", "string?", note = "Sub-path of the artifact root." },
  },
  risk = function(_, args) return args.dumpFilePath and OF_A_DUMP or LIVE end,
  max_risk = LIVE, check = check, payload = "CapturedMethodBytes", run = run,
}
