-- SPDX-License-Identifier: MIT
-- Records the sessions beside it: lunette lua tests/data/recordings/record.lua TARGETS OUT_DIR [NAME...]
-- TARGETS is where tests/targets/build.sh put the targets (see README.md). Each recording begins before `go` and ends after DONE, whose
-- line is printed.
package.path = (arg[0]:match("^(.*)/[^/]*$") or ".") .. "/../../live/?.lua;" .. package.path
local events = require("lunette.events")
local fs = require("lunette.fs")
local h = require("harness")
local loop = require("lunette.loop")

local RUNTIME <const> = "Microsoft-Windows-DotNETRuntime"
local NAMES <const> = 0x138 -- rundown: the loader's and both compilers' methods, at the end
local NONE <const> = 0
local SPANS <const>, LOGS <const> = require("collectors.activities.program"), require("collectors.logs.program")
local TPL <const> = { name = "System.Threading.Tasks.TplEventSource", keywords = 0x80, level = 4 } -- activity ids

local function runtime(keywords, level) return { name = RUNTIME, keywords = keywords, level = level } end

-- What the collectors of spans and log messages ask for.
local function spans(destinations)
  return {
    name = require("collectors.diagnostic_source").PROVIDER, keywords = 0xf00000000003, level = 4,
    args = ('FilterAndPayloadSpecs="%s"'):format(table.concat(SPANS.lines(nil, destinations), "\n")),
  }
end

local function logs(keywords)
  return {
    name = LOGS.PROVIDER, keywords = 0xf00000000000 | keywords, level = 5,
    args = ('FilterSpecs="%s"'):format(LOGS.filter(nil, "Trace")),
  }
end

