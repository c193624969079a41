-- SPDX-License-Identifier: MIT
-- One window of samples into a profile: the session or file, the names, the phases and what they took, and what a reader should know.
local collector = require("lunette.collector")
local events = require("lunette.events")
local loop = require("lunette.loop")
local measured = require("collectors.measured")
local profile = require("lunette.profile")
local window = require("collectors.window")

local M = {}

M.BUFFER_MB = 256     -- a thousand stacks a second of each thread
M.STOP_MS = 15000     -- the rundown of a large program: a hundred thousand methods
M.WARM_MS = 10000     -- a younger process still loads most of its methods: names come once, at the end
-- A session has a provider; one that nobody has sends nothing and starts nothing. (Opening the runtime's own while a heap dump runs would
-- start another collection.)
local NOBODY <const> = "Lunette-Names"
local NS_PER_MS <const> = 1e6
local RUNTIME_FRAMES <const> = 100 -- of a stack in EventPipe

---@class SampleArtifact
---@field profile userdata         of lunette.profile
---@field info table               its info()
---@field modules table[]          its modules(), with mvid where their files could be read
---@field sources table<integer, SampleSource>?   by frame
---@field process_id integer
---@field started_unix_ms integer
---@field duration_ms number
---@field notes string[]
---@field cost table?
---@field recorded boolean
---@field untold boolean?          not all names of its methods were told

---@class CaptureSpec
---@field kind "cpu"|"allocation"
---@field waits? table[]
---@field sampled? boolean
---@field il? boolean              IL offsets, for source lines
---@field save_to? string          the stream into this file
---@field message string

local function since(ns) return (loop.now_ns() - ns) / NS_PER_MS end

local function rundown_of(spec) return spec.il and profile.RUNDOWN_IL or profile.RUNDOWN end

-- Whether names come beside the window, from a session of their own: then nothing is left to be told at its end. A stream that is kept has
-- its names in itself, and a process that has just begun has few yet.
local function is_beside(source, spec)
  local process = source.process
  if source.path or spec.save_to or not process or (process.digest or {}).runtime == "NativeAot" then return false end
  return (process.start_unix_ms or 0) + M.WARM_MS < loop.unix_ms()
end

local function open_options(source, spec, builder, beside)
  local open = { tap = builder, save_to = spec.save_to }
  if source.path then
    open.path = source.path
  else
    open.pid, open.buffer_mb = source.process.pid, M.BUFFER_MB
    open.rundown = not beside and rundown_of(spec)
    open.providers = profile.providers { kind = spec.kind, sampled = spec.sampled, il = spec.il, loads = beside }
  end
  return open
end

--- A session of which only the rundown counts: the names of what is loaded. True when it came to its end.
---@param source CollectorSource
---@param spec { il: boolean? }
---@param builder LunetteProfileBuilder
---@return boolean
function M.take_names(source, spec, builder)
  local naming <close> = events.open {
    pid = source.process.pid, providers = { { name = NOBODY, keywords = 0, level = 1 } }, rundown = rundown_of(spec),
    tap = builder:names(), buffer_mb = M.BUFFER_MB,
  }
  local summary = naming and naming:stop(M.STOP_MS)
  return summary ~= nil and summary.complete and summary.lost == 0
end

local Naming = {}
Naming.__index = Naming
function Naming:settle() self.complete = self.task:await(M.STOP_MS) == true end
function Naming:__close() self.task:cancel("the window is over") end

local function names_beside(source, spec, builder, made)
  return function()
    made.naming = setmetatable({ task = loop.spawn(function() return M.take_names(source, spec, builder) end) }, Naming)
    return made.naming
  end
end

-- Names that came beside the window miss precompiled methods that were first used later, and what was lost: those are told now, if they
-- are on a stack. Whether all names were told.
local function complete_names(source, spec, builder, made, done)
  local whole = (done.summary.lost or 0) == 0
  if not made.naming then return whole and done.summary.complete ~= false end
  local unknown, begun, dropped = builder:unnamed()
  if not unknown then return false end
  whole = whole and made.naming.complete and dropped == 0
  if done.ended == "stream-end" or (begun == 0 and (unknown == 0 or whole)) then return whole end
  return M.take_names(source, spec, builder)
