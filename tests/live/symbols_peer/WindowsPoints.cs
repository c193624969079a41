// SPDX-License-Identifier: MIT
// The sequence points of a Windows PDB, as Mono.Cecil reads them.
using Mono.Cecil;
using Mono.Cecil.Pdb;

static class WindowsPoints
{
    /// By token. Null: there is no Windows PDB of this module beside it.
    public static Dictionary<int, List<Point>>? Of(string file)
    {
        string path = Path.ChangeExtension(file, ".pdb");
        if (!File.Exists(path) || !IsWindows(path)) return null;
        var how = new ReaderParameters { ReadSymbols = true, SymbolReaderProvider = new NativePdbReaderProvider(), ReadingMode = ReadingMode.Deferred };
        try
        {
            using ModuleDefinition module = ModuleDefinition.ReadModule(file, how);
            var all = new Dictionary<int, List<Point>>();
            foreach (MethodDefinition method in module.GetTypes().SelectMany(t => t.Methods).Where(m => m.HasBody))
            {
                List<Point> list = [.. method.DebugInformation.SequencePoints.Select(p => p.IsHidden
                    ? Point.Hidden(p.Offset)
                    : new Point(p.Offset, p.StartLine, p.StartColumn, p.EndLine, p.EndColumn, p.Document.Url))];
                if (list.Count > 0) all[method.MetadataToken.ToInt32()] = list;
            }
            return all;
        }
        catch (Exception e) when (e is Mono.Cecil.Cil.SymbolsNotMatchingException or Mono.Cecil.Cil.SymbolsNotFoundException)
        {
            return null;
        }
    }

    static bool IsWindows(string path)
    {
        using FileStream s = File.OpenRead(path);
        var head = new byte[15];
        return s.Read(head) == head.Length && System.Text.Encoding.ASCII.GetString(head) == "Microsoft C/C++";
    }
}
