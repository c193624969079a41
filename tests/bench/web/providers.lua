-- SPDX-License-Identifier: MIT
-- What requests, kestrel and networking enable, each provider once, as dotnet-trace wants it in --providers: lunette lua providers.lua
local lists = {
  require("collectors.requests.program").program.providers, require("collectors.kestrel.program").new(1).providers,
  require("collectors.networking.program").new(1).providers,
}
local seen, words = {}, {}
for _, list in ipairs(lists) do
  for _, p in ipairs(list) do
    if not seen[p.name] then
      seen[p.name] = true
      local keywords = math.type(p.keywords) == "integer" and ("0x%x"):format(p.keywords) or p.keywords or "0xffffffffffffffff"
      words[#words + 1] = table.concat({ p.name, keywords, tostring(p.level or 5), p.args }, ":")
    end
  end
end
io.write(table.concat(words, ","))
