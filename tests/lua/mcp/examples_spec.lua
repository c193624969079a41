-- SPDX-License-Identifier: MIT
-- The published sample messages of 2026-07-28 through our reader, writer and checks. Skipped where the samples are not there.
local answers = require("lunette.mcp.answers")
local era = require("lunette.mcp.era")
local fs = require("lunette.fs")
local json = require("lunette.json")
local protocol = require("lunette.mcp.protocol")

local DIR <const> = "../shared/data/mcp/examples-2026-07-28"

local function name_of(entry) return type(entry) == "table" and entry.name or entry end

local function samples()
  local found = {}
  for _, kind in ipairs(fs.list(DIR) or {}) do
    for _, file in ipairs(fs.list(DIR .. "/" .. name_of(kind)) or {}) do
      found[#found + 1] = { kind = name_of(kind), file = name_of(file), path = DIR .. "/" .. name_of(kind) .. "/" .. name_of(file) }
    end
  end
  return found
end

local function read(sample) return assert(json.decode(assert(fs.read(sample.path, 1 << 20)))) end

describe("the samples of 2026-07-28", function()
  local all = samples()
  if #all == 0 then
    pending("are not there: " .. DIR)
    return
  end

  it("are 129", function() assert.equal(129, #all) end)

  it("come out of the writer as they went in", function()
    for _, sample in ipairs(all) do
      local value = read(sample)
      local text = json.encode(value)
      assert.same(value, json.decode(text), sample.path)
      assert.equal(text, json.encode(json.decode(text)), sample.path)
    end
  end)

  it("of requests are taken for modern requests", function()
    local n = 0
    for _, sample in ipairs(all) do
      local message = read(sample)
      local meta = message.params and message.params._meta
      if message.method and message.id ~= nil and meta and meta[protocol.META.VERSION] then
        n = n + 1
        assert.equal("request", (era.shape(message)), sample.path)
        assert.equal("modern", (era.classify(message, protocol.MODERN, true)), sample.path)
        assert.equal("modern", (era.classify(message, nil, false)), sample.path)
      end
    end
    assert.is_true(n >= 10)
  end)

  it("of responses and notifications have the shape that we take them for", function()
    local n = 0
    for _, sample in ipairs(all) do
      local message = read(sample)
      if message.jsonrpc and message.id == nil and message.method then
        assert.equal("notification", (era.shape(message)), sample.path)
        n = n + 1
      elseif message.jsonrpc and message.method == nil and message.id ~= nil then
        assert.equal("response", (era.shape(message)), sample.path)
        n = n + 1
      end
    end
    assert.is_true(n >= 20)
  end)

  it("of answers fit the questions they are to", function()
    local form = { method = "elicitation/create", params = { requestedSchema = { type = "object", properties = {} } } }
    local url = { method = "elicitation/create", params = { mode = "url" } }
    for _, sample in ipairs(all) do
      local question = sample.file:find("url-mode", 1, true) and url or form
      if sample.kind == "ElicitResult" then assert.is_true(answers.fits(question, read(sample)), sample.path) end
      if sample.kind == "CreateMessageResult" then
        assert.is_true(answers.fits({ method = "sampling/createMessage", params = {} }, read(sample)), sample.path)
      end
      if sample.kind == "ListRootsResult" then
        assert.is_true(answers.fits({ method = "roots/list", params = {} }, read(sample)), sample.path)
      end
      if sample.kind == "InputResponses" then
        for key, answer in pairs(read(sample)) do assert.is_true(protocol.is_object(answer), sample.path .. ": " .. key) end
      end
    end
  end)

  it("of errors have the codes that we send", function()
    local codes = {
      HeaderMismatchError = protocol.HEADER_MISMATCH, InvalidParamsError = protocol.INVALID_PARAMS, InternalError = protocol.INTERNAL_ERROR,
      MethodNotFoundError = protocol.METHOD_NOT_FOUND, MissingRequiredClientCapabilityError = protocol.MISSING_CAPABILITY,
      ParseError = protocol.PARSE_ERROR, UnsupportedProtocolVersionError = protocol.UNSUPPORTED_VERSION,
    }
    local n = 0
    for _, sample in ipairs(all) do
      if codes[sample.kind] then
        local value = read(sample)
        assert.equal(codes[sample.kind], (value.error or value).code, sample.path)
        n = n + 1
      end
    end
    assert.is_true(n >= 7)
  end)
end)
