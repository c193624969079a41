-- SPDX-License-Identifier: MIT
-- Which exception is in flight at the end of a thread's events. The sequences are those that .NET 8, 9 and 10 write.
local in_flight = require("collectors.crash_guard.in_flight")

local THROW <const>, CATCH <const>, CATCH_END <const>, FINALLY <const>, FILTER <const>, DONE <const> = 80, 250, 251, 252, 254, 256
local PLAIN <const>, NESTED <const> = 0x10, 0x12
local START_CALLBACK <const> = "instance void [System.Private.CoreLib] System.Threading.Thread::StartCallback()"

-- "throw A", "throw B nested", "catch", "catch end", "finally", "filter", "bottom", "done"
local function events(words)
  local list = {}
  for word in words:gmatch("[^,]+") do
    word = word:match("^%s*(.-)%s*$")
    local name = word:match("^throw (%w+)")
    local simple = { catch = CATCH, ["catch end"] = CATCH_END, finally = FINALLY, filter = FILTER, bottom = FILTER, done = DONE }
    list[#list + 1] = {
      id = name and THROW or assert(simple[word], word), type = name, at = #list,
      flags = name and (word:find("nested") and NESTED or PLAIN),
      method = word == "bottom" and START_CALLBACK or word == "filter" and "bool [app] App::Log()" or nil,
    }
  end
  return list
end

local function left(words)
  local found = in_flight.of_thread(events(words))
  return found and { found.thrown.type, found.handled, found.bottom }
end

describe("collectors.crash_guard.in_flight", function()
  it("has nothing after exceptions that were caught", function()
    assert.is_nil(left "throw A, catch, catch end, done, throw B, catch, catch end, done")
    assert.is_nil(in_flight.of_thread {})
  end)

  it("has the exception that nobody caught", function()
    assert.same({ "B", false, false }, left "throw A, catch, catch end, done, throw B")
    assert.same({ "A", false, false }, left "throw A, finally")
  end)

  it("knows the runtime's filter at the bottom of a thread, and not those of an application", function()
    assert.same({ "A", false, true }, left "throw A, filter, bottom")
    assert.same({ "A", false, false }, left "throw A, filter")
  end)

  it("takes back the bottom when a handler of last resort takes the exception after all", function()
    assert.same({ "A", true, false }, left "throw A, bottom, catch")
    assert.is_nil(left "throw A, bottom, catch, catch end, done")
  end)

  it("has the outer exception that a handler threw instead, and nothing once that is caught", function()
    assert.same({ "B", false, false }, left "throw A, catch, throw B nested")
    assert.is_nil(left "throw A, catch, throw B nested, catch, catch end, done")
  end)

  it("has an exception that its handler threw on, although no new throw is told", function()
    assert.same({ "A", true, false }, left "throw A, catch")
    assert.same({ "A", false, true }, left "throw A, catch, bottom")
    assert.is_nil(left "throw A, catch, catch, catch end, done")
    assert.same({ "A", false, true }, left "throw A, catch, throw B nested, catch, catch end, done, bottom")
    assert.is_nil(left "throw A, catch, throw B nested, catch, catch end, done, throw C, catch, catch end, done, bottom")
  end)

  it("keeps the exception during which another one came and went: in a finally block, a filter, a handler of last words", function()
    assert.same({ "A", false, false }, left "throw A, finally, throw B nested, catch, catch end, done")
    assert.same({ "A", false, true }, left "throw A, bottom, throw B nested, catch, catch end, done")
  end)

  it("forgets what a lost end left behind at the next throw that is not nested", function()
    assert.is_nil(left "throw A, throw B, catch, catch end, done")
    assert.same({ "B", false, false }, left "throw A, throw B")
  end)

  it("does with an end whose throw is not there, and with events that it does not know", function()
    assert.is_nil(left "catch, catch end, done, done")
    assert.is_nil(in_flight.of_thread { { id = 1 }, { id = 999 }, { id = FILTER, method = 7 } })
  end)

  it("puts first what was at the bottom of its thread, then what no handler had, then the latest", function()
    local function thread(words, at)
      local list = events(words)
      for _, e in ipairs(list) do e.at = at end
      return { tail = { rows = list } }
    end
    local list = in_flight.of {
      thread("throw Handled, catch", 9), thread("throw Early", 1), thread("throw Late", 5), thread("throw X, catch, done", 7),
      thread("throw Bottom, bottom", 2),
    }
    local names = {}
    for i, f in ipairs(list) do names[i] = f.thrown.type end
    assert.same({ "Bottom", "Late", "Early", "Handled" }, names)
    assert.same({}, in_flight.of {})
  end)
end)
