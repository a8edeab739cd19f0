package main

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	echoBuffer  = 16 << 10
	dialTimeout = 5 * time.Second
)

func serveEcho(listener net.Listener) {
	acceptEach(listener, func(conn net.Conn) {
		defer conn.Close()
		buffer := make([]byte, echoBuffer)
		for {
			n, err := conn.Read(buffer)
			if n > 0 {
				if _, err := conn.Write(buffer[:n]); err != nil {
					return
				}
			}
			if err != nil {
				return
			}
		}
	})
}

// sink reads and discards; each read that brought data is one delivery.
type sink struct {
	buffer                        int
	work                          time.Duration
	deliveries, bytes, connection atomic.Int64
}

func newSink(buffer int, work time.Duration) *sink {
	return &sink{buffer: buffer, work: work}
}

func (s *sink) serve(listener net.Listener) {
	acceptEach(listener, func(conn net.Conn) {
		s.connection.Add(1)
		defer s.connection.Add(-1)
		defer conn.Close()
		buffer := make([]byte, s.buffer)
		for {
			n, err := conn.Read(buffer)
			if n > 0 {
				s.deliveries.Add(1)
				s.bytes.Add(int64(n))
				compute(s.work)
			}
			if err != nil {
				return
			}
		}
	})
}

// serveProxy copies both ways between each client and the target. io.Copy between two TCP
// sockets is splice(2) on Linux: the bytes never enter this process.
func serveProxy(listener net.Listener, target string) {
	acceptEach(listener, func(conn net.Conn) {
		defer conn.Close()
		upstream, err := net.DialTimeout("tcp", target, dialTimeout)
		if err != nil {
			logSometimes("proxy: cannot reach %s: %v", target, err)
			return
		}
		defer upstream.Close()
		var both sync.WaitGroup
		both.Add(2)
		go copyHalf(&both, upstream, conn)
		go copyHalf(&both, conn, upstream)
		both.Wait()
	})
}

// copyHalf copies one direction. An orderly end is passed on as an orderly end, and the other
// direction may go on; a failure ends both.
func copyHalf(both *sync.WaitGroup, to, from net.Conn) {
	defer both.Done()
	if _, err := io.Copy(to, from); err != nil {
		to.Close()
		from.Close()
		return
	}
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}
