// SPDX-License-Identifier: MIT
// Many objects: N million of a mix of sizes and shapes, for figures.
namespace Lunette.Target;

internal sealed class Order { public Order? Next; public string? Name; public Line[]? Lines; public int Number; public decimal Total; }

internal sealed class Line { public object? Article; public int Count; public double Price; }

internal sealed class Leaf { public Leaf? Left, Right; public long Key; }

internal sealed class BigHeap
{
    private readonly int millions;
    private readonly List<object> kept = [];

    public BigHeap(int given)
    {
        millions = given > 0 ? given : 1;
        for (int m = 0; m < millions; m++) kept.Add(Million());
        GC.Collect();
    }

    // a million objects of about 66 bytes: 100,000 orders with name, array and three lines, 200,000 leaves, 150,000 boxes, 50,000 small arrays
    private static object Million()
    {
        Order? head = null;
        var article = new object();
        for (int i = 0; i < 100_000; i++)
        {
            head = new Order { Next = head, Number = i, Name = "order number " + i, Lines = new Line[3] };
            for (int k = 0; k < 3; k++) head.Lines[k] = new Line { Article = article, Count = k };
        }
        var boxes = new object[150_000];
        for (int i = 0; i < boxes.Length; i++) boxes[i] = i;
        var arrays = new byte[50_000][];
        for (int i = 0; i < arrays.Length; i++) arrays[i] = new byte[i % 700];
        return new object[] { head!, Tree(200_000)!, boxes, arrays };
    }

    private static Leaf? Tree(int n) => n <= 0 ? null : new Leaf { Key = n, Left = Tree((n - 1) / 2), Right = Tree(n - 1 - (n - 1) / 2) };

    public override string ToString() => $"millions={millions} heap={GC.GetTotalMemory(false)}";
}

/// <summary>Threads that allocate without end, so that a live walk meets allocation contexts and collections.</summary>
internal sealed class Churn
{
    private readonly Node[] live = new Node[50_000];

    public Churn(int given)
    {
        for (int i = 0; i < live.Length; i++) live[i] = new Node();
        for (int t = 0; t < (given > 0 ? given : 2); t++) new Thread(Allocate) { IsBackground = true }.Start();
    }

    private static void Allocate()
    {
        var ring = new object[1000];
        for (int i = 0; ; i = (i + 1) & int.MaxValue) ring[i % ring.Length] = i % 3 == 0 ? new byte[i % 300] : i % 3 == 1 ? new Line() : "text " + i;
    }

    public override string ToString() => $"live={live.Length}";
}
