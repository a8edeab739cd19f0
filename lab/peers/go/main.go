// go-peer is the Go side of Evenkeel's lab: the same services as the lab's own `serve`, on net,
// net/http and goroutines as a Go programmer would write them. See ../README.md.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// options is the command line, checked.
type options struct {
	echo, sink, http, api, proxy string
	proxyTarget                  string
	camera, watch, record        string
	disk                         diskOptions
	handlers                     handlerOptions
	meter                        string // where --work listens
	work, apiWork                time.Duration
	buffer                       int
	workers                      int
	hogs                         int
	hogPoll                      time.Duration // 0: the hogs never yield
	burn                         burnOption    // no rate: nothing burns
	exitWithParent               bool
}

const (
	connectionsMax = 16_384 // per service; one descriptor each (two for the proxy)
	hogsMax        = 100_000
	workMax        = time.Minute
	bufferMax      = 64 << 20
	workersMax     = 4_096
)

func main() {
	opts, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(0)
	}
	if err == nil {
		err = run(opts)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "go-peer:", err)
		os.Exit(2)
	}
}

// run starts every service that was asked for, says where each listens, and waits for a signal.
func run(opts options) error {
	if opts.workers > 0 {
		runtime.GOMAXPROCS(opts.workers)
	}
	ends := make(chan os.Signal, 1)
	signal.Notify(ends, syscall.SIGTERM, syscall.SIGINT)

	sink := newSink(opts.buffer, opts.work)
	cameras := newCameras(opts, sink)
	disk, err := newDisk(opts.disk)
	if err != nil {
		return err
	}
	meter := &meter{start: time.Now()}
	handlers := &opts.handlers
	fresh := newFresh(handlers)
	services := []struct {
		name, addr string
		serve      func(net.Listener)
	}{
		{"echo", opts.echo, serveEcho},
		{"sink", opts.sink, sink.serve},
		{"camera", opts.camera, cameras.serve},
		{"watch", opts.watch, cameras.serveViewers},
		{"log", opts.disk.log, disk.serveLog},
		{"http", opts.http, serveHTTP},
		{"api", opts.api, newAPI(opts, sink, cameras, disk).serve},
		{"proxy", opts.proxy, func(l net.Listener) { serveProxy(l, opts.proxyTarget) }},
		{"work", opts.meter, meter.serve},
		{"mixed", handlers.mixed, handlers.serveMixed},
		{"apart", handlers.apart, handlers.serveMixed},
		{"mixed-h2", handlers.mixedH2, handlers.serveMixedH2},
		{"apart-h2", handlers.apartH2, handlers.serveMixedH2},
		{"block", handlers.block, handlers.serveBlock},
		{"waits", handlers.waits, fresh.serve},
	}
	for _, service := range services {
		if service.addr == "" {
			continue
		}
		listener, err := net.Listen("tcp", service.addr)
		if err != nil {
			return fmt.Errorf("--%s cannot listen on %s: %w", service.name, service.addr, err)
		}
		fmt.Println(service.name, listener.Addr())
		go service.serve(&limitedListener{Listener: listener, name: service.name})
	}
	disk.start()
	go fresh.spawn()
	for range opts.hogs {
		go meter.hog(opts.hogPoll)
	}
	if opts.burn.perSecond > 0 {
		go meter.burn(opts.burn)
	}
	// `ready` comes last, so that whoever reads it finds the whole scene in place, hogs included.
	fmt.Println("ready")
	if opts.exitWithParent {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			os.Exit(0)
		}()
	}
	<-ends
	return nil
}

