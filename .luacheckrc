std = "lua54"
max_line_length = 140
codes = true
self = false
files["tests/bench/server/tools_list.lua"] = { globals = { "wrk", "done" } } -- what wrk calls
files["tests/lua"] = { std = "+busted" }
files["tests/**/*_spec.lua"] = { std = "+busted" }
exclude_files = { "build*/**" }
