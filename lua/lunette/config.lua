-- SPDX-License-Identifier: MIT
-- config: what the operator set: environment variables (sections with double underscores) and an optional Lua file. A name that does not
-- exist is told with the nearest one that does; a value that cannot be used is told, and the default stands.
local fs = require("lunette.fs")
local sys = require("lunette.sys")
local text = require("lunette.text")

local M = {}

local MAX_FILE <const> = 1024 * 1024
local MAX_LIST <const> = 1000

-- { key, type, default, what it does, later = true }. Types: string int number bool list records timespan. `later`: known, but nothing in
-- this version looks at it; whoever sets it is told.
local KEYS <const> = {
  { "Auth:BearerTokens", "records", nil, "Scoped tokens: Name, Token, Scopes. Wins over MCP_BEARER_TOKEN." },
  { "MCP_BEARER_TOKEN", "string", nil, "One token with root scope." },
  { "MCP_OIDC_ISSUER", "string", nil, "OIDC issuer.", later = true },
  { "MCP_OIDC_AUDIENCE", "string", nil, "OIDC audience.", later = true },
  { "MCP_OIDC_SCOPE_CLAIM", "string", nil, "Claim that carries the scopes.", later = true },
  { "MCP_OIDC_REQUIRED_CLAIMS_JSON", "string", nil, "Claims that a token must carry.", later = true },
  { "MCP_ARTIFACT_ROOT", "string", nil, "Base folder of every file the server writes." },
  { "MCP_ARTIFACT_TTL_HOURS", "number", 24, "Age after which artifacts are removed; 0 or less: never." },
  { "MCP_ATTACH_MAX_PER_PID", "int", 1, "Live attaches that may run on one process at once." },
  { "MCP_ATTACH_WAIT_MS", "int", 0, "How long a call waits for that permit before it answers Busy." },
  { "MCP_SYMBOL_PATH", "string", nil, "Symbol path when no symbolPath argument is given." },
  { "MCP_METRICS_OPEN", "bool", false, "Serve /metrics without a token." },
  { "_NT_SYMBOL_PATH", "string", nil, "Symbol path after MCP_SYMBOL_PATH." },
  { "Diagnostics:AllowSensitiveHeapValues", "bool", false, "Legacy switch for raw heap values and other event sources." },
  { "Diagnostics:AllowProcessFork", "bool", false, "Allows inspect_heap(source=live, freeze=fork), which makes the target fork." },
  { "Diagnostics:EventSourceAllowlist", "list", nil, "Extra provider names for kind=event_source." },
  { "Diagnostics:SymbolServerAllowlist", "list", nil, "Hosts that a symbol path may name." },
  { "Diagnostics:RedactionPatterns", "list", nil, "Extra regular expressions for the redactor." },
  { "Diagnostics:AllowMethodParameterCapture", "bool", false, "Deployment switch of kind=method-params.", later = true },
  { "Diagnostics:AllowProcessLaunch", "bool", false, "Allows launch in kind=startup under stdio." },
  { "Diagnostics:HandleStore:MaxEntries", "int", 32, "Handles kept at once, 1 to 1024." },
  { "Orchestrator:Enabled", "bool", false, "Registers the orchestrator tools.", later = true },
  { "Orchestrator:NamespaceAllowlist", "list", nil, "Namespaces that may be listed or attached.", later = true },
  { "Orchestrator:DefaultNamespace", "string", nil, "Namespace when a call gives none.", later = true },
  { "Orchestrator:LabelKeyAllowlist", "list", nil, "Label keys that a selector may use.", later = true },
  { "Orchestrator:PreparedLabelKey", "string", "diagnostics.dotnet.io/prepared", "Label that marks a prepared Pod.", later = true },
  { "Orchestrator:RequirePreparedLabel", "bool", true, "Refuse Pods without that label.", later = true },
  { "Orchestrator:MaxListLimit", "int", 500, "Ceiling of a page of Pods.", later = true },
  { "Orchestrator:EphemeralContainerImage", "string", nil, "Image that is injected.", later = true },
  { "Orchestrator:EphemeralContainerNamePrefix", "string", "dotnet-dbg-mcp-", "Prefix of the injected container name.", later = true },
  { "Orchestrator:AttachReadinessTimeoutSeconds", "int", 60, "Wait for the container to run.", later = true },
  { "Orchestrator:DefaultInvestigationTtlSeconds", "int", 1800, "Lifetime of an investigation.", later = true },
  { "Orchestrator:ProxyPodPort", "int", 5130, "Port of the injected server.", later = true },
  { "Orchestrator:ProxyBasePath", "string", "/proxy", "Prefix of the proxied endpoints.", later = true },
  { "Orchestrator:AllowCrossSessionAdmin", "bool", false, "Deprecated; the literal scope orchestrator-admin replaces it.", later = true },
  { "Orchestrator:ProxyRequestSizeLimitBytes", "int", 1048576, "Body limit of the proxy.", later = true },
  { "Orchestrator:RateLimitPermitsPerWindow", "int", 120, "Requests of one remote address in a window.", later = true },
  { "Orchestrator:RateLimitWindowSeconds", "int", 60, "Window of that limit.", later = true },
  { "Orchestrator:RateLimitQueueLimit", "int", 0, "Queued requests above the limit.", later = true },
  { "Orchestrator:ExternalMcpProfiles", "records", nil, "Configured external targets.", later = true },
  { "AzureDiscovery:Enabled", "bool", false, "Registers discover_azure.", later = true },
  { "AzureDiscovery:KubeconfigHandleTtl", "timespan", 600, "Lifetime of a kubeconfig handle.", later = true },
  { "AzureDiscovery:KubeconfigHandleMaxEntries", "int", 256, "Kubeconfig handles kept.", later = true },
  { "Observability:MetricsEnabled", "bool", true, "Publish /metrics." },
  { "Observability:MetricsOpen", "bool", false, "Serve /metrics without a token." },
  { "OTEL_EXPORTER_OTLP_ENDPOINT", "string", nil, "Export metrics and spans.", later = true },
  { "DOTNET_DIAGNOSTICS_MCP_AUTO_RESTART", "bool", false,
    "End when the binary on disk changed, so that a supervisor starts the new one.", later = true },
  { "DIAGMCP_SYMBOL_TRACE", "string", nil, "Extra symbol tracing.", later = true },
  { "ASPNETCORE_URLS", "string", nil, "Bind addresses." }, { "DOTNET_URLS", "string", nil, "Bind addresses." },
  { "ASPNETCORE_HTTP_PORTS", "string", nil, "Ports on all addresses." }, { "DOTNET_HTTP_PORTS", "string", nil, "Ports on all addresses." },
  { "ASPNETCORE_HTTPS_PORTS", "string", nil, "TLS ports on all addresses." }, { "DOTNET_HTTPS_PORTS", "string", nil, "TLS ports." },
  { "CONTAINER_IMAGE", "string", nil, "Image in export provenance." }, { "IMAGE_REF", "string", nil, "Image in export provenance." },
  { "POD_IMAGE", "string", nil, "Image in export provenance." }, { "POD_NAMESPACE", "string", nil, "Namespace in export provenance." },
  { "KUBERNETES_NAMESPACE", "string", nil, "Namespace in export provenance." }, { "POD_NAME", "string", nil, "Pod in export provenance." },
  { "HOSTNAME", "string", nil, "Pod in export provenance." }, { "NODE_NAME", "string", nil, "Node in export provenance." },
  { "LUNETTE_CONFIG", "string", nil, "A Lua configuration file." },
  { "LUNETTE_SITE", "string", nil, "Folders of site scripts, separated by colons, above /etc/lunette and ~/.config/lunette." },
  { "LUNETTE_SCRIPTS", "string", nil, "Another name of LUNETTE_SITE." },
  { "LUNETTE_TLS_CERT", "string", nil, "Certificate chain (PEM)." }, { "LUNETTE_TLS_KEY", "string", nil, "Private key (PEM)." },
}

