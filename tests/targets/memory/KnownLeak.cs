// SPDX-License-Identifier: MIT
// A leak with a known chain: LeakCache.Instance (static) -> Dictionary -> Entry[] -> CustomerSession -> Customer[] ..., and a publisher whose event holds subscribers.
namespace Lunette.Target;

internal sealed class Customer { public string Name = ""; public byte[] Photo = new byte[256]; }

internal sealed class CustomerSession { public List<Customer> Customers = []; }

internal sealed class Publisher
{
    public event EventHandler? Changed;
    public void Raise() => Changed?.Invoke(this, EventArgs.Empty);
}

internal sealed class Subscriber
{
    public int Seen;
    public void OnChanged(object? sender, EventArgs e) => Seen++;
}

internal static class LeakCache
{
    public static readonly Dictionary<string, CustomerSession> Instance = [];
    public static readonly Publisher Source = new();
    [ThreadStatic] public static List<string>? OfThread;
}

internal sealed class KnownLeak
{
    private readonly int n;

    public KnownLeak(int given)
    {
        n = given > 0 ? given : 1000;
        for (int i = 0; i < 10; i++)
        {
            var session = new CustomerSession();
            for (int k = 0; k < n / 10; k++) session.Customers.Add(new Customer { Name = $"customer {i}/{k}" });
            LeakCache.Instance[$"session {i}"] = session;
        }
        for (int i = 0; i < n / 10; i++) LeakCache.Source.Changed += new Subscriber().OnChanged;
        LeakCache.OfThread = ["of the main thread"];
        GC.Collect();
    }

    public override string ToString() => $"customers={n} sessions={LeakCache.Instance.Count} subscribers={n / 10}";
}
