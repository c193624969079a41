-- SPDX-License-Identifier: MIT
-- Stack samples whose names come beside the window: no rundown at its end, and the same names as with one; what was first used after the
-- names were told has its name too; and a target that is killed in the window leaves its names.
local capture = require("samplers.capture")
local h = require("harness")
local sources = require("samplers.sources")

local RUNTIMES <const> = { "net10.0", "net9.0", "net8.0" }
local HOT <const> = { "Hot.Loop(", "Hot.Recursion(", "Hot.Linq(", "Hot.Regexes(", "Hot.Native(" }
local NAMED <const> = 0.98 -- of all samples: stubs of the runtime have no name, however it is asked

local function need(skip, runtime)
  local built, why = h.build_target(runtime)
  if not built then skip(why) end
end

-- A window of samples. old: the target counts as one that has run for long, so that names come beside.
local function window(target, seconds, old)
  local source = { process = { pid = target.pid, start_unix_ms = old and 1 or h.loop.unix_ms() } }
  local ctx = { progress = function() end }
  local artifact, phases = capture.run(ctx, source, { durationSeconds = seconds }, { kind = "cpu", il = true, message = "test" })
  return h.ok(artifact, "a window: " .. tostring(phases)), phases
end

-- Frames by name.
local function frames_of(artifact)
  local frames = {}
  for _, f in ipairs(artifact.profile:frames { first = 1, count = 65536 }) do frames[f.method] = f end
  return frames
end

local function frame_with(frames, text)
  for name, f in pairs(frames) do
    if name:find(text, 1, true) then return f end
  end
  return nil
end

local function share_named(artifact) return 1 - artifact.info.unresolved / artifact.info.samples end

--- What has to be known of a frame, so that it can be handed on: module, token, tier, and the IL offset of an address.
local function assert_known(artifact, frames, text)
  local f = h.ok(frame_with(frames, text), text)
  h.ok(f.token and f.module_index and f.tier and f.tier ~= "Unknown", text .. ": " .. h.json.encode(f))
  h.ok(artifact.modules[f.module_index].path:find("lunette-target.dll", 1, true), "its module")
  local offset
  for _, at in ipairs(f.addresses) do offset = offset or at.il_offset end
  h.ok(offset, text .. " has an IL offset: " .. h.json.encode(f.addresses))
end

--- What is often seen in one window has the same name in the other wherever that has the same address: threads may come and go, so that
--- one of them stands in a method in one of the windows only.
local function same_by_address(frames, others, least)
  local names, compared = {}, 0
  for name, f in pairs(frames) do
    for _, at in ipairs(f.addresses) do names[at.address] = name end
  end
  for name, f in pairs(others) do
    local at = f.inclusive > least and f.kind ~= "unresolved" and f.addresses or {}
    for _, one in ipairs(at) do
      if names[one.address] then
        h.eq(name, names[one.address], "the name of " .. one.address)
        compared = compared + 1
      end
    end
  end
  h.ok(compared >= 8, "addresses that are in both windows: " .. compared)
end

--- Names that come beside are those of a rundown at the end, and the session ends without one.
local function the_same_names(runtime)
  return function(skip)
    need(skip, runtime)
    local target <close> = h.target(runtime, "cpu")
    h.loop.sleep_ms(1500) -- most is compiled for good
    local early, phases = window(target, 2, true)
    local late = window(target, 2, false)
    h.ok(share_named(early) > NAMED, ("%d of %d without a name"):format(early.info.unresolved, early.info.samples))
    h.ok(share_named(late) > NAMED, ("%d of %d without a name, with a rundown"):format(late.info.unresolved, late.info.samples))
    local frames, others = frames_of(early), frames_of(late)
    for _, text in ipairs(HOT) do
      assert_known(early, frames, text)
      h.eq(frame_with(others, text).token, frame_with(frames, text).token, text)
    end
    same_by_address(frames, others, late.info.samples / 20)
    sources.modules(early, { pid = target.pid })
    h.ok(early.modules[frame_with(frames, HOT[1]).module_index].mvid, "the file of its module")
    local rundown = 0
    for _, kind in ipairs(phases.summary.counts) do
      if kind.provider:find("Rundown", 1, true) then rundown = rundown + kind.count end
    end
    h.eq(0, rundown, "rows of a rundown in the window's own session")
    h.no_session(target)
  end
