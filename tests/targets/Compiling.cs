// SPDX-License-Identifier: MIT
// Work for the JIT compiler in known numbers: dynamic methods, instantiations over value types, and methods that get hot.
#if !LUNETTE_AOT
using System.Reflection;
using System.Reflection.Emit;
using System.Runtime;
using System.Runtime.CompilerServices;

namespace Lunette.Target;

/// <summary>A value type a type argument, so that each instantiation of a generic method over it is compiled on its own.</summary>
internal readonly struct Both<TLeft, TRight>(TLeft left, TRight right)
{
    public readonly TLeft Left = left;
    public readonly TRight Right = right;
}

internal sealed class Compiling(int n) : Work
{
    private const int CallsARound = 5_000, HotRounds = 8, QuietRounds = 4, PauseMs = 200, LoopTurns = 200_000;
    private static readonly Type[] Plain = [typeof(byte), typeof(short), typeof(int), typeof(long), typeof(float), typeof(double), typeof(char), typeof(bool)];
    private static int s_run;
    private long _sum;

    protected override string Do()
    {
        int run = s_run++;
        for (int i = 0; i < n; i++) _sum += MakeDynamic(i)(i);
        int instances = n / 10;
        for (int i = 0; i < instances; i++) _sum += Instantiate(run * instances + i);
        _sum += HotLoop(LoopTurns);
        // At least some rounds, and then until the background compiler has had nothing to do for some: on a busy machine it comes late.
        int rounds = 0;
        for (int quiet = 0; (rounds < HotRounds || quiet < QuietRounds) && rounds < 20 * HotRounds; rounds++)
        {
            long compiled = JitInfo.GetCompiledMethodCount();
            for (int i = 0; i < CallsARound; i++) _sum += HotMethod(i);
            Thread.Sleep(PauseMs); // lets the tiering timer fire and the background compiler work
            quiet = JitInfo.GetCompiledMethodCount() == compiled ? quiet + 1 : 0;
        }
        return $"dynamic={n} instances={instances} hot_calls={rounds * CallsARound} loop_turns={LoopTurns} sum={_sum}";
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static Func<int, int> MakeDynamic(int i)
    {
        var method = new DynamicMethod($"LunetteDynamic{i}", typeof(int), [typeof(int)]);
        var il = method.GetILGenerator();
        il.Emit(OpCodes.Ldarg_0);
        il.Emit(OpCodes.Ldc_I4, i);
        il.Emit(OpCodes.Add);
        il.Emit(OpCodes.Ret);
        return method.CreateDelegate<Func<int, int>>();
    }

    /// <summary>The generic method over the value type of that number: pairs of pairs of eight plain types, 4,096 in all.</summary>
    [MethodImpl(MethodImplOptions.NoInlining)]
    private static int Instantiate(int number)
    {
        Type Pick(int digit) => Plain[(number >> 3 * digit) % Plain.Length];
        var type = typeof(Both<,>).MakeGenericType(typeof(Both<,>).MakeGenericType(Pick(0), Pick(1)), typeof(Both<,>).MakeGenericType(Pick(2), Pick(3)));
        return typeof(Compiling).GetMethod(nameof(SizeOf), BindingFlags.NonPublic | BindingFlags.Static)!.MakeGenericMethod(type).CreateDelegate<Func<int>>()();
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static int SizeOf<T>() => Unsafe.SizeOf<T>();

    /// <summary>Called so often that it is compiled again, optimised.</summary>
    [MethodImpl(MethodImplOptions.NoInlining)]
    private static int HotMethod(int x) => x % 7 + (x ^ x >> 3);

    /// <summary>Called once, with a loop so long that it is replaced while it runs.</summary>
    [MethodImpl(MethodImplOptions.NoInlining)]
    private static int HotLoop(int turns)
    {
        int sum = 0;
        for (int i = 0; i < turns; i++) sum += i % 7;
        return sum;
    }
}
#endif
