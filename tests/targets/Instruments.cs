// SPDX-License-Identifier: MIT
// EventCounters and Meter instruments whose values are known to the last digit. What has to be exact in each interval is pushed from inside an
// observable callback: the runtime calls it once an interval, just before it reads the others.
using System.Diagnostics.Metrics;
using System.Diagnostics.Tracing;

namespace Lunette.Target;

[EventSource(Name = "Lunette-Test")]
internal sealed class TestSource : EventSource
{
    public const double Gauge = 17.25;
    public const double PolledStep = 7;
    public const int PushedStep = 5;
    private readonly List<DiagnosticCounter> _counters = new();
    private readonly EventCounter _written;
    private readonly IncrementingEventCounter _pushed;
    private double _polledTotal;

    public TestSource()
    {
        _written = new EventCounter("written", this) { DisplayName = "Written", DisplayUnits = "ms" };
        _pushed = new IncrementingEventCounter("pushed", this)
        { DisplayName = "Pushed", DisplayUnits = "items", DisplayRateTimeScale = TimeSpan.FromSeconds(1) };
        _counters.Add(new PollingCounter("gauge", this, () => Gauge) { DisplayName = "Gauge, 17.25", DisplayUnits = "MB" });
        _counters.Add(new IncrementingPollingCounter("polled", this, () => _polledTotal += PolledStep) { DisplayName = "Polled, 7 an interval" });
        _counters.Add(_written);
        _counters.Add(_pushed);
    }

    /// <summary>Three values with mean 20 for the EventCounter, and 5 for the incrementing one.</summary>
    public void Push()
    {
        _written.WriteMetric(10);
        _written.WriteMetric(20);
        _written.WriteMetric(30);
        _pushed.Increment(PushedStep);
    }
}

/// <summary>Lunette-Test and Lunette.Test. EventCounters are pushed ten times a second by a thread, Meters once an interval by a callback.</summary>
internal sealed class KnownCounters : Threads
{
    private readonly TestSource _source = new();
    private readonly Meter _meter = new("Lunette.Test", "1.2.3");
    private readonly Counter<long> _requests;
    private readonly UpDownCounter<int> _depth;
    private readonly Histogram<double> _latency;

    public KnownCounters()
    {
        _requests = _meter.CreateCounter<long>("test.requests", "{request}", "Eleven an interval for GET, three for POST");
        _depth = _meter.CreateUpDownCounter<int>("test.depth", "{item}", "Two up, one down an interval");
        _latency = _meter.CreateHistogram<double>("test.latency", "s", "0.001 to 0.100 once each an interval");
        _meter.CreateObservableCounter("test.pages", () => _pages += 13, "{page}", "Thirteen an interval");
        _meter.CreateObservableUpDownCounter("test.stock", () => -4, "{item}", "Minus four");
        _meter.CreateObservableGauge("test.temperature", Observe, "Cel", "Two rooms");
    }

    private long _pages;

    private IEnumerable<Measurement<double>> Observe()
    {
        _requests.Add(11, new KeyValuePair<string, object?>("method", "GET"));
        _requests.Add(3, new KeyValuePair<string, object?>("method", "POST"));
        _depth.Add(2);
        _depth.Add(-1);
        for (int i = 1; i <= 100; i++) _latency.Record(i / 1000.0, new KeyValuePair<string, object?>("route", "/a"));
        return
        [
            new Measurement<double>(21.5, new KeyValuePair<string, object?>("room", "north")),
            new Measurement<double>(-3.75, new KeyValuePair<string, object?>("room", "south"), new KeyValuePair<string, object?>("floor", 2)),
        ];
    }

    protected override IEnumerable<Action> Bodies() => [PushOften];

    private void PushOften()
    {
        while (Running)
        {
            _source.Push();
            Thread.Sleep(100);
        }
    }
}

/// <summary>One Counter with many tag sets, for the cap on series.</summary>
internal sealed class ManySeries : ILoad
{
    private readonly Meter _meter = new("Lunette.Many");
    private readonly Counter<int> _counter;
    private readonly int _series;

    public ManySeries(int series)
    {
        _series = series;
        _counter = _meter.CreateCounter<int>("many.series");
        _meter.CreateObservableGauge("many.tick", Push);
    }

    private int Push()
    {
        for (int i = 0; i < _series; i++) _counter.Add(1, new KeyValuePair<string, object?>("n", i));
        return _series;
    }

    public void Start() { }
    public void Stop() { }
}
