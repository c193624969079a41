// SPDX-License-Identifier: MIT
// A program with an EventSource of its own, as teams have them: orders that wait, and how long each kind takes. For site scripts.
using System.Diagnostics.Tracing;

namespace Lunette.Target;

[EventSource(Name = "Contoso-Shop")]
internal sealed class ShopSource : EventSource
{
    public static readonly ShopSource Log = new();
    private PollingCounter? waitingCounter;
    private IncrementingPollingCounter? ordersCounter;
    public int Waiting;
    public long Done;

    [Event(1, Level = EventLevel.Informational, ActivityOptions = EventActivityOptions.Disable)]
    public void OrderStart(int id, string kind) => WriteEvent(1, id, kind);

    [Event(2, Level = EventLevel.Informational, ActivityOptions = EventActivityOptions.Disable)]
    public void OrderStop(int id, string customer) => WriteEvent(2, id, customer);

    protected override void OnEventCommand(EventCommandEventArgs command)
    {
        if (command.Command != EventCommand.Enable) return;
        waitingCounter ??= new PollingCounter("orders-waiting", this, () => Volatile.Read(ref Waiting)) { DisplayName = "Orders waiting" };
        ordersCounter ??= new IncrementingPollingCounter("orders-per-second", this, () => Interlocked.Read(ref Done))
        {
            DisplayName = "Order rate",
        };
    }
}

/// <summary>
/// Every 100 ms an order comes, in turns book (done after 10 ms), food (20 ms) and gift (200 ms); N orders wait all the time.
/// The customer of an order is an e-mail address with a password behind it: what must never be shown.
/// </summary>
internal sealed class Shop(int waiting) : ILoad
{
    private static readonly (string Kind, int Ms)[] Kinds = [("book", 10), ("food", 20), ("gift", 200)];
    private volatile bool stopping;

    public void Start()
    {
        ShopSource.Log.Waiting = waiting;
        new Thread(Serve) { IsBackground = true, Name = "shop" }.Start();
    }

    public void Stop() => stopping = true;

    private void Serve()
    {
        for (int id = 1; !stopping; id++)
        {
            (string kind, int ms) = Kinds[id % Kinds.Length];
            ShopSource.Log.OrderStart(id, kind);
            Thread.Sleep(ms);
            ShopSource.Log.OrderStop(id, $"customer{id}@example.com password=hunter{id}");
            Interlocked.Increment(ref ShopSource.Log.Done);
            Thread.Sleep(Math.Max(0, 100 - ms));
        }
    }
}
