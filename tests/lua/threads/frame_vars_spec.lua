-- SPDX-License-Identifier: MIT
-- What the view `frame-vars` asks its worker for and shows: texts, the exception's message among them, for flag and scope alone, and
-- without their secrets.
local scopes = require("lunette.scopes")
local sys = require("lunette.sys")
local worker = require("lunette.worker")

local project = assert(loadfile(sys.home .. "/lua/views/thread-snapshot/frame-vars.lua"))().project

describe("thread-snapshot/frame-vars #unit", function()
  local real = worker.json
  local sent

  before_each(function()
    worker.json = function(_, job, args)
      sent = { job = job, args = args }
      return { -- as the worker does it: no text that was not asked for
        exceptionType = "System.InvalidOperationException", exceptionMessage = args.strings and "no Password=hunter2 here" or nil,
        frames = { { managed = true, ip = "0x10", sp = "0x20", name = "Shop.Orders.Place()", token = 0x06000001, variables = {
          { type = "System.String", address = "0x30", location = "rbp-8", preview = args.strings and "Pwd=hunter2;Server=db" or nil },
        } } },
      }
    end
  end)
  after_each(function() worker.json = real end)

  local function asked(list, flag)
    local artifact = { source = "dump", walk_ms = 1, process_id = 7, dump_path = sys.home .. "/lua/views/thread-snapshot/frame-vars.lua",
      by_id = { [1] = { id = 1 } } }
    local ctx = { principal = scopes.principal("spec", list) }
    return assert(project(artifact, { threadId = 1, includeSensitiveValues = flag }, { id = "H" }, ctx))
  end

  it("shows the exception's message and texts to flag and scope, without their secrets", function()
    local rows = asked({ "ptrace", "heap-read", "sensitive-heap-read" }, true)
    assert.same({ "frame-vars", true, 1 }, { sent.job, sent.args.strings, sent.args.threadId })
    assert.equal("System.InvalidOperationException", rows.currentExceptionType)
    assert.matches("^no Password=<redacted:sensitive>", rows.currentExceptionMessage)
    assert.equal("Pwd=<redacted:sensitive>;Server=db", rows.frames[1].variables[1].preview)
    assert.is_nil(rows.warnings)
  end)

  it("asks for none without one of them, and says so", function()
    local both = { "root", "sensitive-heap-read" }
    for _, case in ipairs { { { "root" }, true }, { both, nil }, { both, false } } do
      local rows = asked(case[1], case[2])
      assert.is_false(sent.args.strings)
      assert.same({}, { rows.currentExceptionMessage, rows.frames[1].variables[1].preview })
      assert.equal(case[2] == true, rows.warnings ~= nil and rows.warnings[1]:find("Values are hidden", 1, true) ~= nil)
    end
  end)
end)
