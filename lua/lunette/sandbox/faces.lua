-- SPDX-License-Identifier: MIT
-- faces: granted functions that a script gets in a form of its own: under its limits, for what was resolved in its call, or with read-only
-- results.
local loop = require("lunette.loop")
local native = require("lunette.sandbox.native")
local readonly = require("lunette.sandbox.readonly")

local M = {}

local MAX_SPAWNED <const> = 8          -- tasks of one call
local MAX_CLEANUPS <const> = 16        -- of one task
local MAX_REGEX_TEXT <const> = 1 << 20 -- bytes that a regular expression searches at once: it works unseen

-- A task of the script's: it runs under the limits of the box, and is cancelled when the call that spawned it ends.
local function spawn(box)
  return function(fn, ...)
    if type(fn) ~= "function" then error("loop.spawn: a function", 2) end
    if loop.current().data.sandbox_child then error("loop.spawn: a task that was spawned cannot spawn", 2) end
    local task = loop.spawn(function(...)
      loop.current().data.sandbox_child = true
      return box:wrap(fn)(...)
    end, ...)
    if not native.adopt(task, MAX_SPAWNED) then
      task:cancel("too many tasks")
      error(("loop.spawn: a call has at most %d tasks"):format(MAX_SPAWNED), 2)
    end
    return {
      await = function(_, timeout_ms) return task:await(timeout_ms) end, done = function() return task:done() end,
      cancel = function(_, reason) task:cancel(type(reason) == "string" and reason or nil) end,
    }
  end
end

local function check_text(what, subject)
  if #subject > MAX_REGEX_TEXT then error(("regex: %s: the text is longer than 1 MiB"):format(what), 3) end
end

local function compile(pattern)
  local regex = require("lunette.regex")
  local expression, err = regex.compile(pattern)
  if not expression then return nil, err end
  return readonly.view {
    find = function(_, subject, init) check_text("find", subject) return expression:find(subject, init) end,
    gsub = function(_, subject, replacement) check_text("gsub", subject) return expression:gsub(subject, replacement) end,
  }
end

-- What a session is opened with: a file that was resolved for this call, if any, and none to write.
local function open_options(given)
  if type(given) ~= "table" then error("a table of options is needed", 3) end
  local options = {}
  for k, v in next, given do options[k] = v end -- raw: it stays what is looked at here
  if options.save_to ~= nil then error("save_to is not available to sandboxed scripts", 3) end
  if options.path ~= nil and not require("lunette.recordings").is_resolved(options.path) then
    error("path must be one that lunette.collector.source(ctx, args) gave in this call", 3)
  end
  return options
end

local function open_events()
  return function(options) return require("lunette.events").open(open_options(options)) end
end

local function with_program(name)
  return function()
    return function(ctx, program, options) return require("lunette.probe")[name](ctx, program, open_options(options)) end
  end
end

local function finder(name)
  return function(box) return require("lunette.sandbox.handed").finder(box, require("lunette.handles")[name]) end
end

-- Functions of lunette.json, which takes tables as they are: views are looked behind.
local function encode() return function(value, ...) return require("lunette.json").encode(readonly.plain(value), ...) end end

