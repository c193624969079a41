// SPDX-License-Identifier: MIT
// A container of services of known size. Every one has a type of its own.
#if !LUNETTE_AOT
using System.Runtime.CompilerServices;
using Microsoft.Extensions.DependencyInjection;

namespace Lunette.Target;

internal sealed class Service<T>;

/// <summary>10 singletons, 20 scoped and 30 transient services; 5 of each kind are resolved, twice, the second time in the same scope.</summary>
internal sealed class Services : Work
{
    private const int Singletons = 10, Scoped = 20, Transients = 30, Resolved = 5;
    private static readonly Type[] Plain = [typeof(byte), typeof(short), typeof(int), typeof(long), typeof(float), typeof(double), typeof(char), typeof(bool)];

    private static Type Numbered(int i) =>
        typeof(Service<>).MakeGenericType(typeof(ValueTuple<,>).MakeGenericType(Plain[i % Plain.Length], Plain[i / Plain.Length]));

    protected override string Do()
    {
        using var provider = BuildServices();
        int resolved = ResolveServices(provider);
        return $"providers=1 singletons={Singletons} scoped={Scoped} transients={Transients} resolved={resolved}";
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static ServiceProvider BuildServices()
    {
        var services = new ServiceCollection();
        for (int i = 0; i < Singletons; i++) services.AddSingleton(Numbered(i));
        for (int i = 0; i < Scoped; i++) services.AddScoped(Numbered(Singletons + i));
        for (int i = 0; i < Transients; i++) services.AddTransient(Numbered(Singletons + Scoped + i));
        return services.BuildServiceProvider();
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static int ResolveServices(ServiceProvider provider)
    {
        using var scope = provider.CreateScope();
        int n = 0;
        for (int again = 0; again < 2; again++)
        {
            foreach (int first in (int[])[0, Singletons, Singletons + Scoped])
            {
                for (int i = 0; i < Resolved; i++, n++) scope.ServiceProvider.GetRequiredService(Numbered(first + i));
            }
        }
        return n;
    }
}
#endif
