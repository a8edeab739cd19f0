package main

import (
	"encoding/json"
	"io"
	"log"
	"math"
	"net"
	"net/http"
	"runtime"
	"runtime/metrics"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const (
	parseStep    = 100 * time.Microsecond
	schedLatency = "/sched/latencies:seconds"
	runnableNow  = "/sched/goroutines/runnable:goroutines"
)

func newServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          log.New(io.Discard, "", 0), // a client that goes away is no news here
	}
}

func serveHTTP(listener net.Listener) {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, "hello\n")
	})
	logSometimes("http: %v", newServer(mux).Serve(listener))
}

// api answers /parse, the call whose time the storm must not stretch, and /stats.
type api struct {
	work    time.Duration
	sink    *sink
	cameras *cameras
	disk    *disk

	mu   sync.Mutex // guards what /stats said last
	last sample
}

// sample is what /stats takes the difference of from one call to the next.
type sample struct {
	at                time.Time
	cpu               time.Duration
	deliveries, bytes int64
}

func newAPI(opts options, sink *sink, cameras *cameras, disk *disk) *api {
	a := &api{work: opts.apiWork, sink: sink, cameras: cameras, disk: disk}
	a.last = a.sample()
	return a
}

func (a *api) serve(listener net.Listener) {
	mux := http.NewServeMux()
	mux.HandleFunc("/parse", a.parse)
	mux.HandleFunc("/stats", a.stats)
	mux.HandleFunc("/stat", func(w http.ResponseWriter, _ *http.Request) {
		stats, err := a.disk.stats()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		answer(w, stats)
	})
	mux.HandleFunc("/camera", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, a.cameras.stats())
	})
	logSometimes("api: %v", newServer(mux).Serve(listener))
}

func (a *api) parse(w http.ResponseWriter, _ *http.Request) {
	before := a.sample()
	for left := a.work; left > 0; left -= parseStep {
		compute(min(left, parseStep))
		runtime.Gosched()
	}
	after := a.sample()
	deliveriesPerS, bytesPerDelivery := rates(before, after)
	answer(w, map[string]any{
		"took_us":            after.at.Sub(before.at).Microseconds(),
		"deliveries_per_s":   deliveriesPerS,
		"bytes_per_delivery": bytesPerDelivery,
	})
}

func (a *api) stats(w http.ResponseWriter, _ *http.Request) {
	now := a.sample()
	a.mu.Lock()
	last := a.last
	a.last = now
	a.mu.Unlock()
	workers := runtime.GOMAXPROCS(0)
	window := now.at.Sub(last.at).Seconds()
	cpu := (now.cpu - last.cpu).Seconds()
	deliveriesPerS, bytesPerDelivery := rates(last, now)
	p50, p99 := runnableLatency()
	answer(w, map[string]any{
		"peer":               "go",
		"version":            runtime.Version(),
		"workers":            workers,
		"window_s":           window,
		"cpu_s":              cpu,
		"cpu_share":          quotient(cpu, window*float64(workers)),
		"deliveries":         now.deliveries,
		"bytes":              now.bytes,
		"deliveries_per_s":   deliveriesPerS,
		"bytes_per_delivery": bytesPerDelivery,
		"sink_connections":   a.sink.connection.Load(),
		"goroutines":         runtime.NumGoroutine(),
		"tasks_active":       runnable(),
		"runnable_p50_us":    p50,
		"runnable_p99_us":    p99,
	})
}

func (a *api) sample() sample {
	var usage syscall.Rusage
	var cpu time.Duration
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) == nil {
		cpu = time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	return sample{time.Now(), cpu, a.sink.deliveries.Load(), a.sink.bytes.Load()}
}

func rates(from, to sample) (deliveriesPerS, bytesPerDelivery float64) {
	deliveries := float64(to.deliveries - from.deliveries)
	return quotient(deliveries, to.at.Sub(from.at).Seconds()),
		quotient(float64(to.bytes-from.bytes), deliveries)
}

// quotient is 0 where there is nothing to divide by: JSON has no NaN.
func quotient(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// runnable is how many goroutines wait for a processor; nil where this Go does not say.
func runnable() any {
	read := []metrics.Sample{{Name: runnableNow}}
	metrics.Read(read)
	if read[0].Value.Kind() != metrics.KindUint64 {
		return nil
	}
	return read[0].Value.Uint64()
}

// runnableLatency reads Go's own account of how long goroutines waited runnable, since the start.
func runnableLatency() (p50, p99 float64) {
	read := []metrics.Sample{{Name: schedLatency}}
	metrics.Read(read)
	if read[0].Value.Kind() != metrics.KindFloat64Histogram {
		return 0, 0
	}
	histogram := read[0].Value.Float64Histogram()
	return percentileUS(histogram, 0.50), percentileUS(histogram, 0.99)
}

// percentileUS is the upper edge, in us, of the bucket that holds the percentile.
func percentileUS(histogram *metrics.Float64Histogram, part float64) float64 {
	var total, seen uint64
	for _, count := range histogram.Counts {
		total += count
	}
	for i, count := range histogram.Counts {
		seen += count
		if total > 0 && float64(seen) >= part*float64(total) {
			edge := histogram.Buckets[i+1]
			if math.IsInf(edge, 1) {
				edge = histogram.Buckets[i]
			}
			return edge * 1e6
		}
	}
	return 0
}

func answer(w http.ResponseWriter, body map[string]any) {
	text, err := json.Marshal(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	// Without a length a long answer would come in chunks.
	w.Header().Set("Content-Length", strconv.Itoa(len(text)+1))
	_, _ = w.Write(append(text, '\n'))
}
