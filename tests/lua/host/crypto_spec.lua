-- SPDX-License-Identifier: MIT
--- lunette.crypto against published vectors (RFC 4648 section 10, FIPS 180-4 examples, RFC 4231 test case 2).
local crypto = require("lunette.crypto")

describe("crypto", function()
  it("writes and reads base64", function()
    for plain, text in pairs({ [""] = "", f = "Zg==", fo = "Zm8=", foo = "Zm9v", foob = "Zm9vYg==", fooba = "Zm9vYmE=", foobar = "Zm9vYmFy",
                               ["\xff\xfe\xfb"] = "//77" }) do
      assert.equal(text, crypto.base64(plain))
      assert.equal(plain, crypto.unbase64(text))
      local url = text:gsub("=", ""):gsub("/", "_"):gsub("+", "-")
      assert.equal(url, crypto.base64url(plain))
      assert.equal(plain, crypto.unbase64url(url))
    end
  end)

  it("refuses base64 that is not exactly right", function()
    for _, text in ipairs({ "Zg=", "Zg", "Zh==", "Zg==\n", "Z===", "=Zg=", "Zm9=", "Zm-v", "Zg==Zg==", "Z\0==", "====", "=" }) do
      assert.is_nil(crypto.unbase64(text))
    end
    for _, text in ipairs({ "Z", "Zg==", "Zh", "Zm9+", "Zm9" }) do assert.is_nil(crypto.unbase64url(text)) end
  end)

  it("computes digests", function()
    assert.equal("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", crypto.hex(crypto.sha256("abc")))
    assert.equal("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", crypto.hex(crypto.sha256("")))
    assert.equal("5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
      crypto.hex(crypto.hmac_sha256("Jefe", "what do ya want for nothing?")))
  end)

  it("compares whole strings", function()
    assert.is_true(crypto.equal("secret", "secret"))
    assert.is_false(crypto.equal("secret", "secreT"))
    assert.is_false(crypto.equal("secret", "secret2"))
    assert.is_true(crypto.equal("", ""))
  end)

  it("gives random bytes, names and ids of the right form", function()
    assert.equal(16, #crypto.random(16))
    assert.equal("", crypto.random(0))
    assert.is_false(crypto.random(16) == crypto.random(16))
    assert.matches("^[0-9A-HJKMNP-TV-Z]+$", crypto.crockford(2000))
    assert.equal(26, #crypto.crockford(26))
    assert.matches("^%x%x%x%x%x%x%x%x%-%x%x%x%x%-4%x%x%x%-[89ab]%x%x%x%-%x%x%x%x%x%x%x%x%x%x%x%x$", crypto.uuid())
    assert.has_error(function() crypto.random(-1) end)
  end)

  it("uses every character of the alphabet", function()
    local seen, n = {}, 0
    for c in crypto.crockford(20000):gmatch(".") do
      if not seen[c] then seen[c], n = true, n + 1 end
    end
    assert.equal(32, n)
  end)
end)
