// SPDX-License-Identifier: MIT
// What is not an ordinary object graph: handles of every kind, timers, finalizers, duplicate strings, a collectible context that cannot unload, async work that never ends.
using System.Reflection;
using System.Reflection.Emit;
using System.Runtime;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Runtime.Loader;

namespace Lunette.Target;

internal sealed class Finalized
{
    public static ManualResetEventSlim? Blocker;
    public readonly int Number;
    public Finalized(int number) => Number = number;
    ~Finalized() => Blocker?.Wait();
}

internal sealed class Suppressed : IDisposable
{
    public void Dispose() => GC.SuppressFinalize(this);
    ~Suppressed() { }
}

internal sealed class DependentKey { }

internal sealed class DependentValue { public readonly byte[] Bytes = new byte[64]; }

internal sealed class PinnedBuffer { }

[InlineArray(64)]
internal struct Ballast { private long first; }

internal sealed class PluginHeld
{
    public int Number;
    public Ballast Ballast; // so that it is among the large ones
}

internal struct PluginPair
{
    public int Number;
    public PluginHeld Held;
    public Ballast Ballast;
}

internal static class PluginOf<T> { public static PluginHeld? One; }

/// <summary>Static fields of every sort. Those of the copy in the context go with it; those of the program itself stay empty.</summary>
internal static class PluginState
{
    public static PluginHeld? Held;
    public static readonly int Number = 7;
    public static PluginPair Pair;
    [ThreadStatic] public static PluginHeld? OfThread;

    public static void Fill()
    {
        Held = new PluginHeld { Number = 1 };
        Pair = new PluginPair { Number = Number, Held = new PluginHeld { Number = 2 } };
        OfThread = new PluginHeld { Number = 3 };
        PluginOf<PluginHeld>.One = new PluginHeld { Number = 4 };
    }
}

internal sealed class NeverContext() : AssemblyLoadContext("never-unloads", isCollectible: true)
{
    protected override Assembly? Load(AssemblyName name) => null;
}

internal sealed class OddHeap
{
    private readonly int n;
    private readonly List<GCHandle> handles = [];
    private readonly List<Timer> timers = [];
    private readonly List<Finalized> finalized = [];
    private readonly List<Suppressed> suppressed = [];
    private readonly ConditionalWeakTable<DependentKey, DependentValue> table = [];
    private readonly List<DependentKey> keys = [];
    private readonly List<string> duplicates = [];
    private readonly List<Task> pending = [];
    private readonly TaskCompletionSource<int> never = new();
    private readonly object ofContext;
    private DependentHandle dependent;
    private int ticks;

    public OddHeap(int given)
    {
        n = given > 0 ? given : 10;
        for (int i = 0; i < n; i++)
        {
            handles.Add(GCHandle.Alloc(new Node { Number = i }));
            handles.Add(GCHandle.Alloc(new byte[100 + i], GCHandleType.Pinned));
            handles.Add(GCHandle.Alloc(finalized, GCHandleType.Weak));
            handles.Add(GCHandle.Alloc(finalized, GCHandleType.WeakTrackResurrection));
            timers.Add(new Timer(OnTick, null, TimeSpan.FromHours(1), TimeSpan.FromHours(1)));
            finalized.Add(new Finalized(i));
            var quiet = new Suppressed();
            quiet.Dispose();
            suppressed.Add(quiet);
            var key = new DependentKey();
            keys.Add(key);
            table.Add(key, new DependentValue());
            duplicates.Add(new string("the same text again".AsSpan()));
            pending.Add(Outer(i));
        }
        duplicates.Add("Password=hunter2;Server=db".ToUpperInvariant().ToLowerInvariant() + "0");
        for (int i = 0; i < 3; i++) duplicates.Add(new string("Server=db;Password=hunter2".AsSpan()));
        dependent = new DependentHandle(keys[0], new DependentValue());
        ofContext = InContext();
        Finalized.Blocker = null;
        GC.Collect();
        // after the collection, so that the finalizer thread stands in the first and the rest waits behind it
        Finalized.Blocker = new ManualResetEventSlim();
        Drop();
        GC.Collect();
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private void Drop()
    {
        for (int i = 0; i < n; i++) GC.KeepAlive(new Finalized(1000 + i));
    }

    private void OnTick(object? state) => ticks++;

    private async Task<int> Outer(int i)
    {
        int got = await Inner(i);
        return got + 1;
    }

    private async Task<int> Inner(int i)
    {
        string local = $"local {i}";
        int got = await never.Task;
        return got + local.Length;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static object InContext()
    {
        var context = new NeverContext();
        using (context.EnterContextualReflection())
        {
            var assembly = AssemblyBuilder.DefineDynamicAssembly(new AssemblyName("Collectible.Plugin"), AssemblyBuilderAccess.RunAndCollect);
            var type = assembly.DefineDynamicModule("plugin").DefineType("Plugin.Entry", TypeAttributes.Public);
            type.DefineField("State", typeof(object), FieldAttributes.Public);
            type.DefineField("Shared", typeof(object), FieldAttributes.Public | FieldAttributes.Static);
            Type made = type.CreateType();
            object entry = Activator.CreateInstance(made)!;
            made.GetField("Shared")!.SetValue(null, new PluginHeld());
            var kept = new List<object> { entry };
            // and one that is loaded from a file, as plugins are; a single-file program has none
            string file = Path.Combine(AppContext.BaseDirectory, "lunette-memory.dll");
            if (File.Exists(file))
            {
                Assembly copy = context.LoadFromAssemblyPath(file);
                kept.Add(Activator.CreateInstance(copy.GetType("Lunette.Target.Customer", true)!, nonPublic: true)!);
                copy.GetType("Lunette.Target.PluginState", true)!.GetMethod("Fill")!.Invoke(null, null);
            }
            context.Unload();
            return kept.ToArray();
        }
    }

    public override string ToString() => $"strong={n} pinned={n} weak={n} tracked={n} timers={n} finalizable={n} suppressed={n} freachable={n} dependent={n} duplicates={n} pending={n} context={((object[])ofContext).Length} keys={keys.Count} handles={handles.Count}";
}
