-- SPDX-License-Identifier: MIT
-- One secret, planted in every field that can carry one, is in nothing that is told of the process: no answer, no view of a handle, no
-- resource, no line of the server's log, no file that the server made. Each kind is seen to have what stands beside the secret. Not so
-- baggage and the environment: no tool asks the process for them, so there is nothing to see; they are planted in case one ever does.
local during = require("during")
local h = require("harness")

local SECRET <const> = "hunter2Lunette0123456789abcdef"
local RUNTIME <const> = "net10.0"
local SECONDS <const> = 9
-- What each kind is asked for; `seen` is in its answers, so that its silence is no proof.
local KINDS <const> = {
  { kind = "db", seen = "UPDATE Posts" },
  { kind = "activities", seen = "Lunette.Secrets", more = { includeHttpDestination = true } },
  { kind = "logs", seen = "Lunette.Secrets" },
  { kind = "exceptions", seen = "InvalidOperationException" },
  { kind = "crash-guard", seen = "InvalidOperationException" },
  { kind = "requests", seen = "requestsStarted" },
  { kind = "kestrel", seen = "/landed" },
  { kind = "networking", seen = ".invalid" },
  { kind = "http-phases", seen = "/move" },
  { kind = "event_source", seen = "Login", more = { providerName = "Lunette-Secrets" } },
  { kind = "catalog", seen = "Lunette-Secrets", more = { providers = { "Lunette-Secrets" } } },
  { kind = "counters", seen = "logins", more = { meters = { "Lunette.Secrets" } } },
}
local AT_ONCE <const> = 6
local PROCESS_VIEWS <const> = { "list", "info", "capabilities", "resources", "container", "preflight" }

local function none(what, value)
  local text = type(value) == "string" and value or h.json.encode(value)
  local at = text:find(SECRET, 1, true)
  h.ok(not at, what .. " repeats the secret: " .. text:sub(math.max(1, (at or 1) - 120), (at or 1) + 60))
  return text
end

local function call(server, tool, arguments)
  local envelope, err = server:call(tool, arguments)
  return h.ok(envelope, tool .. ": " .. tostring(err and err.message))
end

--- All views of a handle, each looked through; their texts together.
local function views(server, kind, handle)
  local wrong = call(server, "query_snapshot", { handle = handle, view = "no-such-view" })
  local names = h.ok(wrong.error and wrong.error.message:match("view must be one of (.-) for a handle"), kind .. ": the names of its views")
  local texts = {}
  for name in names:gmatch("[^, ]+") do
    texts[#texts + 1] = none(kind .. ", view " .. name, call(server, "query_snapshot", { handle = handle, view = name, topN = 100 }))
  end
  return table.concat(texts)
end

local function collect(server, target, spec)
  local given = { kind = spec.kind, processId = target.pid, durationSeconds = SECONDS, depth = "Detail" }
  for name, value in pairs(spec.more or {}) do given[name] = value end
  local envelope = call(server, "collect_events", given)
  h.ok(not envelope.error, spec.kind .. ": " .. h.json.encode(envelope.error or {}))
  local text = none(spec.kind, envelope) .. views(server, spec.kind, envelope.handle)
  h.ok(text:find(spec.seen, 1, true), spec.kind .. " saw what carries the secret (" .. spec.seen .. ")")
  return true
end

local function files(dir, seen)
  for _, name in ipairs(h.fs.list(dir) or {}) do
    local path = dir .. "/" .. name
    local stat = h.fs.stat(path)
    if stat and stat.kind == "directory" then
      files(path, seen)
    elseif stat and stat.kind == "file" then
      seen[#seen + 1] = path
      none("file " .. path, h.fs.read(path, 64 * 1024 * 1024) or "")
    end
  end
end

local function planted(skip)
  local built = h.loop.exec {
    argv = { "sh", h.source .. "/tests/targets/db/build.sh", h.targets .. "/db", RUNTIME }, timeout_ms = 600000, max_output = 1024 * 1024,
  }
  if built.code == h.SKIP then skip((built.stdout:gsub("%s+$", ""))) end
  h.eq(0, built.code, "tests/targets/db/build.sh: " .. built.stdout .. built.stderr)
  local home = h.scratch()
  local server <close> = h.server { environment = {
    HOME = home, TMPDIR = home, XDG_STATE_HOME = home, XDG_RUNTIME_DIR = home, Diagnostics__EventSourceAllowlist__0 = "Lunette-Secrets",
  } }
  local target <close> = h.start({ ("%s/db/%s/lunette-db"):format(h.targets, RUNTIME), "secrets", "--password=" .. SECRET }, "db secrets",
    { DOTNET_SYSTEM_GLOBALIZATION_INVARIANT = "1", LUNETTE_TEST_PASSWORD = SECRET,
      LUNETTE_TEST_CONNECTION = "Server=db;Password=" .. SECRET })
  for first = 1, #KINDS, AT_ONCE do
    local todo, over = {}, false
    for i = first, math.min(first + AT_ONCE - 1, #KINDS) do
      todo[#todo + 1] = function()
        collect(server, target, KINDS[i])
        over = true
        return true
      end
    end
    todo[#todo + 1] = function()
      during.stay_open(target, math.min(AT_ONCE, #KINDS - first + 1), 500)
      during.go(target)
      if over then h.too_slow() end
      return true
    end
    h.together(todo)
  end
  for _, name in ipairs(PROCESS_VIEWS) do
    none("inspect_process " .. name, call(server, "inspect_process", { view = name, processId = name ~= "list" and target.pid or nil }))
  end
  local resources = h.ok(server:request("resources/list", {}))
  for _, resource in ipairs(resources.resources) do
    none(resource.uri, h.ok(server:request("resources/read", { uri = resource.uri })))
  end
  none("the server's log", server:log())
  local seen = {}
  files(home, seen)
end

return { { "one secret in every field is in nothing that is told", planted } }
