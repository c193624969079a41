// SPDX-License-Identifier: MIT
// Exceptions in known numbers, handled ones and the one that ends the process.
using System.Runtime.CompilerServices;

namespace Lunette.Target;

/// <summary>An exception type of the application's own; its inner exception was made but never thrown, so that it counts no event.</summary>
internal sealed class OrderException(string message, Exception inner) : Exception(message, inner);

internal sealed class Throwing(int n) : Work
{
    protected override string Do()
    {
        for (int i = 1; i <= n; i++) Catch(ThrowInvalid, i);
        for (int i = 1; i <= 2 * n; i++) Catch(ThrowArgument, i);
        for (int i = 1; i <= 3 * n; i++) Catch(ThrowOrder, i);
        return $"invalid={n} argument={2 * n} order={3 * n} thrown={6 * n} thread={ThreadId()}";
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    public static void Catch(Action<int> thrower, int i)
    {
        try { thrower(i); }
        catch (Exception) { /* what the mode is for */ }
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    public static void ThrowInvalid(int i) => throw new InvalidOperationException($"invalid {i}");

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void ThrowArgument(int i) => throw new ArgumentException($"argument {i}");

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void ThrowOrder(int i) => throw new OrderException($"order {i}", new KeyNotFoundException($"no stock {i}"));
}

/// <summary>Handled exceptions, DONE, then one that nobody handles, on a thread named "crash". As in many a service, a last handler takes its
/// time before the process goes; without it the runtime is gone before it has sent the event of the last exception.</summary>
internal sealed class Crashing(int n) : Work
{
    private const int LastWordsMs = 500;

    protected override string Do()
    {
        for (int i = 1; i <= n; i++) Throwing.Catch(Throwing.ThrowInvalid, i);
        AppDomain.CurrentDomain.UnhandledException += (_, _) => Thread.Sleep(LastWordsMs);
        Program.Say($"DONE handled={n} unhandled=1");
        new Thread(CrashNow) { Name = "crash" }.Start();
        Thread.Sleep(Timeout.Infinite); // the process dies with the other thread
        return "";
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void CrashNow()
    {
        CrashInner();
        GC.KeepAlive(null); // no tail call: both frames are on the stack
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void CrashInner() => throw new InvalidOperationException("the last straw", new FormatException("root cause"));
}
