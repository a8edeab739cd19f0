package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// limitedListener closes what comes beyond connectionsMax, and outlives a shortage of descriptors.
type limitedListener struct {
	net.Listener
	name string
	open atomic.Int64
}

func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return nil, err
			}
			// Out of descriptors, or a client gone before it was accepted: others still want in.
			logSometimes("%s: accept: %v", l.name, err)
			time.Sleep(10 * time.Millisecond)
			continue
		}
		if l.open.Add(1) > connectionsMax {
			l.open.Add(-1)
			conn.Close()
			logSometimes("%s: more than %d connections: the newest was closed", l.name, connectionsMax)
			continue
		}
		return &countedConn{TCPConn: conn.(*net.TCPConn), open: &l.open}, nil
	}
}

// countedConn gives its place back when it is closed. It embeds the TCP connection itself, so
// that io.Copy still finds ReadFrom and WriteTo, and with them splice(2).
type countedConn struct {
	*net.TCPConn
	open *atomic.Int64
	once sync.Once
}

func (c *countedConn) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.TCPConn.Close()
}

func acceptEach(listener net.Listener, serve func(net.Conn)) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			logSometimes("%v", err)
			return
		}
		go serve(conn)
	}
}

var lastLog atomic.Int64

// logSometimes writes at most ten lines a second: a storm of errors must not become the load.
func logSometimes(format string, args ...any) {
	now, last := time.Now().UnixMilli(), lastLog.Load()
	if now-last >= 100 && lastLog.CompareAndSwap(last, now) {
		fmt.Fprintf(os.Stderr, "go-peer: "+format+"\n", args...)
	}
}
