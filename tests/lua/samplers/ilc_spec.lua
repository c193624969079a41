-- SPDX-License-Identifier: MIT
-- Names of NativeAOT's symbols, as its compiler writes them (10.0).
local fs = require("lunette.fs")
local ilc = require("samplers.ilc")

local function name(symbol)
  local n = ilc.parse(symbol, "lunette-target")
  return { n.assembly, n.type_name, n.method, n.arity }
end

local function with_file(text, fn)
  local path = os.tmpname()
  assert(fs.write_private(path, text))
  local a, b = ilc.read(path)
  os.remove(path)
  fn(a, b)
end

describe("samplers.ilc #unit", function()
  it("finds assembly, type and method in a symbol", function()
    for symbol, wanted in pairs {
      lunette_target_Lunette_Target_Hot__TightLoop = { "lunette-target", "Lunette.Target.Hot", "TightLoop", 0 },
      S_P_CoreLib_System_Threading_Thread__StartThread = { "System.Private.CoreLib", "System.Threading.Thread", "StartThread", 0 },
      System_Linq_System_Linq_Enumerable__ToArray = { "System.Linq", "System.Linq.Enumerable", "ToArray", 0 },
      System_Text_RegularExpressions_System_Text_RegularExpressions_RegexRunner__EnsureStorage =
        { "System.Text.RegularExpressions", "System.Text.RegularExpressions.RegexRunner", "EnsureStorage", 0 },
      ["lunette_target_Lunette_Target_Mixer_1<Int64>__Mix"] = { "lunette-target", "Lunette.Target.Mixer`1", "Mix", 0 },
      ["lunette_target_Lunette_Target_Mixer_1<System___Canon>__Mix"] = { "lunette-target", "Lunette.Target.Mixer`1", "Mix", 0 },
      ["lunette_target_Lunette_Target_Hot__Work<System___Canon__Int32>"] = { "lunette-target", "Lunette.Target.Hot", "Work", 2 },
      S_P_CoreLib_System_String___ctor = { "System.Private.CoreLib", "System.String", ".ctor", 0 },
      S_P_CoreLib_System_String___cctor = { "System.Private.CoreLib", "System.String", ".cctor", 0 },
    } do
      assert.same(wanted, name(symbol))
    end
  end)

  it("knows what the C# compiler makes of lambdas, state machines and local functions", function()
    for symbol, wanted in pairs {
      lunette_target_Lunette_Target_Hot__WorkAsync_d__25__MoveNext = { "Lunette.Target.Hot+<WorkAsync>d__25", "MoveNext" },
      lunette_target_Lunette_Target_Hot___c__DisplayClass24_0___InLambda_b__0 =
        { "Lunette.Target.Hot+<>c__DisplayClass24_0", "<InLambda>b__0" },
      lunette_target_Lunette_Target_Hot___c___Linq_b__21_0 = { "Lunette.Target.Hot+<>c", "<Linq>b__21_0" },
      lunette_target_Lunette_Target_Hot___Turn_g__Local_3_0 = { "Lunette.Target.Hot", "<Turn>g__Local|3_0" },
    } do
      local n = name(symbol)
      assert.same(wanted, { n[2], n[3] })
    end
  end)

  it("leaves a symbol that is no method as it is", function()
    assert.same({ "memset" }, { name("memset")[3] })
  end)

  it("reads the methods of a map file, and refuses one that has none", function()
    local text <const> = '<ObjectNodes>\n<MethodCode Name="a_B__C&lt;Int32&gt;" Length="4" Hash="00" />\n<GCInfo Name="x" />\n'
    with_file(text, function(methods) assert.same({ ["a_B__C<Int32>"] = true }, methods) end)
    with_file("<html/>", function(methods, err)
      assert.is_nil(methods)
      assert.same({ "InvalidArgument", "nativeAotMapFile" }, { err.kind, err.detail })
    end)
    local methods, err = ilc.read("/nonexistent/map.xml")
    assert.is_nil(methods)
    assert.equal("nativeAotMapFile", err.detail)
  end)
end)
