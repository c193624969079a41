// SPDX-License-Identifier: MIT
// symbols-peer LUNETTE FILE…|@LIST: runs `lunette symbols --lines --json` on each module and compares method by method: token, name,
// signature, address, size, every sequence point. Prints one line of totals as JSON; exit code 1 when anything differs.
using System.Diagnostics;
using System.Reflection.Metadata;
using System.Reflection.Metadata.Ecma335;
using System.Reflection.PortableExecutable;
using System.Text.Json;

string lunette = args[0];
var files = args.Skip(1).SelectMany(a => a.StartsWith('@') ? File.ReadAllLines(a[1..]) : [a]).ToArray();
var totals = new Totals();
foreach (string file in files)
{
    try
    {
        new Comparison(lunette, file, totals).Run();
    }
    catch (Exception e)
    {
        totals.Report(file, "the peer failed: " + e.GetType().Name + ": " + e.Message);
    }
}
Console.WriteLine(JsonSerializer.Serialize(totals));
return totals.differences == 0 ? 0 : 1;

sealed class Totals
{
    public int modules { get; set; }
    public int native { get; set; }
    public int portable { get; set; }
    public int embedded { get; set; }
    public int windows { get; set; }
    public int without { get; set; }
    public long methods { get; set; }
    public long withLines { get; set; }
    public long points { get; set; }
    public long differences { get; set; }
    public void Report(string file, string what)
    {
        if (++differences <= 50) Console.Error.WriteLine(file + ": " + what);
    }
}

/// A point as both sides write it; Hidden has only its offset.
readonly record struct Point(int Il, int Line, int Column, int EndLine, int EndColumn, string File)
{
    public const int HiddenLine = 0xfeefee;
    public static Point Hidden(int il) => new(il, HiddenLine, 0, HiddenLine, 0, "");
}

sealed class Comparison(string lunette, string file, Totals totals)
{
    public void Run()
    {
        using var stream = File.OpenRead(file);
        using var pe = new PEReader(stream);
        if (!IsManaged(pe))
        {
            totals.native++;
            (int code, _) = Ours();
            if (code != 1) totals.Report(file, $"no .NET module, yet exit code {code}");
            return;
        }
        totals.modules++;
        (int exit, string json) = Ours();
        if (exit != 0) { totals.Report(file, "exit code " + exit); return; }
        using JsonDocument ours = JsonDocument.Parse(json, new JsonDocumentOptions { MaxDepth = 16 });
        MetadataReader md = pe.GetMetadataReader(MetadataReaderOptions.None);
        string format = ours.RootElement.GetProperty("pdbFormat").GetString()!;
        Same("mvid", md.GetGuid(md.GetModuleDefinition().Mvid).ToString(), ours.RootElement.GetProperty("mvid").GetString());
        Dictionary<int, List<Point>> expected = PointsOf(pe, format);
        Methods(pe, md, ours.RootElement.GetProperty("methods"), expected);
    }

    static bool IsManaged(PEReader pe)
    {
        try { return pe.HasMetadata; }
        catch (BadImageFormatException) { return false; }
    }

    (int, string) Ours()
    {
        var start = new ProcessStartInfo(lunette, ["symbols", file, "--lines", "--json"])
        {
            RedirectStandardOutput = true,
            RedirectStandardError = true,
        };
        using Process p = Process.Start(start)!;
        Task<string> err = p.StandardError.ReadToEndAsync();
        string text = p.StandardOutput.ReadToEnd();
        err.Wait();
        p.WaitForExit();
        return (p.ExitCode, text);
    }

    void Same<T>(string what, T theirs, T ours)
    {
        if (!EqualityComparer<T>.Default.Equals(theirs, ours)) totals.Report(file, $"{what}: {theirs} expected, not {ours}");
    }

