-- SPDX-License-Identifier: MIT
-- Windows over DiagnosticSource on one process: each session asks for the lines of all, and when one ends they are set again.
local bridge = require("collectors.diagnostic_source")
local events = require("lunette.events")
local loop = require("lunette.loop")

local real = events.open
local opened, refuse -- sessions in the order in which they were opened: { lines, keywords, stopped }

local Session = {}
Session.__index = Session
function Session:stop()
  self.stopped = true
  return {}
end
function Session:close() self.stopped = true end

local function fake(open)
  loop.sleep_ms(2)
  if refuse and open.providers[1].keywords == 0 then return nil, "refused" end
  local lines = open.providers[1].args:match('^FilterAndPayloadSpecs="(.*)"$')
  opened[#opened + 1] = setmetatable({ lines = lines, keywords = open.providers[1].keywords }, Session)
  return opened[#opened]
end

local function open(window) return assert(window:open_source { pid = window.pid, providers = { bridge.provider(window.lines) } }) end

local function leave(window, session)
  window:stopping()
  session:stop()
  window:stopped()
end

local function eventually(what, holds)
  for _ = 1, 2000 do
    if holds() then return end
    loop.sleep_ms(1)
  end
  error("never: " .. what)
end

local function notes(window, settings)
  local list = {}
  bridge.notes(list, window, settings)
  return table.concat(list, "\n")
end

describe("windows over the bridge", function()
  before_each(function()
    opened, refuse = {}, false
    events.open = fake
  end)
  after_each(function() events.open = real end)

  it("ask for the lines of all, each line once", function()
    local a <close> = bridge.enter(7, { "A:-x", "Both:-" })
    local b <close> = bridge.enter(7, { "Both:-", "B:-y" })
    open(a)
    open(b)
    assert.equal("A:-x\nBoth:-\nB:-y", opened[1].lines)
    assert.equal("A:-x\nBoth:-\nB:-y", opened[2].lines)
    assert.matches("BridgeShared.*there was no gap; .*may be missing", notes(a))
    -- what the target says was set: three lines by each of the two sessions; the second saw its own only
    assert.same({ 6, 3 }, { a.settings, b.settings })
    assert.is_nil(notes(a, 6):find("BridgeTaken", 1, true))
    assert.matches("BridgeTaken", notes(a, 7))
  end)

  it("are opened one at a time, so that the last one has the lines of all", function()
    local windows, tasks = {}, {}
    for i = 1, 5 do windows[i] = bridge.enter(7, { ("L%d:-"):format(i) }) end
    for i = 1, 5 do tasks[i] = loop.spawn(open, windows[i]) end
    for i = 1, 5 do tasks[i]:await() end
    assert.equal("L1:-\nL2:-\nL3:-\nL4:-\nL5:-", opened[5].lines)
    for i = 1, 5 do windows[i]:stopped() end
  end)

  it("that go on have their lines set again when another ends; the last takes all sessions along", function()
    local a, b = bridge.enter(7, { "A:-" }), bridge.enter(7, { "B:-" })
    local sa, sb = open(a), open(b)
    leave(b, sb)
    eventually("the lines are set again", function() return #opened == 3 end)
    assert.same({ "A:-", 0 }, { opened[3].lines, opened[3].keywords })
    eventually("and told", function() return a.gaps == 1 end)
    assert.matches("BridgeShared.*for at most %d+ ms", notes(a))
    assert.matches("BridgeShared.*there was no gap; .*may be missing", notes(b))
    assert.is_nil(opened[3].stopped)
    leave(a, sa)
    eventually("the session that set the lines ends", function() return opened[3].stopped end)
    -- nothing is left over: a new window is alone
    eventually("a new beginning", function()
      local c <close> = bridge.enter(7, { "C:-" })
      return not c.shared and notes(c) == ""
    end)
  end)

  it("ends sessions that set lines before they are too many", function()
    local a = bridge.enter(7, { "A:-" })
    local sa = open(a)
    for i = 1, 12 do
      local b = bridge.enter(7, { "B:-" })
      leave(b, open(b))
      eventually("round " .. i, function() return a.gaps == i end)
    end
    local alive = 0
    for _, s in ipairs(opened) do
      if s.keywords == 0 and not s.stopped then alive = alive + 1 end
    end
    assert.is_true(alive >= 1 and alive <= 8, alive .. " are open")
    leave(a, sa)
    eventually("none is left", function()
      for _, s in ipairs(opened) do if s ~= sa and not s.stopped then return false end end
      return true
    end)
  end)

  it("say so when the lines cannot be set again", function()
    local a, b = bridge.enter(7, { "A:-" }), bridge.enter(7, { "B:-" })
    local sa, sb = open(a), open(b)
    refuse = true
    leave(b, sb)
    eventually("muted", function() return a.muted end)
    assert.matches("BridgeMuted", notes(a))
    leave(a, sa)
  end)

  it("are not disturbed by one that never opened, and are twice when one was closed, which ends later", function()
    local a, b, c = bridge.enter(7, { "A:-" }), bridge.enter(7, { "B:-" }), bridge.enter(7, { "C:-" })
    local sa = open(a)
    b:stopped()
    loop.sleep_ms(10)
    assert.equal(1, #opened)
    open(c):close()
    c:stopped()
    eventually("twice", function() return a.gaps == 2 end)
    leave(a, sa)
  end)

  it("say nothing alone, on another process, or of a recording", function()
    local a <close> = bridge.enter(7, { "A:-" })
    local other <close> = bridge.enter(8, { "A:-" })
    open(a)
    open(other)
    assert.same({ "", "" }, { notes(a, 1), notes(other, 1) })
    local none <close> = bridge.enter(nil, { "A:-" })
    assert.same({ "", false }, { notes(none, 99), none.shared })
  end)
end)
