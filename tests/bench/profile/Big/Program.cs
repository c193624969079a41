// SPDX-License-Identifier: MIT
// A program with many compiled methods: big METHODS JITTED. METHODS of the shared frameworks are made ready, in the order of their modules,
// and JITTED small ones are compiled. One thread turns (Turn), some wait, and one after another methods that nobody called before are called
// (Fresh). Prints READY PID big METHODS; `mark` tells turns, the longest time without a turn, and how much of it was since the last mark;
// `fresh` begins to call new methods, `quit` ends.
using System.Diagnostics;
using System.Reflection;
using System.Reflection.Emit;
using System.Runtime.CompilerServices;

internal static class Program
{
    private static readonly string[] Modules =
    [
        "System.Private.CoreLib", "System.Private.Xml", "System.Linq.Expressions", "System.Net.Http", "System.Text.Json", "System.Data.Common",
        "System.Private.DataContractSerialization", "Microsoft.AspNetCore.Server.Kestrel.Core", "Microsoft.AspNetCore.Mvc.Core",
        "Microsoft.AspNetCore.Routing", "Microsoft.Extensions.DependencyInjection", "System.Text.RegularExpressions", "System.Linq",
    ];
    private static long s_turns, s_longest;
    private static volatile bool s_fresh;

    private static int Main(string[] args)
    {
        int methods = int.Parse(args[0]), jitted = int.Parse(args[1]);
        int ready = Prepare(methods);
        for (int i = 0; i < jitted; i++) Make(i)(i);
        new Thread(Turn) { IsBackground = true, Name = "turn" }.Start();
        new Thread(Fresh) { IsBackground = true, Name = "fresh" }.Start();
        for (int i = 0; i < 8; i++) new Thread(() => Thread.Sleep(Timeout.Infinite)) { IsBackground = true }.Start();
        Console.WriteLine($"READY {Environment.ProcessId} big {ready + jitted}");
        while (Console.ReadLine() is { } line)
        {
            if (line == "quit") break;
            if (line == "fresh") s_fresh = true;
            Console.WriteLine($"MARK turns={Interlocked.Exchange(ref s_turns, 0)} longest_us={Interlocked.Exchange(ref s_longest, 0)}");
        }
        return 0;
    }

    private static int Prepare(int most)
    {
        int n = 0;
        foreach (string name in Modules)
        {
            Assembly assembly = Assembly.Load(name);
            foreach (Type type in assembly.GetTypes())
            {
                if (type.ContainsGenericParameters) continue;
                foreach (MethodInfo method in type.GetMethods(BindingFlags.DeclaredOnly | BindingFlags.Public | BindingFlags.NonPublic | BindingFlags.Instance | BindingFlags.Static))
                {
                    if (n >= most) return n;
                    if (method.IsAbstract || method.ContainsGenericParameters) continue;
                    try
                    {
                        RuntimeHelpers.PrepareMethod(method.MethodHandle);
                        n++;
                    }
                    catch (Exception)
                    {
                        // one that this machine cannot have: others do as well
                    }
                }
            }
        }
        return n;
    }

    private static Func<int, int> Make(int i)
    {
        var method = new DynamicMethod($"Made{i}", typeof(int), [typeof(int)]);
        var il = method.GetILGenerator();
        il.Emit(OpCodes.Ldarg_0);
        il.Emit(OpCodes.Ldc_I4, i);
        il.Emit(OpCodes.Add);
        il.Emit(OpCodes.Ret);
        return method.CreateDelegate<Func<int, int>>();
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void Turn()
    {
        long last = Stopwatch.GetTimestamp();
        for (int n = 0; ; n++)
        {
            Work(n);
            long now = Stopwatch.GetTimestamp(), us = (now - last) * 1_000_000 / Stopwatch.Frequency;
            last = now;
            if (us > Interlocked.Read(ref s_longest)) Interlocked.Exchange(ref s_longest, us);
            Interlocked.Increment(ref s_turns);
        }
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static int Work(int n)
    {
        int sum = 0;
        for (int i = 0; i < 2000; i++) sum += i * n;
        return sum;
    }

    /// <summary>Instantiations that nobody used before: compiled while the program runs, and each stands on a stack for a moment.</summary>
    private static void Fresh()
    {
        MethodInfo open = typeof(Program).GetMethod(nameof(Use), BindingFlags.NonPublic | BindingFlags.Static)!;
        Type[] plain = [typeof(byte), typeof(short), typeof(int), typeof(long), typeof(float), typeof(double), typeof(char), typeof(bool)];
        for (int i = 0; ; i++)
        {
            while (!s_fresh) Thread.Sleep(20);
            Type pair = typeof(ValueTuple<,,>).MakeGenericType(plain[i & 7], plain[i >> 3 & 7], plain[i >> 6 & 7]);
            open.MakeGenericMethod(pair).Invoke(null, null);
        }
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void Use<T>() where T : struct
    {
        T value = default;
        for (long until = Environment.TickCount64 + 20; Environment.TickCount64 < until;) GC.KeepAlive(value.GetHashCode());
    }
}
