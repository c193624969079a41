-- SPDX-License-Identifier: MIT
local redaction = require("lunette.redaction")

local S <const> = "<redacted:sensitive>"

describe("lunette.redaction #unit", function()
  local GROUPS <const> = {
    ["PEM blocks"] = {
      { "a -----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY----- b", "a " .. S .. " b" },
      { "-----BEGIN CERTIFICATE-----\nMIIE cut off", S },
      { "-----BEGIN A-----x-----END A----- y -----BEGIN B-----z-----END B-----", S .. " y " .. S },
    },
    ["Bearer and Basic values"] = {
      { "Authorization: Bearer abc.def-123", "Authorization: Bearer " .. S }, { "got BEARER q1w2e3 here", "got BEARER " .. S .. " here" },
      { "proxy: basic dXNlcjpwYXNz", "proxy: basic " .. S },
    },
    ["JWT triples"] = { { "t=eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJ_-x!", "t=" .. S .. "!" } },
    ["password and pwd assignments"] = {
      { "Server=a;Password=p@ss w;User=b", "Server=a;Password=" .. S .. ";User=b" }, { "pwd=x&next=1", "pwd=" .. S .. "&next=1" },
      { [[{"password":"a\"b","n":1}]], [[{"password":"]] .. S .. [[","n":1}]] },
        { [[{\"Password\":\"abc\"}]], [[{\"Password\":\"]] .. S .. [[\"}]] },
      { "password: 'two words' ok", "password: '" .. S .. "' ok" }, { "db_password => hunter2 ok", "db_password => " .. S .. " ok" },
      { "amqp://guest:gu3st@host/v", "amqp://guest:" .. S .. "@host/v" },
    },
    ["api key, secret, access key, client secret and auth token assignments"] = {
      { "https://h/p?api_key=zzz&x=1", "https://h/p?api_key=" .. S .. "&x=1" }, { "X-Api-Key: k1 next", "X-Api-Key: " .. S .. " next" },
      { "api key: 123 ok", "api key: " .. S .. " ok" }, { "AWS_SECRET_ACCESS_KEY=ab/c+d x", "AWS_SECRET_ACCESS_KEY=" .. S .. " x" },
      { "clientSecret=zz;", "clientSecret=" .. S .. ";" }, { "auth token = q1w2", "auth token = " .. S }, { "AccountKey=1;AccessKey=2",
        "AccountKey=" .. S .. ";AccessKey=" .. S },
    },
    ["AWS access key ids"] = { { "id AKIAIOSFODNN7EXAMPLE, ASIAIOSFODNN7EXAMPL2", "id " .. S .. ", " .. S }, { "AKIASHORT", "AKIASHORT" } },
    ["GitHub tokens"] = {
      { "ghp_abcdefghijklmnopqrstuvwxyz0123456789", S }, { "x gho_ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.", "x " .. S .. "." },
      { "github_pat_11AAAAAAA0aaaaaaaaaaaa_bbbbbbbbbbbbbbbb", S },
    },
  }
  for group, rows in pairs(GROUPS) do
    it("redacts " .. group, function()
      for _, row in ipairs(rows) do assert.equal(row[2], redaction.redact(row[1])) end
    end)
  end

  it("redacts the whole of a value, however it is written", function()
    for text, expected in pairs({
      ["amqp://guest:gu@3st@host/v"] = "amqp://guest:" .. S .. "@host/v",
      [ [[{"password":["one","two]"],"n":1}]] ] = [[{"password":]] .. S .. [[,"n":1}]],
      [ [[{"Secret":{"Value":"a}b"}} next]] ] = [[{"Secret":]] .. S .. "} next",
      [ [[{\"password\":[\"a]b\"],\"n\":1}]] ] = [[{\"password\":]] .. S .. [[,\"n\":1}]],
      [ [[{"pwd":["cut off]] ] = [[{"pwd":]] .. S,
      ["Server=a;Password={x;y};User=b"] = "Server=a;Password=" .. S .. ";User=b",
      [ [[{\\\"password\\\":\\\"abc\\\"}]] ] = [[{\\\"password\\\":\\\"]] .. S .. [[\\\"}]],
      ["password=a'b\"c<d e"] = "password=" .. S .. " e", ["password=<x> e"] = "password=" .. S .. "> e",
      ["next=%2Fp%3Fpassword%3Dabc"] = "next=%2Fp%3Fpassword%3D" .. S, ["%22password%22%3A%22abc%22"] = "%22password%22%3A%22" .. S,
      ["<password>abc</password>"] = "<password>" .. S .. "</password>", ["tool --db-password abc --more"] = "tool --db-password " .. S
        .. " --more",
      [ [[{"Key":"Password","Value":"abc"}]] ] = [[{"Key":"Password","Value":"]] .. S .. [["}]],
      [ [[<add key="api-key" value="abc" />]] ] = [[<add key="api-key" value="]] .. S .. [[" />]],
      [ [[{"a":"{\\u0022ApiKey\\u0022:[\\u0022abc\\u0022]}","n":1}]] ] = [[{"a":"{"ApiKey":]] .. S .. [[}","n":1}]],
      [ [[{"q":"a=1\\u0026pwd=abc\\u0026b=2"}]] ] = [[{"q":"a=1&pwd=]] .. S .. [[&b=2"}]],
      ["auth=Bearer%20abc.def"] = "auth=Bearer%20" .. S, ["e=eyJhbGciOiJk..aXY.Y3Q.dGFn end"] = "e=" .. S .. " end",
    }) do
      assert.equal(expected, redaction.redact(text))
    end
  end)

  -- text -> what is left of it
  local MORE <const> = {
    ["tokens by name"] = {
      ["https://h/p?token=abc12345&x=1"] = "https://h/p?token=" .. S .. "&x=1",
      ["token=abcdefgh done"] = "token=" .. S .. " done",
      [ [[{"csrf_token":"abcdefghij","n":1}]] ] = [[{"csrf_token":"]] .. S .. [[","n":1}]], ["idToken: q1w2e3r4t5"] = "idToken: " .. S,
      ["X-Auth-Token: 0123456789abcdef"] = "X-Auth-Token: " .. S, ["p%3Ftoken%3Dabc12345"] = "p%3Ftoken%3D" .. S,
      ["X-Amz-Security-Token=IQoJb3JpZ2luX2Vj%2F1&b"] = "X-Amz-Security-Token=" .. S .. "&b",
    },
    ["signatures of shared access"] = {
      ["https://h/c?sv=2022&sig=aBc%2Fd0123456789%3D&se=1"] = "https://h/c?sv=2022&sig=" .. S .. "&se=1",
      ["SharedAccessSignature sr=x&sig=abcdefghijk0123456%3d&se=9"] = "SharedAccessSignature sr=x&sig=" .. S .. "&se=9",
      ["X-Amz-Signature=0123456789abcdef0123456789abcdef"] = "X-Amz-Signature=" .. S,
      ["Endpoint=sb://h/;SharedAccessKey=abc="] = "Endpoint=sb://h/;SharedAccessKey=" .. S,
    },
    ["cookies"] = {
      ["Cookie: a=b; session=xyz\nHost: h"] = "Cookie: " .. S .. "\nHost: h", ["set-cookie: id=1; Path=/; HttpOnly"] = "set-cookie: " .. S,
      [ [[{"Cookie":"a=b; c=d","n":1}]] ] = [[{"Cookie":"]] .. S .. [[","n":1}]],
      [ [[{"Set-Cookie":["a=b; path=/"],"n":1}]] ] = [[{"Set-Cookie":["]] .. S .. [["],"n":1}]],
    },
    ["passwords in other clothes"] = {
      ["password -> hunter2 ok"] = "password -> " .. S .. " ok", ["pwd: hunter2"] = "pwd: " .. S,
      ["Password --> x1"] = "Password --> " .. S,
      ["smtp_pass=hunter2;host=h"] = "smtp_pass=" .. S .. ";host=h", ["user=a pass=hunter2 x"] = "user=a pass=" .. S .. " x",
    },
    ["Authorization of other schemes"] = {
      ['Authorization: Digest username="u", response="abc"'] = "Authorization: " .. S,
      ["authorization: Negotiate YIIJvwYGKwYBBQUC"] = "authorization: " .. S,
      ["Proxy-Authorization: NTLM TlRMTVNTUAAB"] = "Proxy-Authorization: " .. S,
      ["Authorization: 0123456789abcdef0123"] = "Authorization: " .. S,
      ["Authorization: AWS4-HMAC-SHA256 Credential=x/y, Signature=z\nb"] = "Authorization: " .. S .. "\nb",
      ["Authorization: Bearer q1w2e3"] = "Authorization: Bearer " .. S,
      ["Authorization: Basic dXNlcjpwYXNz"] = "Authorization: Basic " .. S,
    },
    ["tokens by their begin"] = {
      ["k AIzaSyA0123456789abcdefghijklmnopqrstuv."] = "k " .. S .. ".", ["xoxb-1234567890-abcdef"] = S,
      ["glpat-0123456789abcdefghij x"] = S .. " x",
      ["sk_live_0123456789abc"] = S, ["npm_0123456789abcdefghijklmnopqrstuvwx"] = S,
    },
    ["URLs with a token for a user"] = {
      ["https://0123456789abcdef0@host/x"] = "https://" .. S .. "@host/x", ["ftp://bob:pw@h"] = "ftp://bob:" .. S .. "@h",
    },
  }
  for group, rows in pairs(MORE) do
    it("redacts " .. group, function()
      for text, expected in pairs(rows) do assert.equal(expected, redaction.redact(text)) end
    end)
  end

  it("redacts values that error messages of databases repeat", function()
    for _, text in ipairs {
      "SQLite Error 1: 'no such column: \"VALUE\" - should this be a string literal in single-quotes?'.",
      "SQLite Error 1: 'near \"VALUE\": syntax error'.", "unrecognized token: \"VALUE\"", "Incorrect syntax near 'VALUE'.",
      "Unclosed quotation mark after the character string 'VALUE'.", "Cannot insert. The duplicate key value is (VALUE).",
      "Conversion failed when converting the nvarchar value 'VALUE' to data type int.", "syntax error at or near \"VALUE\"",
      "22P02: invalid input syntax for type integer: \"VALUE\"", "Key (email)=(VALUE) already exists.", "Failing row contains (1, VALUE).",
      "Duplicate entry 'VALUE' for key 'users.email'", "the right syntax to use near 'VALUE' at line 1",
    } do
      local got = redaction.redact(text)
      assert.is_truthy(got:find("<redacted:literal>", 1, true), text)
      assert.is_nil(got:find("VALUE", 1, true), got)
      assert.equal(got, redaction.redact(got))
    end
    for _, text in ipairs { 'the shop near "Main Street" is open', "no such column: name", "Key (a) is fine", "Duplicate entry" } do
      assert.equal(text, redaction.redact(text))
    end
  end)

  it("leaves names alone that only look like those of secrets", function()
    for _, text in ipairs({
      "tokenizer=StandardTokenizer", "max_tokens=4096", "tokens: 123456789", "Unexpected token: identifier", "token count = 123456789",
      "design=abcdefghijklmnop1", "signal=abcdefghijklmnop1", "assigned=abcdefghijklmnop1", "Signature: Void Main(System.String[])",
      "signature=Foo(int)", "sig=1", "PublicKeyToken=b77a5c561934e089",
      "System.Private.CoreLib, Version=10.0.0.0, PublicKeyToken=7cec85d7bea7798e",
      "CancellationToken=System.Threading.CancellationToken", "cancellationToken: 123456789",
      "MetadataToken=0x06000001", "token=0x06000001",
      "cookie policy: strict", "Cookie: none", "cookies accepted: 12345", "authorization: denied", "Authorization policy: default",
      "compass=north1234", "passed=12", "pass=3", "pass: 3, fail: 2", "bypass=true", "surpass=value", "git://git@host/x",
      "ssh://jenkins@host", "mailto:a@b", "sk-short", "npm_config", "AIza", "monkey=banana1234", "keyboard=qwertz123", "a -> b", "x --> y",
    }) do
      assert.equal(text, redaction.redact(text))
    end
  end)

  it("leaves what was redacted as it is", function()
    for _, text in ipairs({ "password=" .. S, "password = <redacted:literal> AND x", [[{"secret":]] .. S .. "}",
      "http://u:" .. S .. "@h", [[{"a":"\\u0022b\\u0022"}]] }) do
      assert.equal(text, redaction.redact(text))
    end
  end)

  it("leaves prose alone", function()
    for _, text in ipairs({
      "Basic information about Bearer tokens", "password reset for bob", "The secret of good tea", "a = b; c: d", "", "ghost_writer",
      "basic authentication is on", "user://host/path", "AKIA",
    }) do
      assert.equal(text, redaction.redact(text))
    end
  end)

  it("gives anything but text back as it is", function()
    assert.equal(5, redaction.redact(5))
    assert.is_nil(redaction.redact(nil))
  end)

  it("is done in time that grows with the text only", function()
    local loop = require("lunette.loop")
    local started = loop.cpu_ms()
    redaction.redact(("password "):rep(20000))
    redaction.redact(("a=b;"):rep(40000))
    redaction.redact(("-----BEGIN "):rep(10000))
    redaction.redact(("://a:"):rep(20000))
    redaction.redact(("eyJ."):rep(30000))
    redaction.redact(("eyJa.b"):rep(30000))
    redaction.redact(("password=["):rep(20000))
    redaction.redact(("password={}"):rep(20000))
    redaction.redact(("password=['"):rep(20000))
    redaction.redact('password"' .. (" "):rep(200000))
    redaction.redact('password=["' .. ("\\"):rep(200000))
    redaction.redact("password=" .. ("<a"):rep(100000))
    redaction.redact("http://a:" .. ("b"):rep(200000))
    for _, bit in ipairs { "token=[", "token=a", "token={\"", "sig=a", "Cookie: a", "cookie:[\"", "Authorization: x", "authorization",
      "pass=", "near \"", "no such column: \"", "Key (", "Key (a)=(", "Duplicate entry '",
      "password ->", "://a1", "sk-", "AIza", "xoxb-1 " } do
      redaction.redact(bit:rep(20000))
    end
    redaction.redact("cookie" .. (" "):rep(200000))
    redaction.redact("token" .. ("-"):rep(200000))
    redaction.redact("authorization=\"" .. ("\\"):rep(200000))
    assert.is_true(loop.cpu_ms() - started < 30000)
  end)
end)
