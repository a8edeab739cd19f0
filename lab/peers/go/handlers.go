package main

import (
	"encoding/json"
	"errors"
	"flag"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	freshMax     = 1 << 17 // fresh goroutines in all; their accounts are kept to the end
	freshRateMax = 10_000
	blockMax     = 10_000
)

// handlerOptions are the flags of handlers that answer at once beside others that compute or block.
type handlerOptions struct {
	mixed, apart, mixedH2, apartH2 string
	postUS                         int64
	fresh                          int
	freshHogUS                     int64
	freshApart                     bool // has no meaning here: no goroutine is told by its line
	waits                          string
	block                          string
	blockTasks                     int
	blockUS                        int64
}

func (o *handlerOptions) flags(set *flag.FlagSet) {
	set.StringVar(&o.mixed, "mixed", "", "`ADDR`: GET / answers at once, POST / computes before")
	set.StringVar(&o.apart, "apart", "", "`ADDR`: as --mixed")
	set.StringVar(&o.mixedH2, "mixed-h2", "", "`ADDR`: as --mixed, over HTTP/2 without TLS")
	set.StringVar(&o.apartH2, "apart-h2", "", "`ADDR`: as --mixed-h2")
	set.Int64Var(&o.postUS, "post-us", 20_000, "computing per POST, in us")
	set.IntVar(&o.fresh, "fresh", 0, "so many fresh goroutines a second, of which --waits tells")
	set.Int64Var(&o.freshHogUS, "fresh-hog-us", 0, "computing of one in five of these, in us")
	set.BoolVar(&o.freshApart, "fresh-apart", false, "accepted, has no counterpart in Go")
	set.StringVar(&o.waits, "waits", "", "`ADDR`: how long each fresh goroutine waited")
	set.StringVar(&o.block, "block", "", "`ADDR`: each connection starts goroutines that block")
	set.IntVar(&o.blockTasks, "block-tasks", 40, "how many of them")
	set.Int64Var(&o.blockUS, "block-us", 2_000_000, "for how long each holds its thread, in us")
}

func (o *handlerOptions) check() error {
	for name, us := range map[string]int64{
		"post-us": o.postUS, "fresh-hog-us": o.freshHogUS, "block-us": o.blockUS,
	} {
		if _, err := microseconds(name, us); err != nil {
			return err
		}
	}
	if (o.fresh == 0) != (o.waits == "") {
		return errors.New("--fresh and --waits go together")
	}
	return errors.Join(
		within("fresh", o.fresh, 0, freshRateMax),
		within("block-tasks", o.blockTasks, 1, blockMax),
	)
}

// serveMixed answers GET at once, and POST after some computing.
func (o *handlerOptions) serveMixed(listener net.Listener) {
	server := o.newMixed()
	logSometimes("mixed: %v", server.Serve(listener))
}

// serveMixedH2 does so over HTTP/2 without TLS.
func (o *handlerOptions) serveMixedH2(listener net.Listener) {
	server := o.newMixed()
	server.Protocols = new(http.Protocols)
	server.Protocols.SetUnencryptedHTTP2(true)
	logSometimes("mixed-h2: %v", server.Serve(listener))
}

func (o *handlerOptions) newMixed() *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, "at once\n")
	})
	mux.HandleFunc("POST /{$}", func(w http.ResponseWriter, _ *http.Request) {
		compute(time.Duration(o.postUS) * time.Microsecond)
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, "computed\n")
	})
	return newServer(mux)
}

// serveBlock starts goroutines for each connection that hold their thread in a system call.
func (o *handlerOptions) serveBlock(listener net.Listener) {
	length := syscall.NsecToTimespec(o.blockUS * 1_000)
	acceptEach(listener, func(conn net.Conn) {
		defer conn.Close()
		for range o.blockTasks {
			go func() { _ = syscall.Nanosleep(&length, nil) }()
		}
		_, _ = conn.Write([]byte("!"))
	})
}

// fresh starts short goroutines at a steady rate, and keeps how long each waited to run.
type fresh struct {
	start     time.Time
	perSecond int
	hog       time.Duration
	slots     []freshSlot
}

// freshSlot holds moments in microseconds since the start, 0 while there is none.
type freshSlot struct{ spawned, ran atomic.Int64 }

func newFresh(o *handlerOptions) *fresh {
	f := &fresh{time.Now(), o.fresh, time.Duration(o.freshHogUS) * time.Microsecond, nil}
	if o.fresh > 0 {
		f.slots = make([]freshSlot, freshMax)
	}
	return f
}

// freshKind: of each five one hogs and one is urgent, at places that move from five to five.
func freshKind(index int) string {
	switch (index + 2*(index/5)) % 5 {
	case 0:
		return "hog"
	case 2:
		return "urgent"
	}
	return "innocent"
}

func (f *fresh) now() int64 { return max(1, time.Since(f.start).Microseconds()) }

func (f *fresh) due(index int) int64 { return int64(index+1) * 1_000_000 / int64(f.perSecond) }

// spawn starts what is due, for as long as there is room for the accounts.
func (f *fresh) spawn() {
	for index := range f.slots {
		// Of what is late already there is nothing to wait for.
		time.Sleep(time.Duration(f.due(index)-f.now()) * time.Microsecond)
		slot := &f.slots[index]
		slot.spawned.Store(f.now())
		go func() {
			slot.ran.Store(f.now())
			if freshKind(index) == "hog" {
				compute(f.hog)
			}
		}()
	}
}

// serve tells every connection of all goroutines that were due: what each is, when it was due, when
// it was started, and when it ran.
func (f *fresh) serve(listener net.Listener) {
	moment := func(us int64) any {
		if us == 0 {
			return nil
		}
		return us
	}
	acceptEach(listener, func(conn net.Conn) {
		defer conn.Close()
		at, tasks := f.now(), [][4]any{}
		for index := range f.slots {
			if f.due(index) > at {
				break
			}
			slot := &f.slots[index]
			spawned, ran := moment(slot.spawned.Load()), moment(slot.ran.Load())
			tasks = append(tasks, [4]any{freshKind(index), f.due(index), spawned, ran})
		}
		_ = json.NewEncoder(conn).Encode(map[string]any{"at_us": at, "tasks": tasks})
	})
}
