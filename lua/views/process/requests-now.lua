-- SPDX-License-Identifier: MIT
-- requests-now: which ASP.NET Core requests hang right now, and what the threads on which they began are doing: a short window of events,
-- then one snapshot of all stacks.
local lazy = require("lunette.lazy")
local collect = require("collectors.requests.collect")
local hints = require("lunette.hints")
local json = require("lunette.json")
local loop = require("lunette.loop")
local numbers = require("lunette.numbers")
local process = require("lunette.process")
local web_paths = require("collectors.web_paths")
local worker = lazy("lunette.worker")

local M = {}

M.SECONDS = 2
M.MAX_ROWS = 100
local MAX_FRAMES <const> = 8
local STACK_DEPTH <const> = 64
local TIMEOUT_MS <const> = 60000
local TOLD <const> = { "BegunBefore", "NoAspNetCore", "RequestsMissing" } -- notes of the window that change what its rows mean
local HOSTING <const> = "Microsoft.AspNetCore.Hosting"
local ROW <const> = { __order = { "traceId", "endpoint", "method", "startedAtMs", "threadId", "topFrames" } }
-- The bottom of a pool thread that has nothing to do.
local IDLE <const> = { "System.Threading.LowLevelLifoSemaphore.", "System.Threading.PortableThreadPool+WorkerThread." }

-- Whether a stack is that of a pool thread which waits for work: whatever began on it went on elsewhere, or waits for something.
local function is_idle(frames)
  for _, name in ipairs(frames) do
    local of_pool = name:find("^System%.Threading%.Thread%.") ~= nil
    for _, start in ipairs(IDLE) do of_pool = of_pool or name:sub(1, #start) == start end
    if not of_pool then return false end
  end
  return true
end

-- Without what generic types are of: that is most of the text of a frame of an async method.
local function plain(name)
  return (name:gsub("%b[]", function(inside) return inside:find("%a") and "" or inside end))
end

--- The managed frames of each thread, top first, by its number in the process.
---@param facts table   of the worker's job
---@return table<integer, string[]>
function M.stacks(facts)
  local by_thread = {}
  for _, thread in ipairs(facts.threads or {}) do
    local frames = {}
    for _, frame in ipairs(thread.frames or {}) do
      local method = frame[1] == "managed" and facts.methods[frame[4] + 1]
      if method and method[2] ~= "" then frames[#frames + 1] = plain(method[2]) end
    end
    by_thread[thread.osId] = frames
  end
  return by_thread
end

--- InFlightHttpRequest[], oldest first, and how many of them are on no thread.
---@param artifact RequestsArtifact
---@param by_thread table<integer, string[]>?   nil: the stacks could not be read
---@param later_ms number                       between the end of the window and the stacks
---@return table rows, integer awaiting
function M.rows(artifact, by_thread, later_ms)
  local rows, awaiting = json.array({}), 0
  for i, r in ipairs(artifact.rows) do
    if i > M.MAX_ROWS then break end
    local frames = by_thread and by_thread[r.thread] or {}
    if by_thread and is_idle(frames) then
      awaiting, frames = awaiting + 1, {}
    end
    rows[i] = setmetatable({
      traceId = r.trace_id or "", endpoint = r.path or web_paths.UNKNOWN, method = r.method or web_paths.UNKNOWN,
      startedAtMs = numbers.round(r.elapsed_ms + later_ms, 1), threadId = r.thread or 0,
      topFrames = json.array(table.move(frames, 1, math.min(#frames, MAX_FRAMES), 1, {})),
    }, ROW)
  end
  return rows, awaiting
end

local function stacks_of(ctx, target)
  local sent, options = worker.target { process = target }
  sent.maxFrames = STACK_DEPTH
  options.timeout_ms, options.message = TIMEOUT_MS, "Reading stacks"
  return worker.json(ctx, "threads", sent, options)
end

local function next_steps(target, any)
  local counters = hints.new("collect_events", "See the server's own counts.",
    { kind = "counters", durationSeconds = 5, providers = { HOSTING }, processId = target.pid })
  if not any then return { counters } end
  return {
    hints.new("collect_thread_snapshot", "See all threads, and who waits for whom.", { maxFramesPerThread = 64, processId = target.pid },
      "high"),
    counters,
  }
end

local function sentence(target, artifact, rows, awaiting)
  local parts = { ("Process %d: %d requests that began in the last %d s have not ended"):format(target.pid, artifact.in_flight, M.SECONDS) }
  if awaiting > 0 then
    parts[#parts + 1] = ("%d of them are on no thread: they wait for something asynchronous"):format(awaiting)
  end
  if artifact.in_flight > #rows then parts[#parts + 1] = ("the oldest %d are listed"):format(#rows) end
  for _, note in ipairs(artifact.notes) do
    for _, word in ipairs(TOLD) do
      if note:sub(1, #word) == word then parts[#parts + 1] = (note:gsub("%.$", "")) end
    end
  end
  return table.concat(parts, "; ") .. "."
end

--- inspect_process(view="requests-now").
function M.run(ctx, args)
  local target, err = process.resolve(ctx, args.processId)
  if not target then return nil, err end
  local artifact
  artifact, err = collect(ctx, { process = target }, { durationSeconds = M.SECONDS })
  if not artifact then return nil, err end
  local ended_ms, facts = loop.now_ms(), nil
  if artifact.in_flight > 0 then
    facts, err = stacks_of(ctx, target)
    if not facts then return nil, err end
  end
  local rows, awaiting = M.rows(artifact, facts and M.stacks(facts), math.max(0, loop.now_ms() - ended_ms))
  return rows, {
    summary = sentence(target, artifact, rows, awaiting), process = target, hints = next_steps(target, artifact.in_flight > 0),
  }
end

return M