-- The networking sources without the stack traces of failures, and activity ids that flow with tasks.
local function networking(ids)
  local list = {}
  for i, name in ipairs { "Http", "NameResolution", "Security", "Sockets" } do
    list[i] = { name = "System.Net." .. name, keywords = 0x2, level = 4, args = "EventCounterIntervalSec=1" }
  end
  if ids then list[#list + 1] = { name = "System.Threading.Tasks.TplEventSource", keywords = 0x80, level = 4 } end
  return list
end

-- what the collectors of requests and of the web server ask for, together
local function web()
  local list = { table.unpack(require("collectors.requests.program").program.providers) }
  for _, provider in ipairs(require("collectors.kestrel.program").new(1).providers) do list[#list + 1] = provider end
  return list
end

local function db() return require("collectors.db.program").new(1).providers end

local recipes = {
  { name = "throw", args = { "throw", "10" }, rundown = NAMES, providers = { runtime(0x8000, 4) } },
  -- the process dies: no rundown, so methods are named as they are compiled or fetched
  { name = "crash", args = { "crash", "3" }, rundown = NAMES, dies = true, providers = { runtime(0x2000008038, 5) } },
  { name = "fights", args = { "fights", "40" }, rundown = NAMES, providers = { runtime(0x4000, 4) } },
  { name = "waits", args = { "waits", "20" }, rundown = NAMES, providers = { runtime(0x40000000000, 5) } },
  -- contentions, the waits on handles inside and beside them, and exceptions (keyword Monitoring: the throws alone)
  { name = "holds", args = { "holds", "10" }, rundown = NAMES, providers = { runtime(0x40200004000, 5) } },
  { name = "gcs", args = { "gcs", "5" }, rundown = NONE, providers = { runtime(0x1, 4) } },
  { name = "bgc", args = { "bgc", "5" }, rundown = NONE, providers = { runtime(0x1, 4) } },
  {
    name = "datas", args = { "datas", "8" }, rundown = NONE, environment = { DOTNET_gcServer = "1" }, seconds = 4, stop = true,
    providers = { runtime(0x1, 4) },
  },
  { name = "alloc", args = { "alloc", "5000" }, rundown = NAMES, providers = { runtime(0x80000000000, 4) } },
  { name = "jit", args = { "jit", "100" }, rundown = NONE, providers = { runtime(0x1000000030, 5) } },
  {
    name = "pool", args = { "pool", "40" }, rundown = NAMES,
    providers = { runtime(0x10000, 4), { name = "System.Diagnostics.Eventing.FrameworkEventSource", keywords = 0x2, level = 5 } },
  },
  { name = "starve", args = { "starve" }, rundown = NONE, endless = true, seconds = 5, providers = { runtime(0x10000, 4) } },
  {
    name = "source", args = { "source", "100" }, rundown = NAMES,
    providers = { { name = "Lunette-Demo", keywords = "0xffffffffffffffff", level = 5 } },
  },
  {
    name = "services", args = { "di" }, rundown = NONE,
    providers = { runtime(0x8, 4), { name = "Microsoft-Extensions-DependencyInjection", keywords = "0xffffffffffffffff", level = 5 } },
  },
  { name = "http", args = { "http", "10" }, rundown = NONE, seconds = 8, providers = networking(true) }, -- the counters have told all
  { name = "http-no-ids", args = { "http", "1" }, rundown = NONE, providers = networking(false) },
  { name = "serve", args = { "serve", "10" }, rundown = NONE, wait_s = 1.3, providers = web() },
  { name = "net8-serve", runtime = "net8.0", args = { "serve", "4" }, rundown = NONE, wait_s = 1.3, providers = web() },
  {
    name = "kestrel", args = { "serve", "4" }, rundown = NONE, wait_s = 1.3,
    providers = { { name = "Microsoft-AspNetCore-Server-Kestrel", keywords = "0xffffffffffffffff", level = 4 } },
  },
  -- profiles; `zip -9` makes them a fifth of their size: NAME.zip beside the others
  {
    name = "cpu", args = { "cpu" }, rundown = NAMES | 0x20000, warm_s = 2, seconds = 1.5, ask = "shares", stop = true, endless = true,
    providers = require("lunette.profile").providers { kind = "cpu" },
  },
  {
    name = "sites", args = { "sites", "100" }, rundown = NAMES, providers = require("lunette.profile").providers { kind = "allocation" },
  },
  -- threads that stand still: the session opens when they do
  {
    name = "stand", args = { "stand", "0" }, rundown = NAMES, first = "^STANDING", endless = true, seconds = 0.25,
    providers = require("lunette.profile").providers { kind = "cpu" },
  },
  {
    name = "net8-stand", runtime = "net8.0", args = { "stand", "0" }, rundown = NAMES, first = "^STANDING", endless = true, seconds = 0.25,
    providers = require("lunette.profile").providers { kind = "cpu" },
  },
  -- TARGETS/db is where tests/targets/db/build.sh put its targets
  { name = "db", program = "db/net10.0/lunette-db", args = { "ef", "12" }, rundown = NONE, providers = db() },
  { name = "sqlclient", program = "db/net10.0/lunette-db", args = { "sqlevents", "12" }, rundown = NONE, providers = db() },
  {
    name = "sqlclient-source", program = "db/net10.0/lunette-db", args = { "sqlevents", "12" }, rundown = NONE,
    providers = { { name = "Microsoft.Data.SqlClient.EventSource", keywords = 0x1, level = 4 } },
  },
  -- nothing happens: all that the collectors of the runtime's own events ask for, over a process that does nothing
  {
    name = "quiet", args = { "idle" }, rundown = NONE, idle = true, endless = true, seconds = 1,
    providers = { runtime(0x4100001c011, 5) },
  },
  -- older runtimes, whose events have older versions
  { name = "net8-throw", runtime = "net8.0", args = { "throw", "2" }, rundown = NAMES, providers = { runtime(0x8000, 4) } },
  { name = "net8-fights", runtime = "net8.0", args = { "fights", "10" }, rundown = NAMES, providers = { runtime(0x4000, 4) } },
  { name = "net8-gcs", runtime = "net8.0", args = { "gcs", "3" }, rundown = NONE, providers = { runtime(0x1, 4) } },
  { name = "net9-waits", runtime = "net9.0", args = { "waits", "4" }, rundown = NAMES, providers = { runtime(0x40000000000, 5) } },
  { name = "net8-holds", runtime = "net8.0", args = { "holds", "10" }, rundown = NAMES, providers = { runtime(0x40200004000, 5) } },
  { name = "net9-holds", runtime = "net9.0", args = { "holds", "10" }, rundown = NAMES, providers = { runtime(0x40200004000, 5) } },
  -- all that the jit collector asks for: lookups of precompiled code and IL maps too
  { name = "net8-jit", runtime = "net8.0", args = { "jit", "10" }, rundown = NONE, providers = { runtime(0x3000060010, 5) } },
  { name = "spans", args = { "spans", "4" }, rundown = NONE, providers = { spans(false), runtime(0x1, 4) } },
  { name = "http-spans", args = { "http-spans", "3" }, rundown = NONE, providers = { spans(true) } },
  { name = "net8-spans", runtime = "net8.0", args = { "spans", "2" }, rundown = NONE, providers = { spans(false) } },
  { name = "logs", args = { "logs", "4" }, rundown = NONE, providers = { logs(0x8), TPL } },
  -- both kinds of messages, and no ids of scopes
  { name = "net8-logs", runtime = "net8.0", args = { "logs", "2" }, rundown = NONE, providers = { logs(0xc) } },
  { name = "net8-http", runtime = "net8.0", args = { "http", "5" }, rundown = NONE, providers = networking(true) },
  { name = "net9-http", runtime = "net9.0", args = { "http", "5" }, rundown = NONE, providers = networking(true) },
  { name = "net9-gcs", runtime = "net9.0", args = { "gcs", "3" }, rundown = NONE, providers = { runtime(0x1, 4) } },
}

--- Runs one recipe; returns the target's DONE line and the session's summary.
local function record(targets, recipe, path)
  local program = targets .. "/" .. (recipe.program or (recipe.runtime or "net10.0") .. "/lunette-target")
  local target <close> = h.start({ program, table.unpack(recipe.args) }, recipe.name, recipe.environment)
  if recipe.warm_s then
    target:command("go", "^GOING")
    assert(loop.sleep_ms(recipe.warm_s * 1000))
    target:command(recipe.ask, "^%u+ 1 ")
  elseif recipe.first then
    target:command("go", "^GOING")
    target:line(recipe.first)
    assert(loop.sleep_ms(500)) -- what spins before it sleeps
  end
  local source <close> = assert(events.open {
    pid = target.pid, save_to = path, buffer_mb = 64, rundown = recipe.rundown, stacks = true, providers = recipe.providers,
    want = { { provider = "-none-" } },
  })
  if not recipe.idle and not recipe.warm_s and not recipe.first then target:command("go", "^GOING") end
  if recipe.seconds then assert(loop.sleep_ms(recipe.seconds * 1000 // 1)) end
  local told = recipe.ask and target:command(recipe.ask, "^%u+ 2 ")
  if recipe.stop then target:command("stop", "^STOPPED") end
  local done = recipe.endless and "no DONE" or target:line("^DONE")
  if recipe.wait_s then assert(loop.sleep_ms(recipe.wait_s * 1000 // 1)) end -- for the counters that come each second
  if recipe.dies then h.wait_for("the end of the target", h.START_MS, function() return target.child.exit end) end
  local summary = assert(source:stop(30000))
  return told or done, summary
end

local targets, out = arg[1], arg[2]
if not out then
  io.stderr:write("usage: lunette lua tests/data/recordings/record.lua TARGETS OUT_DIR [NAME...]\n")
  return 2
end
local asked = {}
for i = 3, #arg do asked[arg[i]] = true end
for _, recipe in ipairs(recipes) do
  if not next(asked) or asked[recipe.name] then
    local path = out .. "/" .. recipe.name .. ".nettrace"
    fs.remove(path)
    local done, s = record(targets, recipe, path)
    print(("%s: %s"):format(recipe.name, done))
    print(("  %d events, %d bytes, %d lost, complete: %s"):format(s.events, s.bytes, s.lost, tostring(s.complete)))
  end
end
h.cleanup()
return 0