local by_lower, names = {}, {}
for _, row in ipairs(KEYS) do
  by_lower[row[1]:lower()] = row
  names[#names + 1] = row[1]
end
local SECTIONS <const> = { auth = true, diagnostics = true, orchestrator = true, azurediscovery = true, observability = true }

local Config = {}
Config.__index = Config

--- The value of a key: what was set, else its default.
function Config:get(key)
  local row = by_lower[key:lower()]
  if not row then error("config: there is no key " .. key .. "." .. text.did_you_mean(key, names), 2) end
  local value = self.values[row[1]]
  if value == nil then return row[3] end
  return value
end

--- Where a value is from: "environment", "file" or "default".
function Config:source(key) return self.sources[key] or "default" end

local BOOL <const> = { ["true"] = true, ["false"] = false, ["1"] = true, ["0"] = false, yes = true, no = false, on = true, off = false }
local convert = {}

function convert.string(v) return type(v) ~= "table" and tostring(v) or nil end
function convert.int(v) return math.tointeger(tonumber(v)) end
function convert.number(v) return tonumber(v) end
function convert.bool(v)
  if type(v) == "boolean" then return v end
  return BOOL[tostring(v):lower():match("^%s*(.-)%s*$")]
end
function convert.timespan(v) -- "00:10:00", "1.00:00:00" or seconds -> seconds
  if tonumber(v) then return tonumber(v) end
  local days, h, m, s = tostring(v):match("^(%d*)%.?(%d%d):(%d%d):(%d%d)$")
  return h and (tonumber(days) or 0) * 86400 + h * 3600 + m * 60 + s or nil
end

-- {["0"]=…, ["1"]=…} or a Lua list -> list in order; a single text is a list of one.
local function to_list(v)
  if type(v) ~= "table" then return { v } end
  local list, indexes = {}, {}
  for index in pairs(v) do
    local n = math.tointeger(tonumber(index))
    if not n then return nil end
    indexes[#indexes + 1] = { n, v[index] }
  end
  if #indexes > MAX_LIST then return nil end
  table.sort(indexes, function(a, b) return a[1] < b[1] end)
  for i, pair in ipairs(indexes) do list[i] = pair[2] end
  return list
end
function convert.list(v)
  local list = to_list(v)
  for i, item in ipairs(list or {}) do list[i] = tostring(item) end
  return list
end
function convert.records(v)
  local list = to_list(v)
  for _, item in ipairs(list or {}) do
    if type(item) ~= "table" then return nil end
  end
  return list
end

local function problem(cfg, message, fatal)
  cfg.problems[#cfg.problems + 1] = message
  if fatal then cfg.fatal = cfg.fatal or message end
end

local function assign(cfg, row, value, source)
  local converted = convert[row[2]](value)
  if converted == nil then
    local what = row[2] == "bool" and "true or false" or "of type " .. row[2]
    problem(cfg, ("%s (%s) must be %s; the default is used"):format(row[1], source, what))
    return
  end
  if cfg.values[row[1]] == nil then cfg.values[row[1]], cfg.sources[row[1]] = converted, source end
end

-- Walks a tree of sections; what is a key is assigned, what is none is named.
local function walk(cfg, node, path, source)
  for name, value in pairs(node) do
    local key = path == "" and tostring(name) or path .. ":" .. tostring(name)
    local row = by_lower[key:lower()]
    local inside = false
    for lower in pairs(by_lower) do inside = inside or lower:sub(1, #key + 1) == key:lower() .. ":" end
    if row then
      assign(cfg, row, value, source)
    elseif inside and type(value) == "table" then
      walk(cfg, value, key, source)
    else
      problem(cfg, ("%s: there is no setting %s.%s"):format(source, key, text.did_you_mean(key, names)), source ~= "environment")
    end
  end
end

-- Environment variables with double underscores -> a tree of sections.
local function sections_of(environ)
  local tree = {}
  for name, value in pairs(environ) do
    local parts = {}
    for part in (name .. "__"):gmatch("(.-)__") do parts[#parts + 1] = part end
    if #parts > 1 and SECTIONS[parts[1]:lower()] then
      local node = tree
      for i = 1, #parts - 1 do
        if type(node[parts[i]]) ~= "table" then node[parts[i]] = {} end
        node = node[parts[i]]
      end
      node[parts[#parts]] = value
    end
  end
  return tree
end

local ELSEWHERE <const> = { LUNETTE_HOME = true } -- read before there is a configuration

local function read_environment(cfg, environ)
  walk(cfg, sections_of(environ), "", "environment")
  for name, value in pairs(environ) do
    local row = by_lower[name:lower()]
    if row and row[1] == name then
      if value ~= "" then assign(cfg, row, value, "environment") end
    elseif not row and not ELSEWHERE[name] and (name:match("^MCP_") or name:match("^LUNETTE_")) and text.nearest(name, names) then
      problem(cfg, ("environment: there is no setting %s.%s"):format(name, text.did_you_mean(name, names)))
    end
  end
end

--- Runs a configuration file: assignments only, nothing of the host is in reach.
local function read_file(cfg, path)
  local body, err = fs.read(path, MAX_FILE)
  if not body then
    problem(cfg, ("the configuration file %s cannot be read: %s"):format(path, tostring(err)), true)
    return
  end
  local env = {}
  local chunk, syntax = load(body, "@" .. path, "t", env)
  if not chunk then
    problem(cfg, "the configuration file has an error: " .. syntax, true)
    return
  end
  local ok, why = pcall(chunk)
  if not ok then
    problem(cfg, "the configuration file failed: " .. tostring(why), true)
    return
  end
  walk(cfg, env, "", path)
  local stat = fs.stat(path)
  if stat and stat.mode & 4 ~= 0 and (cfg.values["Auth:BearerTokens"] or cfg.values.MCP_BEARER_TOKEN) then
    problem(cfg, ("everybody on this machine can read the tokens in %s: chmod 600 %s"):format(path, path))
  end
end

local function as_map(environ)
  if environ[1] == nil then return environ end
  local map = {}
  for _, line in ipairs(environ) do
    local name, value = line:match("^([^=]+)=(.*)$")
    if name then map[name] = value end
  end
  return map
end

--- Reads the configuration. The environment wins over the file.
---@param options? { environ: table, file: string }
---@return table config   :get(key), :source(key), problems (texts), fatal (the first that must stop a start)
function M.load(options)
  options = options or {}
  local environ = as_map(options.environ or sys.environ())
  local cfg = setmetatable({ values = {}, sources = {}, problems = {} }, Config)
  read_environment(cfg, environ)
  local file = options.file or cfg.values.LUNETTE_CONFIG
  if file then read_file(cfg, file) end
  table.sort(cfg.problems)
  return cfg
end

local current

--- The configuration of this process; loaded from the environment when nothing was set.
function M.current()
  if not current then current = M.load() end
  return current
end
function M.use(cfg) current = cfg end
function M.get(key) return M.current():get(key) end

--- The settings that were given and that this version does not look at.
---@return string[]
function Config:without_effect()
  local list = {}
  for _, row in ipairs(KEYS) do
    if row.later and self.values[row[1]] ~= nil then list[#list + 1] = row[1] end
  end
  return list
end

--- All settings, for --help and the docs: { key, type, default, meaning, later? }.
function M.keys() return KEYS end

--- The environment variable of a key.
function M.variable(key) return (key:gsub(":", "__")) end

return M
