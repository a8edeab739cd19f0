package main

import (
	"encoding/json"
	"fmt"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// countStep is what is computed between two additions to the count: short against anything
	// that is measured, long against what counting costs.
	countStep = 100 * time.Microsecond
	// burningMax bounds the fresh goroutines under way; beyond it load is shed.
	burningMax  = 1_000
	burnRateMax = 10_000
)

// burnOption is --burn: so many fresh goroutines a second, each of which computes once.
type burnOption struct {
	perSecond int
	work      time.Duration
}

// meter counts what hogs and burners have computed.
type meter struct {
	start  time.Time
	micros atomic.Int64
}

// compute computes and counts as it goes: also the work of a hog that never ends is seen to grow.
func (m *meter) compute(work time.Duration) {
	for work > 0 {
		step := min(work, countStep)
		compute(step)
		m.micros.Add(step.Microseconds())
		work -= step
	}
}

// serve answers every connection with a line of JSON, and closes it.
func (m *meter) serve(listener net.Listener) {
	acceptEach(listener, func(conn net.Conn) {
		defer conn.Close()
		_ = json.NewEncoder(conn).Encode(map[string]int64{
			"work_us": m.micros.Load(),
			"at_us":   time.Since(m.start).Microseconds(),
		})
	})
}

// hog computes for ever, in polls of the given length; 0 never yields of its own will.
func (m *meter) hog(poll time.Duration) {
	for poll == 0 {
		m.compute(time.Second)
	}
	for {
		m.compute(poll)
		runtime.Gosched()
	}
}

// burn starts goroutines on a fixed schedule: one that was held up catches up.
func (m *meter) burn(burn burnOption) {
	start, begun := time.Now(), int64(0)
	var underWay atomic.Int64
	for {
		due := int64(time.Since(start).Seconds() * float64(burn.perSecond))
		for ; begun < due; begun++ {
			if underWay.Load() >= burningMax {
				continue
			}
			underWay.Add(1)
			go func() {
				defer underWay.Add(-1)
				m.compute(burn.work)
			}()
		}
		next := time.Duration(float64(begun+1) / float64(burn.perSecond) * float64(time.Second))
		time.Sleep(time.Until(start.Add(next)))
	}
}

func parseBurn(text string) (burnOption, error) {
	rate, us, found := strings.Cut(text, ":")
	perSecond, badRate := strconv.Atoi(rate)
	micros, badUS := strconv.ParseInt(us, 10, 64)
	if !found || badRate != nil || badUS != nil || perSecond < 1 || perSecond > burnRateMax || micros < 1 {
		return burnOption{}, fmt.Errorf("--burn %q: give RATE:US, as in 50:20000", text)
	}
	work, err := microseconds("burn", micros)
	return burnOption{perSecond: perSecond, work: work}, err
}