end

--- Work that begins within the window: its own methods are compiled, those of the framework are precompiled and have no event of a load.
local function begun_in_the_window(runtime)
  return function(skip)
    need(skip, runtime)
    local target <close> = h.target(runtime, "cpu", nil, { go = false })
    h.loop.sleep_ms(500)
    local slowness, began = h.slowness(), h.loop.now_ms()
    local call = h.loop.spawn(function() return window(target, 3 * slowness, true) end)
    h.loop.sleep_ms(1200 * slowness) -- the names have been told
    target:command("go", "^GOING")
    local late = h.loop.now_ms() - began > 2000 * slowness
    local artifact = h.ok(call:await(60000 + 3000 * slowness))
    if late then h.too_slow() end
    local frames = frames_of(artifact)
    for _, text in ipairs(HOT) do assert_known(artifact, frames, text) end
    local library = h.ok(frame_with(frames, "System.Text.RegularExpressions."), "a method of the framework")
    h.ok(library.token and library.module_index, "whole: " .. h.json.encode(library))
    h.ok(share_named(artifact) > 0.95, ("%d of %d without a name"):format(artifact.info.unresolved, artifact.info.samples))
    h.no_session(target)
  end
end

-- Until when the names are told is the target's matter, and on a busy machine later.
local KILLED_AFTER_MS <const> = { 2000, 10000 }

local function killed_after(ms)
  local target <close> = h.target("net10.0", "cpu")
  h.loop.sleep_ms(1000)
  local call = h.loop.spawn(function() return window(target, 30, true) end)
  h.loop.sleep_ms(ms)
  target:kill()
  return h.ok(call:await(60000))
end

local function killed(skip)
  need(skip, "net10.0")
  local artifact
  for _, ms in ipairs(KILLED_AFTER_MS) do
    artifact = killed_after(ms)
    if share_named(artifact) > 0.95 then break end
  end
  h.ok(artifact.info.samples > 0 and artifact.duration_ms < 20000, "what came before is kept")
  local frames = frames_of(artifact)
  for _, text in ipairs(HOT) do h.ok(frame_with(frames, text), text .. " has its name") end
  h.ok(share_named(artifact) > 0.95, ("%d of %d without a name"):format(artifact.info.unresolved, artifact.info.samples))
end

-- Leaves of a twentieth of the samples that have a name.
local function leaves_of(artifact)
  local names = {}
  for name, f in pairs(frames_of(artifact)) do
    if f.kind ~= "unresolved" and f.exclusive > artifact.info.samples / 20 then names[#names + 1] = name end
  end
  return names
end

--- The session that tells the names breaks off: what began to be used in the window is no name for all that lies behind it.
local function names_that_break_off(skip)
  need(skip, "net10.0")
  local target <close> = h.target("net10.0", "stand", 1)
  h.loop.sleep_ms(500)
  local take_names = capture.take_names
  capture.take_names = function() return false end
  local artifact = window(target, 1, true)
  capture.take_names = take_names
  local others = frames_of((window(target, 1, false)))
  for _, name in ipairs(leaves_of(artifact)) do h.ok(others[name], "no such leaf: " .. name) end
  h.ok(artifact.info.unresolved > artifact.info.samples / 2, "what was not told has no name")
  h.ok(table.concat(artifact.notes, " "):find("NamesMissing: ", 1, true), "and the answer says why")
  h.no_session(target)
end

local cases = {
  { "names that break off", names_that_break_off },
  { "a target that is killed in the window", killed },
}
for _, runtime in ipairs(RUNTIMES) do
  cases[#cases + 1] = { "names come beside the window, " .. runtime, the_same_names(runtime) }
  cases[#cases + 1] = { "work that begins in the window, " .. runtime, begun_in_the_window(runtime) }
end
return cases
