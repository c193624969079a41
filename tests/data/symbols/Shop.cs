// SPDX-License-Identifier: MIT
// The source of the modules in this folder; README.md says how they are made. Line numbers are what the tests look for.
using System.Collections.Generic;
using System.Threading.Tasks;

namespace Shop;

public class Cart<TItem>
{
    private readonly List<TItem> items = new();

    public int Add(TItem item, ref int count, int[,] grid)
    {
        items.Add(item);
        foreach (TItem i in items)
        {
            count += i.GetHashCode();
        }
        return count;
    }

    public class Line<TPrice>
    {
        public KeyValuePair<TItem, TPrice>[] Prices<TOther>(Dictionary<string, TOther> by, TPrice price)
        {
            return new KeyValuePair<TItem, TPrice>[by.Count];
        }
    }
}

public static class Desk
{
    public static async Task<long> Later(string name)
    {
        await Task.Yield();
        return name.Length;
    }

    public static unsafe int Generated(byte* p, delegate*<int, string, void> then)
    {
        int before = *p;
#line 700 "Generated.txt"
        before += 2;
        before *= 3;
#line default
        return before;
    }

    public static int Spread(int a)
    {
        return a
            + 1
            + 2;
    }

    public static extern void Outside();
}