    Dictionary<int, List<Point>> PointsOf(PEReader pe, string format)
    {
        if (pe.TryOpenAssociatedPortablePdb(file, p => File.Exists(p) ? File.OpenRead(p) : null, out var provider, out string? path))
        {
            using (provider)
            {
                Same("format", path == null ? "embedded" : "portable", format);
                if (path == null) totals.embedded++; else totals.portable++;
                return Portable(provider!.GetMetadataReader());
            }
        }
        Dictionary<int, List<Point>>? windows = WindowsPoints.Of(file);
        Same("format", windows != null ? "windows" : "none", format);
        if (windows != null) totals.windows++; else totals.without++;
        return windows ?? [];
    }

    static Dictionary<int, List<Point>> Portable(MetadataReader pdb)
    {
        var all = new Dictionary<int, List<Point>>();
        foreach (MethodDebugInformationHandle handle in pdb.MethodDebugInformation)
        {
            MethodDebugInformation info = pdb.GetMethodDebugInformation(handle);
            if (info.SequencePointsBlob.IsNil) continue;
            var list = new List<Point>();
            foreach (SequencePoint p in info.GetSequencePoints())
                list.Add(p.IsHidden ? Point.Hidden(p.Offset)
                                    : new Point(p.Offset, p.StartLine, p.StartColumn, p.EndLine, p.EndColumn,
                                                pdb.GetString(pdb.GetDocument(p.Document).Name)));
            all[MetadataTokens.GetToken(handle.ToDefinitionHandle())] = list;
        }
        return all;
    }

    void Methods(PEReader pe, MetadataReader md, JsonElement ours, Dictionary<int, List<Point>> expected)
    {
        var names = new Names(md);
        Same("methods", md.MethodDefinitions.Count, ours.GetArrayLength());
        JsonElement.ArrayEnumerator rows = ours.EnumerateArray();
        foreach (MethodDefinitionHandle handle in md.MethodDefinitions)
        {
            if (!rows.MoveNext()) return;
            totals.methods++;
            int token = MetadataTokens.GetToken(handle);
            string at = "0x" + token.ToString("x8");
            (string name, string signature) = names.Of(handle);
            int rva = md.GetMethodDefinition(handle).RelativeVirtualAddress;
            Same("token", at, rows.Current.GetProperty("token").GetString());
            Same(at + " name", name, Text(rows.Current, "name"));
            Same(at + " signature", signature, Text(rows.Current, "signature"));
            Same(at + " rva", rva == 0 ? "" : "0x" + rva.ToString("x"), Text(rows.Current, "rva"));
            Same(at + " size", SizeOf(pe, md.GetMethodDefinition(handle)), Number(rows.Current, "size"));
            Points(at, expected.GetValueOrDefault(token) ?? [], rows.Current);
        }
    }

    static int SizeOf(PEReader pe, MethodDefinition method)
    {
        if (method.RelativeVirtualAddress == 0 || (method.ImplAttributes & System.Reflection.MethodImplAttributes.CodeTypeMask) != 0) return 0;
        return pe.GetMethodBody(method.RelativeVirtualAddress).GetILReader().Length;
    }

    static string Text(JsonElement row, string member) => row.TryGetProperty(member, out JsonElement v) ? v.GetString()! : "";
    static int Number(JsonElement row, string member) => row.TryGetProperty(member, out JsonElement v) ? v.GetInt32() : 0;

    void Points(string at, List<Point> expected, JsonElement row)
    {
        JsonElement lines = row.GetProperty("lines");
        Same(at + " points", expected.Count, lines.GetArrayLength());
        int i = 0;
        foreach (JsonElement p in lines.EnumerateArray())
        {
            if (i == expected.Count) return;
            Point ours = p.TryGetProperty("hidden", out _)
                ? Point.Hidden(Number(p, "il"))
                : new Point(Number(p, "il"), Number(p, "line"), Number(p, "column"), Number(p, "endLine"), Number(p, "endColumn"), Text(p, "file"));
            Same(at + " point", expected[i++], ours);
            totals.points++;
        }
        Point first = expected.FirstOrDefault(p => p.Line != Point.HiddenLine);
        Same(at + " first line", first.Line, Number(row, "line"));
        Same(at + " file", first.File ?? "", Text(row, "file"));
        if (first.Line != 0) totals.withLines++;
    }
}
