// SPDX-License-Identifier: MIT
// Objects in known numbers: every shape that a heap walk has to size and follow.
namespace Lunette.Target;

internal sealed class Node { public Node? Next; public object? Payload; public long Number; }

internal struct Pair { public string? Name; public int Weight; public object? Value; }

internal struct Wide { public long A, B; public Pair First; public double C; public object? Tail; }

internal sealed class Holder { public Wide Inline; public Pair[]? Pairs; public readonly byte Small = 7; }

internal sealed class Generic<TKey, TValue> { public TKey? Key; public TValue? Value; internal sealed class Inner { public TKey? Deep; } }

internal sealed class KnownHeap
{
    private readonly int n;
    private readonly Node head;
    private readonly Pair[] pairs;
    private readonly Wide[] wides;
    private readonly Holder[] holders;
    private readonly object?[,] square;
    private readonly int[][] jagged;
    private readonly int[,,] cube;
    private readonly Generic<string, int>[] closed;
    private readonly Generic<int, List<string>>.Inner[] inner;
    private readonly string[] texts;
    private readonly object[] boxes;
    private readonly byte[] large = new byte[200_000];
    private readonly object?[] largeReferences = new object?[20_000];
    private readonly byte[] pinned = GC.AllocateArray<byte>(1000, pinned: true);
    private readonly double[] doubles = new double[2000];

    public KnownHeap(int given)
    {
        n = given > 0 ? given : 1000;
        head = new Node();
        for (int i = 1; i < n; i++) head = new Node { Next = head, Number = i };
        pairs = new Pair[n];
        for (int i = 0; i < n; i++) pairs[i] = new Pair { Name = $"pair {i}", Value = i % 2 == 0 ? head : null };
        wides = new Wide[n];
        for (int i = 0; i < n; i++) wides[i].First.Name = pairs[i].Name;
        holders = Enumerable.Range(0, n).Select(i => new Holder { Pairs = i % 10 == 0 ? new Pair[3] : null, Inline = wides[i] }).ToArray();
        square = new object?[10, 20];
        square[3, 4] = head;
        jagged = Enumerable.Range(0, 10).Select(i => new int[i]).ToArray();
        cube = new int[2, 3, 4];
        closed = Enumerable.Range(0, n).Select(i => new Generic<string, int> { Key = "key", Value = i }).ToArray();
        inner = Enumerable.Range(0, 5).Select(i => new Generic<int, List<string>>.Inner { Deep = i }).ToArray();
        texts = Enumerable.Range(0, n).Select(i => new string('x', i % 50)).ToArray();
        boxes = Enumerable.Range(0, n).Select(i => (object)(double)i).ToArray();
        for (int i = 0; i < largeReferences.Length; i++) largeReferences[i] = i % 100 == 0 ? holders[i % n] : null;
        GC.Collect();
    }

    public override string ToString() => $"nodes={n} holders={n} boxes={n} closed={n} inner=5 pairs={pairs.Length} wides={wides.Length} " +
        $"square={square.Length} jagged={jagged.Length} cube={cube.Length} texts={texts.Length} large={large.Length} references={largeReferences.Length} pinned={pinned.Length} doubles={doubles.Length} inners={inner.Length} closeds={closed.Length} boxed={boxes.Length}";
}