end

-- Why code that should have a name may have none.
local function names_note(info, done, source, notes)
  if info.unresolved == 0 or info.samples == 0 then return end
  local why
  if (done.summary.lost or 0) > 0 then
    why = "events were lost, and names of methods may be among them"
  elseif source.path then
    why = "the recording stops before all names of its methods were told"
  elseif done.ended == "stream-end" and not done.lives then
    why = "the process ended before all names of its methods were told"
  else
    why = "the session ended before all names of methods were told"
  end
  notes[#notes + 1] = ("NamesMissing: %s, so code stands as its address; what has a name is right."):format(why)
end

--- Adds to the notes what the profile could not do.
---@param info table   of the profile
---@param notes string[]
function M.profile_notes(info, notes)
  if info.dropped > 0 then
    notes[#notes + 1] = ("SamplesDropped: the stacks of %d samples found no room; they are in <root> only."):format(info.dropped)
  end
  if info.cut > 0 then
    notes[#notes + 1] = ("StacksCut: %d stacks are deeper than can be kept; what is nearest to the root is missing."):format(info.cut)
  end
  if info.full > 0 then
    notes[#notes + 1] = ("StacksFull: %d samples have %d frames, as many as the runtime tells of a stack: what is nearest to the root is "
      .. "missing, so some stacks begin within the program."):format(info.full, RUNTIME_FRAMES)
  end
  if info.methods_dropped > 0 then
    notes[#notes + 1] = ("MethodsDropped: %d methods were not kept, so some frames have an address for a name.")
      :format(info.methods_dropped)
  end
  if info.bad > 0 then notes[#notes + 1] = ("Unreadable: %d events could not be read."):format(info.bad) end
  if info.no_stack > 0 then
    notes[#notes + 1] = ("NoStack: %d samples came without a stack; they are in <root> only."):format(info.no_stack)
  end
end

--- Runs the window and builds the profile.
---@param ctx table
---@param source CollectorSource
---@param args { durationSeconds: integer }
---@param spec CaptureSpec
---@return SampleArtifact?, table phases_or_err   phases: milliseconds of session_start, window, drain, build, names
function M.run(ctx, source, args, spec)
  local builder, err = profile.new { kind = spec.kind, waits = spec.waits, sampled = spec.sampled }
  if not builder then return nil, err end
  local beside, made = is_beside(source, spec), {}
  local run = {
    open = open_options(source, spec, builder, beside), beside = beside and names_beside(source, spec, builder, made) or nil,
    on_beat = true, duration_ms = not source.path and args.durationSeconds * 1000 or nil,
    on_event = function() end, message = spec.message, process = source.process, priced = true, stop_ms = M.STOP_MS,
  }
  local done
  done, err = window.run(ctx, run)
  if not done then return nil, err end
  local empty = source.path and collector.empty_recording(source.path, done.summary)
  if empty then return nil, empty end
  local began = loop.now_ns()
  local told = complete_names(source, spec, builder, made, done)
  local built
  built, err = builder:build(told)
  if not built then return nil, err end
  local build_ms, notes = since(began), {}
  window.notes(done, run, notes)
  local artifact = measured.window({ window = done, notes = notes, cost = done.cost }, source)
  artifact.profile, artifact.info, artifact.modules = built, built:info(), built:modules()
  M.profile_notes(artifact.info, notes)
  artifact.untold = not told
  if artifact.untold then names_note(artifact.info, done, source, notes) end
  artifact.close = function() built:close() end
  return artifact, {
    session_start = done.open_ms, window = done.elapsed_ms, drain = done.drain_ms, build = build_ms,
    names = math.min(artifact.info.name_ms or 0, build_ms), summary = done.summary,
  }
end

return M
