-- SPDX-License-Identifier: MIT
-- Runs of a compiled program: one window over a live process or a recorded file, with its price and what a reader should know of it.
local events = require("lunette.events")
local faults = require("lunette.faults")
local json = require("lunette.json")
local log = require("lunette.log")
local loop = require("lunette.loop")
local window = require("collectors.window")

local RUNTIME <const> = "Microsoft-Windows-DotNETRuntime"

local M = {}

M.BUFFER_MB = 64
M.MISSING_NOTES = 5 -- fields that are named in the notes; the rest is in meta
M.NAMES_MS = 5000   -- for the rundown of the short session that brings names early

local function open_options(program, options)
  local open = {
    want = {}, program = program, save_to = options.save_to, queue = options.queue,
  }
  if options.path then
    open.path = options.path
  else
    open.pid, open.providers = options.process.pid, program.providers
    open.buffer_mb, open.rundown = options.buffer_mb or M.BUFFER_MB, 0
  end
  return open
end

local Naming = {}
Naming.__index = Naming
function Naming:settle() self.task:await(M.NAMES_MS) end
function Naming:__close() self.task:cancel("the window is over") end

-- A short session beside the window, of which only the rundown counts: it names what is loaded already, for a target that may die before
-- the rundown at the window's own end.
local function early_names(options)
  if options.names ~= "early" or options.path then return nil end
  return function(source)
    local task = loop.spawn(function()
      local naming <close> = events.open {
        pid = options.process.pid, providers = { { name = RUNTIME, keywords = 0, level = 1 } }, names_for = source,
        buffer_mb = options.buffer_mb or M.BUFFER_MB,
      }
      if naming then naming:stop(M.NAMES_MS) end
    end)
    return setmetatable({ task = task }, Naming)
  end
end

-- Ends of a call that the next one would have, too.
local LIMITS <const> = { BudgetExceeded = true, OutOfMemory = true }

-- What gives rows to the functions of each(), and what failed in them: { n =, rows =, text =, over = }. A function of a site gives nil and
-- an err where it failed; one that came to a limit is not called again.
local function rows_to(program)
  local failed = {}
  return function(record)
    local i = record.each
    local fn, fault = program.each[i], failed[i]
    if not fn then return end
    if fault then fault.rows = fault.rows + 1 end
    if fault and fault.over then return end
    local value, err = fn(record.row)
    if value ~= nil or type(err) ~= "table" or not err.kind then return end
    if not fault then
      fault = { n = 0, rows = 1, text = faults.text(err) }
      failed[i] = fault
      log.error("probe", "a function of each() failed", { program = program.name, error = fault.text })
      faults.add("each() of " .. program.name, fault.text)
    end
    fault.n, fault.over = fault.n + 1, LIMITS[err.kind]
  end, failed
end

local function failure_notes(failed, notes)
  for _, fault in pairs(failed) do
    notes[#notes + 1] = ("EachFailed: the function of each() failed %d times%s: %s"):format(fault.n,
      fault.over and (", and was not called for %d more rows"):format(fault.rows - fault.n) or "", fault.text)
  end
end

-- What the engine could not do as declared.
local function engine_notes(meta, notes)
  for i, m in ipairs(meta.missing) do
    if i > M.MISSING_NOTES then
      notes[#notes + 1] = ("FieldsMissing: %d more fields were not in their events."):format(#meta.missing - M.MISSING_NOTES)
      break
    end
    notes[#notes + 1] = ("FieldMissing: %s has no %s in its version %d (%d events); left out."):format(m.event, m.field, m.version, m.n)
  end
  if meta.stacks_dropped > 0 then
    notes[#notes + 1] = ("StacksDropped: %d stacks were not kept: too many different ones."):format(meta.stacks_dropped)
  end
  if meta.texts_dropped > 0 then
    notes[#notes + 1] = ("TextsDropped: %d texts that expressions made (lower, hex, enum) were too long together; they count as null.")
      :format(meta.texts_dropped)
  end
  if meta.refused > 0 then
    notes[#notes + 1] = ("MemoryLimit: %d values were not kept, since the collector's memory was full."):format(meta.refused)
  end
end

--- One window. The result has what the program keeps, and stacks, meta, cost, window and notes.
function M.run(ctx, program, options)
  local notes = json.array {}
  local on_row, failed = rows_to(program)
  local spec = {
    open = open_options(program, options), duration_ms = not options.path and options.duration_ms or nil, grace_ms = options.grace_ms,
    complete = options.complete, interrupted = options.interrupted, message = options.message or ("Collecting " .. program.name),
    on_event = on_row, beside = early_names(options), process = options.process,
    bridge = options.bridge,
  }
  local done, err = window.run(ctx, spec)
  if not done then return nil, err end
  local result = done.reduced
  done.reduced = nil
  window.notes(done, spec, notes)
  engine_notes(result.meta, notes)
  failure_notes(failed, notes)
  result.window, result.cost, result.notes = done, done.cost, notes
  return result
end

local Session = {}
Session.__index = Session

--- Takes what `each` has to see, for at most ms; true, "ended" or "finished"; nil, err when the time is over.
function Session:next(ms)
  local batch, err = self.source:next(ms)
  if not batch then
    if err.kind == "NotFound" then return "ended" end
    return nil, err
  end
  for _, record in ipairs(batch) do self.on_row(record) end
  return self.source:finished() and "finished" or true
end

--- What the reducers hold now.
function Session:peek() return self.source:result() end

--- Ends the session and gives the source's summary; then peek() is the final result.
function Session:stop(ms) return self.source:stop(ms) end
function Session:close() self.source:close() end
Session.__close = Session.close

function M.open(program, options)
  local source, err = events.open(open_options(program, options))
  if not source then return nil, err end
  return setmetatable({ source = source, on_row = (rows_to(program)) }, Session)
end

return M
