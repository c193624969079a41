-- SPDX-License-Identifier: MIT
-- errors: the error record of the framework: a kind of the contract, what went wrong, and what to do next.
-- The same shape as the error of a native module ({kind, message, detail?, hint?}), with hints as a list.
local hints = require("lunette.hints")
local text = require("lunette.text")

local M = {}
local Error = {}
Error.__index = Error
Error.__name = "lunette.error"
Error.__tostring = function(self) return self.message end

--- Adds the place where it happened.
function Error:at(where)
  self.message = where .. ": " .. self.message
  return self
end

-- What to do next, by kind, when the one who met the error gave no hints: {tool, reason, arguments}. "<pid>" stands for the process.
local LIST <const> = { "inspect_process", "See which .NET processes can be reached.", { view = "list" } }
local CAPABILITIES <const> = { "inspect_process", "See what works here.", { view = "capabilities", processId = "<pid>" } }
local PREFLIGHT <const> = { "inspect_process", "Find what is in the way, with the fix.", { view = "preflight", processId = "<pid>" } }
local PODS <const> = { "list_orchestrator", "List the Pods.", { kind = "pods" } }
local ATTACH <const> = { "attach_to_pod", "Try to attach again." }
local EXPORT <const> = { "export_investigation_summary", "Make a summary again." }
local KUBECONFIG <const> = { "discover_azure", "Get a new kubeconfig handle.", { kind = "aksclusters", includeKubeconfig = true } }

--- Every kind that may be on the wire, with its recovery. `retryable`: the same call may work later.
M.KINDS = {
  InvalidArgument = { { "<tool>", "Repeat the call with valid arguments." } },
  NoDotnetProcessFound = { LIST }, AmbiguousDotnetProcess = { LIST },
  ProcessNotFound = { LIST }, NotADotnetProcess = { LIST },
  EndpointUnavailable = { LIST, PREFLIGHT, retryable = true },
  ProcessExited = { { "collect_thread_snapshot", "Take a new snapshot of a process that runs." } },
  PermissionDenied = { CAPABILITIES, PREFLIGHT },
  HandleExpired = {}, HandleCapacityEvicted = {}, HandleNotFound = {},
  UnsupportedHandleKind = { { "query_snapshot", "Use a handle of a kind that can be asked." } },
  HandleKindMismatch = {}, EvidenceMetricConflict = {}, InvalidEvidenceMetric = {}, InvalidHandle = {},
  ViewUnavailableForGcDump = { { "query_snapshot", "A gcdump answers this view.", { view = "top-types" } } },
  RetentionPathsMissing = { { "inspect_heap", "Walk the heap again, with retention paths.", { includeRetentionPaths = true } } },
  ViewNotCaptured = {},
  ThreadNotFound = { { "query_snapshot", "See which threads there are.", { view = "threads-summary" } } },
  OutOfRange = { { "query_snapshot", "See how many stacks there are.", { view = "topStacks" } } },
  NotFound = {}, ArtifactNotFound = {},
  InvalidArtifactPath = { { "<tool>", "Use a relative path below the artifact root, or none." } },
  NotSupported = { CAPABILITIES },
  UnsupportedRuntime = {}, UnsupportedPrerequisite = {}, UnsupportedPlatform = {}, Conflict = {},
  Busy = { { "<tool>", "Repeat the call when the other attach has ended." }, retryable = true },
  ToolNotFound = { CAPABILITIES },
  SymbolServerNotAllowed = {}, EventSourceProviderNotAllowed = {}, ProcessLaunchDisabled = {},
  OrchestratorDisabled = { { "list_orchestrator", "Works once the operator sets Orchestrator:Enabled." } },
  DistributedTraceFanoutFailed = {}, ReplicaCounterFanoutFailed = {}, CleanupFailed = { retryable = true },
  NamespaceNotAllowed = { ATTACH }, SelectorRejected = { PODS }, TooManyResults = { PODS },
  KubeApiUnavailable = { PODS, retryable = true },
  PodNotFound = { PODS }, ContainerNotFound = { PODS }, PodNotRunning = { PODS }, PodNotPrepared = { ATTACH },
  AttachAlreadyInProgress = {
    { "attach_to_pod", "Use the session that exists.", { allowReuseExistingSession = true } }, retryable = true,
  },
  AttachFailed = { ATTACH }, AttachTimeout = { ATTACH, retryable = true }, PortForwardFailed = { ATTACH },
  KubeconfigHandleNotFound = { KUBECONFIG }, KubeconfigHandleExpired = { KUBECONFIG },
  AzureDiscoveryDisabled = { { "discover_azure", "Works once the operator sets AzureDiscovery:Enabled." } },
  InvalidSummaryJson = { EXPORT }, UnsupportedSchema = { EXPORT },
  Internal = {},
}