local function array()
  return function(list)
    local own = readonly.behind(list) == list and list or table.move(list, 1, #list, 1, {})
    return require("lunette.json").array(own)
  end
end

-- Text that goes out as it is could be anything, in the middle of an answer: a script gets what it says as a value.
local function raw()
  return function(text)
    local value, err = require("lunette.json").decode(text)
    if value == nil then error("json.raw: the text is no JSON: " .. err.message, 2) end
    return value
  end
end

local function is_array() return function(value) return require("lunette.json").is_array(readonly.behind(value)) end end

-- The captures of a journey are others' as well.
local function journey_captures()
  return function(entry, options)
    local list, err = require("lunette.journey").captures(entry, options)
    if not list then return nil, err end
    local out = {}
    for i, one in ipairs(list) do out[i] = one == entry and one or require("lunette.sandbox.handed").entry(one) end
    return out
  end
end

local function journey_view()
  return function(entry, options, comparable)
    return require("lunette.journey").view(entry, options, function(artifact)
      return readonly.plain(comparable(readonly.view(readonly.behind(artifact))))
    end)
  end
end

-- ---- calls of other tools -------------------------------------------------------------------------------------------------------------

local prepared = setmetatable({}, { __mode = "k" }) -- what a script has of a prepared call -> the call

-- A call that a script makes of another tool: the caller is asked for its scopes, and the script must declare as much risk.
local function prepare_call(box)
  return function(ctx, name, arguments)
    local real = require("lunette.sandbox.handed").context(ctx)
    if not real then error("fanout.prepare: the first argument is the ctx of the call", 2) end
    local call, err = require("lunette.fanout").prepare(real, name, readonly.plain(arguments or {}))
    if not call then return nil, err end
    local safety = require("lunette.safety")
    local risk = call.call.safety
    if safety.rank(risk) > safety.rank(safety.descriptor(box.risk)) then
      error(("%s: this call has the risk %s; a script that makes it declares as much (risk = %q)"):format(name, risk.riskLevel,
        risk.riskLevel), 2)
    end
    local face = readonly.view({ tool = name, arguments = call.bound.args, safety = risk })
    prepared[face] = call
    return face
  end
end

local function run_calls()
  return function(ctx, calls)
    local handed = require("lunette.sandbox.handed")
    local real, list = handed.context(ctx), {}
    if not real then error("fanout.run: the first argument is the ctx of the call", 2) end
    for i, face in ipairs(calls) do
      list[i] = prepared[face] or error("fanout.run: a list of what fanout.prepare gave", 2)
    end
    if #list > MAX_SPAWNED then error(("fanout.run: at most %d calls"):format(MAX_SPAWNED), 2) end
    local results, err = require("lunette.fanout").run(real, list)
    if not results then return nil, err end
    local out = {}
    for i, result in ipairs(results) do
      local extras = result.extras and setmetatable({}, { __index = readonly.view(result.extras) })
      if extras and result.extras.handle then extras.handle = handed.entry(result.extras.handle) end
      out[i] = { data = readonly.view(result.data), extras = extras, error = result.error }
    end
    return out
  end
end

-- ---- small ones -----------------------------------------------------------------------------------------------------------------------

-- What a script undoes when the task ends: under its limits, too.
local function on_cleanup(box)
  return function(fn)
    if type(fn) ~= "function" then error("loop.on_cleanup: a function", 2) end
    local data = loop.current().data
    data.sandbox_cleanups = (rawget(data, "sandbox_cleanups") or 0) + 1
    if data.sandbox_cleanups > MAX_CLEANUPS then error(("loop.on_cleanup: at most %d of a task"):format(MAX_CLEANUPS), 2) end
    loop.on_cleanup(box:wrap(fn))
  end
end

local MAX_CHANNEL <const> = 10000 -- values that may wait in one

local function channel()
  return function(n)
    if math.type(n) ~= "integer" or n > MAX_CHANNEL then error(("loop.channel: a whole number up to %d"):format(MAX_CHANNEL), 2) end
    return loop.channel(n)
  end
end

-- A meter that a script forgets to close would keep others from measuring.
local function start_meter()
  return function(pid)
    local meter = require("lunette.cost").start(pid)
    loop.on_cleanup(function() meter:close() end)
    return meter
  end
end

local function find_signal()
  return function(id) return readonly.view(require("lunette.signal").find(id)) end
end

local function numbers_of() return function(name) return readonly.view(require("lunette.thresholds").of(name)) end end

local function hints_of()
  return function(kind, capture, own) return require("lunette.rules.index").hints(kind, readonly.plain(capture), own) end
end

-- The budget of the task is not the script's to change, and that of its call stays what it is.
local function set_budget() return function() end end

-- What a script remembers of a process is its own; what we remember, it can read.
local OWN <const> = "site:"

local function remember()
  return function(process, name, value) require("lunette.process").remember(process, OWN .. tostring(name), value) end
end

local function recall()
  return function(process, name)
    local lib = require("lunette.process")
    local own = lib.recall(process, OWN .. tostring(name))
    if own ~= nil then return own end
    return readonly.view(lib.recall(process, name))
  end
end

-- A text of the target: whoever made the call is asked, not whom the script says it asks for.
local function text_of()
  return function(ctx, asked, rows, i, about)
    local real = require("lunette.sandbox.handed").context(ctx)
    if not real then error("sensitive.text: the first argument is the ctx of the call", 2) end
    return require("lunette.sensitive").text(real, asked, readonly.behind(rows), i, readonly.plain(about))
  end
end

local writers = setmetatable({}, { __mode = "k" }) -- box -> what it logs by

-- Lines of a script, as many as it may write.
local function logger(level)
  return function(box)
    return function(area, message, fields)
      writers[box] = writers[box] or require("lunette.sandbox.lines").writer(box.name)
      writers[box](level, area, message, fields)
    end
  end
end

--- Module -> function -> what makes its face for a box.
M.OF = {
  ["lunette.process"] = { remember = remember, recall = recall },
  ["lunette.log"] = {
    debug = logger("debug"), info = logger("info"), notice = logger("notice"), warning = logger("warning"), error = logger("error"),
  },
  ["lunette.fanout"] = { prepare = prepare_call, run = run_calls },
  ["lunette.cost"] = { start = start_meter },
  ["lunette.sensitive"] = { text = text_of },
  ["lunette.signal"] = { find = find_signal },
  ["lunette.thresholds"] = { of = numbers_of },
  ["lunette.rules.index"] = { hints = hints_of },
  ["lunette.json"] = { encode = encode, array = array, is_array = is_array, raw = raw },
  ["lunette.journey"] = { captures = journey_captures, view = journey_view },
  ["lunette.loop"] = { spawn = spawn, channel = channel, on_cleanup = on_cleanup, set_budget = set_budget },
  ["lunette.regex"] = { compile = function() return compile end },
  ["lunette.events"] = { open = open_events },
  ["lunette.probe"] = { run = with_program("run"), open = with_program("open") },
  ["lunette.kinds"] = { get = function() return function(name) return readonly.view(require("lunette.kinds").get(name)) end end },
  ["lunette.handles"] = { get = finder("get"), peek = finder("peek"), latest = finder("latest") },
}

return M
