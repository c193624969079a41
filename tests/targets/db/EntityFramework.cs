// SPDX-License-Identifier: MIT
// EF Core on SQLite with a known number of commands of every sort; values and the connection string carry secrets, which no answer of ours
// may repeat.
using System.Diagnostics;
using Microsoft.Data.Sqlite;
using Microsoft.EntityFrameworkCore;

namespace Lunette.Target;

internal sealed class Blog
{
    public int Id { get; set; }
    public string Name { get; set; } = "";
    public List<Post> Posts { get; set; } = [];
}

internal sealed class Post
{
    public int Id { get; set; }
    public int BlogId { get; set; }
    public string Title { get; set; } = "";
}

internal sealed class Blogs(SqliteConnection connection) : DbContext
{
    public DbSet<Blog> All => Set<Blog>();
    public DbSet<Post> Posts => Set<Post>();
    protected override void OnConfiguring(DbContextOptionsBuilder options) => options.UseSqlite(connection);
    protected override void OnModelCreating(ModelBuilder model)
    {
        model.Entity<Blog>().ToTable("Blogs");
        model.Entity<Post>().ToTable("Posts");
    }
}

/// <summary>Under an activity: one query for N blogs, then one for the posts of each: N+1. Under others: ten times the same, which is none.</summary>
internal sealed class EntityFramework(int n) : Work
{
    private const int FewTimes = 10, Failing = 2, Literals = 15, Slow = 1, SlowRows = 150_000;
    private readonly SqliteConnection _connection = Open(n);
    private static readonly ActivitySource Source = new("Lunette.Db");

    internal static SqliteConnection Open(int n)
    {
        // "Shared" by its name: the database lives as long as this connection
        var connection = new SqliteConnection("Data Source=lunette-db;Mode=Memory;Cache=Shared");
        connection.Open();
        using var context = new Blogs(connection);
        context.Database.EnsureCreated();
        for (int i = 1; i <= n; i++) context.All.Add(new Blog { Name = $"blog {i}", Posts = { new Post { Title = $"S3cretTitle{i}" } } });
        context.SaveChanges();
        return connection;
    }

    protected override string Do()
    {
        string manyTrace = Under(NPlusOne), fewTrace = Under(JustTen), literalTrace = Under(WithLiterals);
        Under(Fails);
        long since = Stopwatch.GetTimestamp();
        Under(Slowly);
        double slow = Stopwatch.GetElapsedTime(since).TotalMilliseconds;
        int total = 1 + n + FewTimes + Literals + Failing + Slow;
        return FormattableString.Invariant($"commands={total} blogs=1 posts={n} few={FewTimes} literals={Literals} failed={Failing} slow={Slow} slow_ms={slow:F3} ") +
            $"many_trace={manyTrace} few_trace={fewTrace} literal_trace={literalTrace}";
    }

    /// <summary>Runs it under an activity of its own; gives the trace id.</summary>
    private static string Under(Action<Blogs> work, SqliteConnection connection)
    {
        using var activity = new Activity(work.Method.Name).Start();
        using var context = new Blogs(connection);
        work(context);
        return activity.TraceId.ToHexString();
    }

    private string Under(Action<Blogs> work) => Under(work, _connection);

    private void NPlusOne(Blogs context)
    {
        foreach (var blog in context.All.AsNoTracking().ToList())
        {
            int id = blog.Id;
            _ = context.Posts.AsNoTracking().Where(p => p.BlogId == id).ToList();
        }
    }

    private static void JustTen(Blogs context)
    {
        for (int i = 0; i < FewTimes; i++) _ = context.All.Count();
    }

    private static void WithLiterals(Blogs context)
    {
        for (int i = 0; i < Literals; i++)
            context.Database.ExecuteSqlRaw($"UPDATE Posts SET Title = 'S3cretLiteral{i}' WHERE Id = 77{i} AND Title <> 'it''s S3cretQuoted' -- S3cretComment{i}");
    }

    private static void Fails(Blogs context)
    {
        for (int i = 0; i < Failing; i++)
        {
            try
            {
                context.Database.ExecuteSqlRaw("SELECT * FROM Nowhere WHERE Token = 'S3cretToken'");
            }
            catch (SqliteException)
            {
                // on purpose
            }
        }
    }

    private static void Slowly(Blogs context) => context.Database.ExecuteSqlRaw(
        $"UPDATE Posts SET Title = Title WHERE Id = (WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT {SlowRows}) SELECT -max(x) FROM c)");
}
