// SPDX-License-Identifier: MIT
// What a busy service writes: allocations and collections, contention, exceptions, tasks, thread pool work, and events of its own with
// texts and numbers. Prints "ready", waits for a line, works until rounds are done, prints "done", and waits for a line again.
using System.Diagnostics.Tracing;

long rounds = args.Length > 0 ? long.Parse(args[0]) : 60_000;
Console.WriteLine("ready");
Console.ReadLine();
var gate = new object();
var done = 0L;
var workers = Enumerable.Range(0, 4).Select(id => new Thread(() =>
{
    for (long i; (i = Interlocked.Increment(ref done)) <= rounds;) Round(id, i);
})).ToArray();
foreach (var w in workers) w.Start();
foreach (var w in workers) w.Join();
Console.WriteLine("done");
Console.ReadLine();

void Round(int id, long i)
{
    var log = ShopEvents.Log;
    var order = "order-" + i;
    log.OrderReceived(order, (int)(i % 500), i * 17, 19.99 + i % 100, "customer" + i % 1000 + "@example.com");
    for (int item = 0; item < 4; item++) log.ItemPriced(order, "Widget, blue, size " + item, item, 3.5 * item);
    Log(log, i, "Order {Order} of {Customer} received over {Route}", "/api/v2/orders/" + order);
    var t = Task.Run(() => Work(i));
    var u = t.ContinueWith(x => x.Result + 1, TaskScheduler.Default);
    Allocate(i);
    lock (gate) Thread.SpinWait(i % 16 == 0 ? 4000 : 50);
    if (i % 6 == 0) Fail(i);
    u.Wait();
    log.Write("OrderShipped", new { Order = order, Carrier = "Post", Weight = i % 40, Express = i % 3 == 0, At = DateTime.UtcNow });
    log.OrderDone(order, i % 7 == 0 ? "late — überfällig" : "on time", id);
}

// As a logging event source writes a message: the text, and its parts as JSON.
static void Log(ShopEvents log, long i, string template, string route)
{
    var customer = "customer" + i % 1000 + "@example.com";
    log.LogMessage(2, "Shop.Orders.OrderController", (int)(i % 90), template.Replace("{Order}", "order-" + i).Replace("{Customer}", customer).Replace("{Route}", route),
        "{\"Order\":\"order-" + i + "\",\"Customer\":\"" + customer + "\",\"Route\":\"" + route + "\"}");
}

static long Work(long i)
{
    ShopEvents.Log.StockChecked("warehouse-" + i % 9, i % 2 == 0, Guid.Empty);
    return i;
}

static void Allocate(long i)
{
    var keep = new List<byte[]>();
    for (int k = 0; k < 40; k++) keep.Add(new byte[2000]);
    if (i % 400 == 0) keep.Add(new byte[200_000]);
    GC.KeepAlive(keep);
}

static void Fail(long i)
{
    try { throw new InvalidOperationException("No stock for order " + i); }
    catch (InvalidOperationException) { }
}

[EventSource(Name = "Lunette-Bench-Shop")]
sealed class ShopEvents : EventSource
{
    public static readonly ShopEvents Log = new();
    [Event(1, Level = EventLevel.Informational)]
    public void OrderReceived(string order, int lines, long number, double total, string customer) => WriteEvent(1, order, lines, number, total, customer);
    [Event(2, Level = EventLevel.Verbose)]
    public void ItemPriced(string order, string item, int index, double price) => WriteEvent(2, order, item, index, price);
    [Event(3, Level = EventLevel.Verbose)]
    public void StockChecked(string warehouse, bool there, Guid batch) => WriteEvent(3, warehouse, there, batch);
    [Event(4, Level = EventLevel.Informational)]
    public void OrderDone(string order, string state, int worker) => WriteEvent(4, order, state, worker);
    [Event(5, Level = EventLevel.Verbose)]
    public void LogMessage(int level, string category, int eventId, string message, string arguments) => WriteEvent(5, level, category, eventId, message, arguments);
}