func parse(args []string) (options, error) {
	var opts options
	var workUS, apiUS int64
	var hogPoll, busyWait, proxy, burn string
	set := flag.NewFlagSet("go-peer", flag.ContinueOnError)
	set.StringVar(&opts.echo, "echo", "", "`ADDR`: TCP echo")
	set.StringVar(&opts.sink, "sink", "", "`ADDR`: reads and discards")
	set.Int64Var(&workUS, "work-us", 0, "computing per delivery of the sink and of a camera, in us")
	set.StringVar(&opts.camera, "camera", "", "`ADDR`: frames of cameras")
	set.StringVar(&opts.watch, "watch", "", "`ADDR`: viewers of cameras")
	opts.disk.flags(set)
	opts.handlers.flags(set)
	set.StringVar(&opts.record, "record", "", "`DIR`: where cameras are recorded")
	set.IntVar(&opts.buffer, "buffer", 64<<10, "size of one read of the sink, in bytes")
	set.StringVar(&opts.http, "http", "", "`ADDR`: GET / answers 200")
	set.StringVar(&opts.api, "api", "", "`ADDR`: GET /parse computes, GET /stats reports")
	set.Int64Var(&apiUS, "api-us", 20_000, "computing per GET /parse, in us")
	set.StringVar(&proxy, "proxy", "", "`LISTEN=TARGET`: TCP proxy")
	set.IntVar(&opts.workers, "workers", 0, "GOMAXPROCS; 0 leaves Go's own choice")
	set.IntVar(&opts.hogs, "hogs", 0, "goroutines that compute beside the services")
	set.StringVar(&hogPoll, "hog-poll-us", "10000", "us computed between yields, or `never`")
	set.StringVar(&burn, "burn", "", "`RATE:US`: fresh goroutines a second, each computing so long")
	set.StringVar(&opts.meter, "work", "", "`ADDR`: how much hogs and burners have computed")
	set.StringVar(&busyWait, "busy-wait", "", "`LEVEL`: accepted, has no counterpart in Go")
	set.BoolVar(&opts.exitWithParent, "exit-with-parent", false, "exit when standard input ends")
	set.SetOutput(io.Discard) // mistakes are told by main, once
	if err := set.Parse(args); errors.Is(err, flag.ErrHelp) {
		set.SetOutput(os.Stdout)
		set.PrintDefaults()
		return opts, err
	} else if err != nil {
		return opts, fmt.Errorf("%w; see --help", err)
	}
	if set.NArg() > 0 {
		return opts, fmt.Errorf("what is %q? every argument is a flag; see --help", set.Arg(0))
	}
	if busyWait != "" {
		fmt.Fprintf(os.Stderr, "go-peer: warning: --busy-wait %s is ignored: "+
			"Go has no setting for how its threads spin\n", busyWait)
	}
	var err error
	if opts.work, err = microseconds("work-us", workUS); err != nil {
		return opts, err
	}
	if opts.apiWork, err = microseconds("api-us", apiUS); err != nil {
		return opts, err
	}
	if hogPoll != "never" {
		us, err := strconv.ParseInt(hogPoll, 10, 64)
		if err != nil || us == 0 {
			return opts, fmt.Errorf("--hog-poll-us %q: give a count of us above 0, or never", hogPoll)
		}
		if opts.hogPoll, err = microseconds("hog-poll-us", us); err != nil {
			return opts, err
		}
	}
	if burn != "" {
		if opts.burn, err = parseBurn(burn); err != nil {
			return opts, err
		}
	}
	if proxy != "" {
		listen, target, found := strings.Cut(proxy, "=")
		if !found || listen == "" || target == "" {
			return opts, fmt.Errorf("--proxy %q: give LISTEN=TARGET, both HOST:PORT", proxy)
		}
		opts.proxy, opts.proxyTarget = listen, target
	}
	if err := opts.disk.check(); err != nil {
		return opts, err
	}
	if err := opts.handlers.check(); err != nil {
		return opts, err
	}
	if opts.record != "" {
		if err := os.MkdirAll(opts.record, 0o755); err != nil {
			return opts, fmt.Errorf("--record: %w", err)
		}
	}
	if err := within("workers", opts.workers, 0, workersMax); err != nil {
		return opts, err
	}
	if err := within("hogs", opts.hogs, 0, hogsMax); err != nil {
		return opts, err
	}
	if err := within("buffer", opts.buffer, 1, bufferMax); err != nil {
		return opts, err
	}
	handlers := opts.handlers
	asked := handlers.mixed + handlers.apart + handlers.mixedH2 + handlers.apartH2 + handlers.block +
		handlers.waits
	if opts.echo+opts.sink+opts.camera+opts.disk.log+opts.http+opts.api+opts.proxy+asked == "" {
		return opts, errors.New("nothing to serve: give --echo, --sink, --camera, --log, --http, " +
			"--api, --proxy, --mixed, --apart, --mixed-h2, --apart-h2, --block or --waits")
	}
	return opts, nil
}

func microseconds(name string, us int64) (time.Duration, error) {
	if us < 0 || us > workMax.Microseconds() {
		return 0, fmt.Errorf("--%s %d: must be 0 to %d us", name, us, workMax.Microseconds())
	}
	return time.Duration(us) * time.Microsecond, nil
}

func within(name string, value, least, most int) error {
	if value < least || value > most {
		return fmt.Errorf("--%s %d: must be %d to %d", name, value, least, most)
	}
	return nil
}