-- Kinds of native modules that are no kind of the contract: their own name goes into `detail`. Damaged input comes from a live endpoint
-- here; a tool that reads a file says InvalidArgument itself.
local NATIVE <const> = {
  Timeout = "EndpointUnavailable", ProtocolError = "EndpointUnavailable", TruncatedInput = "EndpointUnavailable",
  MalformedInput = "EndpointUnavailable", LimitExceeded = "Internal", BudgetExceeded = "Internal", ScriptError = "Internal",
  OutOfMemory = "Internal", IoError = "Internal",
}

---@class LunetteError
---@field kind string
---@field message string
---@field detail any?
---@field hints table[]?
---@field rpc_code integer?   makes it an error of the protocol instead of a tool result

--- An error of one of the contract's kinds.
---@param kind string
---@param message string
---@param options? { detail: any, hints: table[], process_id: integer, hint: string }
---@return LunetteError
function M.new(kind, message, options)
  if not M.KINDS[kind] and kind ~= "Cancelled" then
    local near = text.did_you_mean(tostring(kind), text.keys(M.KINDS))
    error(("errors.new: there is no kind %q.%s"):format(tostring(kind), near), 2)
  end
  options = options or {}
  return setmetatable({
    kind = kind, message = message, detail = options.detail, hints = options.hints, process_id = options.process_id, hint = options.hint,
  }, Error)
end

--- A bad argument: detail is its name.
function M.invalid(parameter, message, error_hints)
  return M.new("InvalidArgument", message, { detail = parameter, hints = error_hints })
end

--- Something that this build, host, runtime or mode cannot do: say what is missing.
function M.not_supported(message, error_hints) return M.new("NotSupported", message, { hints = error_hints }) end

--- A missing scope; detail names it. The only PermissionDenied that makes the tool result an error of its own (isError).
---@param missing string
---@param what string   what it is needed for
function M.scope(missing, what)
  local e = M.new("PermissionDenied", ("%s needs the scope %s, which this token does not have. Use a token with it."):format(what, missing),
    { detail = missing, hints = {} })
  e.is_scope = true
  return e
end

--- An error of the protocol (-32602 and so on) instead of a tool result.
function M.protocol(code, message, data)
  local e = M.new("InvalidArgument", message)
  e.rpc_code, e.rpc_data = code, data
  return e
end

local function fill(arguments, process_id)
  if not arguments then return nil end
  local filled = {}
  for name, value in pairs(arguments) do
    if value == "<pid>" then value = process_id end
    filled[name] = value
  end
  return filled
end

--- The recovery hints of an error: its own, else those of its kind.
---@param err LunetteError
---@param context { tool: string?, process_id: integer? }
---@return table[]
function M.recovery(err, context)
  if err.hints then return err.hints end
  local list = {}
  for _, row in ipairs(M.KINDS[err.kind] or {}) do
    local tool = row[1] == "<tool>" and (context.tool or "inspect_process") or row[1]
    list[#list + 1] = hints.new(tool, row[2], fill(row[3], err.process_id or context.process_id), #list == 0 and "high" or "normal")
  end
  return list
end

--- Any error value as a record with a kind of the contract. A native error keeps its text, its advice is appended.
---@param err any
---@return LunetteError
function M.classify(err)
  if getmetatable(err) == Error then return err end
  if type(err) ~= "table" or err.kind == nil and err.message == nil then return M.new("Internal", tostring(err)) end
  local kind, detail = err.kind or "Internal", err.detail
  if type(kind) ~= "string" then kind = "Internal" end
  if kind ~= "Cancelled" and not M.KINDS[kind] then
    detail = detail or kind
    kind = NATIVE[kind] or "Internal"
  end
  local message = tostring(err.message or err)
  if err.hint and err.hint ~= "" then
    local ended = message:find("[%.:;!%?]$") ~= nil -- a message of the native part lacks its full stop
    message = message .. (ended and " " or err.hint:find("^%u") and ". " or "; ") .. err.hint
  end
  if detail == "" then detail = nil end
  local e = M.new(kind, message, { detail = detail, hints = err.hints, process_id = err.process_id })
  e.rpc_code, e.rpc_data = err.rpc_code, err.rpc_data
  return e
end

return M
