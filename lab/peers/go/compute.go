package main

import "time"

// gap is the longest time between two readings of the clock that still counts as computing.
// One turn of the loop takes some 50 ns, so whatever is longer was spent off the processor.
const gap = 20 * time.Microsecond

// compute keeps a processor busy until it had `work` of it. Time during which this goroutine was
// preempted is not counted, so that the work done is the same however loaded the machine is.
func compute(work time.Duration) {
	last := time.Now()
	for computed := time.Duration(0); computed < work; {
		now := time.Now()
		if step := now.Sub(last); step < gap {
			computed += step
		}
		last = now
	}
}
