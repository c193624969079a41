-- SPDX-License-Identifier: MIT
-- Which era a message is of, and what is wrong with it.
local era = require("lunette.mcp.era")
local json = require("lunette.json")
local protocol = require("lunette.mcp.protocol")

local VERSION <const>, CAPABILITIES <const> = protocol.META.VERSION, protocol.META.CAPABILITIES

local function request(method, meta) return { jsonrpc = "2.0", id = 1, method = method, params = { _meta = meta } } end

describe("mcp.era", function()
  describe("shape", function()
    local function shape(text) return era.shape(json.decode(text)) end

    it("tells requests, notifications and responses apart", function()
      assert.equal("request", (shape('{"jsonrpc":"2.0","id":1,"method":"ping"}')))
      assert.equal("notification", (shape('{"jsonrpc":"2.0","method":"notifications/initialized"}')))
      assert.equal("response", (shape('{"jsonrpc":"2.0","id":"a","result":{}}')))
      assert.equal("response", (shape('{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}')))
    end)

    it("takes params of null for none", function()
      local message = json.decode('{"jsonrpc":"2.0","id":1,"method":"ping","params":null}')
      assert.equal("request", (era.shape(message)))
      assert.is_nil(message.params)
    end)

    it("keeps the type of the id", function()
      local _, number = shape('{"jsonrpc":"2.0","id":1,"method":"m"}')
      local _, text = shape('{"jsonrpc":"2.0","id":"1","method":"m"}')
      assert.equal("integer", math.type(number))
      assert.equal("1", text)
    end)

    for _, case in ipairs({
      { "[]", -32600 }, { "5", -32600 }, { "{}", -32600 }, { '{"jsonrpc":"1.0","id":1,"method":"m"}', -32600 },
      { '{"jsonrpc":"2.0","id":null,"method":"m"}', -32600 }, { '{"jsonrpc":"2.0","id":1.5,"method":"m"}', -32600 },
      { '{"jsonrpc":"2.0","id":{},"method":"m"}', -32600 }, { '{"jsonrpc":"2.0","id":1,"method":7}', -32600 },
      { '{"jsonrpc":"2.0","id":1,"method":"m","params":[]}', -32602 }, { '{"jsonrpc":"2.0","id":1}', -32600 },
      { '{"jsonrpc":"2.0","id":1,"method":"m","params":"x"}', -32602 },
    }) do
      it("refuses " .. case[1], function()
        local kind, err = shape(case[1])
        assert.is_nil(kind)
        assert.equal(case[2], err.rpc_code)
        assert.equal(400, protocol.http_status(err, "modern"))
      end)
    end

    it("gives the id of a broken request, for the error to carry", function()
      local _, _, id = shape('{"jsonrpc":"2.0","id":9,"method":7}')
      assert.equal(9, id)
    end)
  end)

  describe("classify over HTTP", function()
    local good = { [VERSION] = "2026-07-28", [CAPABILITIES] = {} }

    local cases = {
      -- name, method, _meta, header, era or code
      { "a full envelope is modern", "tools/list", good, "2026-07-28", "modern" },
      { "initialize without envelope is legacy", "initialize", nil, nil, "legacy" },
      { "initialize with a legacy header is legacy", "initialize", nil, "2025-11-25", "legacy" },
      { "initialize with an envelope is modern (and then unknown)", "initialize", good, "2026-07-28", "modern" },
      { "no claim and no header is legacy", "tools/list", nil, nil, "legacy" },
      { "no claim and a legacy header is legacy", "tools/list", nil, "2025-06-18", "legacy" },
      { "a progress token is no claim", "tools/list", { progressToken = 1 }, "2025-03-26", "legacy" },
      { "no claim and a modern header is malformed", "tools/list", nil, "2026-07-28", -32602 },
      { "a missing version with a modern header is malformed", "tools/list", { [CAPABILITIES] = {} }, "2026-07-28", -32602 },
      { "missing capabilities are malformed", "tools/list", { [VERSION] = "2026-07-28" }, "2026-07-28", -32602 },
      { "capabilities that are a list are malformed", "tools/list",
        { [VERSION] = "2026-07-28", [CAPABILITIES] = json.array({}) }, "2026-07-28", -32602 },
      { "a version that is no string is malformed", "tools/list", { [VERSION] = 5, [CAPABILITIES] = {} }, "2026-07-28", -32602 },
      { "header and body that differ come before support", "tools/list",
        { [VERSION] = "v999.0.0", [CAPABILITIES] = {} }, "2026-07-28", -32020 },
      { "an unknown version in both is unsupported", "tools/list",
        { [VERSION] = "v999.0.0", [CAPABILITIES] = {} }, "v999.0.0", -32022 },
      { "a legacy date in the envelope is unsupported", "tools/list",
        { [VERSION] = "2025-11-25", [CAPABILITIES] = {} }, "2025-11-25", -32022 },
      { "a missing header is a mismatch", "tools/list", good, nil, -32020 },
      { "an unknown header without a claim is refused", "tools/list", nil, "v999.0.0", -32000 },
      { "an unknown log level is malformed", "tools/list",
        { [VERSION] = "2026-07-28", [CAPABILITIES] = {}, [protocol.META.LOG_LEVEL] = "loud" }, "2026-07-28", -32602 },
      { "a progress token that is a table is malformed", "tools/list",
        { [VERSION] = "2026-07-28", [CAPABILITIES] = {}, progressToken = {} }, "2026-07-28", -32602 },
    }
    for _, case in ipairs(cases) do
      it(case[1], function()
        local which, err = era.classify(request(case[2], case[3]), case[4], true)
        if type(case[5]) == "string" then return assert.equal(case[5], which) end
        assert.is_nil(which)
        assert.equal(case[5], err.rpc_code)
        assert.equal(400, protocol.http_status(err, "modern"))
      end)
    end

    it("names what is served when it refuses a version", function()
      local _, err = era.classify(request("tools/list", { [VERSION] = "v9", [CAPABILITIES] = {} }), "v9", true)
      assert.equal("v9", err.rpc_data.requested)
      assert.same({ "2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26" }, { table.unpack(err.rpc_data.supported) })
    end)

    it("takes a notification without claim by its header", function()
      local note = { jsonrpc = "2.0", method = "notifications/initialized" }
      assert.equal("modern", (era.classify(note, "2026-07-28", true)))
      assert.equal("legacy", (era.classify(note, "2025-11-25", true)))
    end)
  end)

  describe("classify over stdio", function()
    it("needs no header", function()
      local good = { [VERSION] = "2026-07-28", [CAPABILITIES] = {} }
      assert.equal("modern", (era.classify(request("tools/list", good), nil, false)))
      assert.equal("legacy", (era.classify(request("tools/list", nil), nil, false)))
    end)
  end)
end)
