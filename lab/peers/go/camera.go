package main

import (
	"encoding/binary"
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	frameLen   = 1460
	frameHead  = 24
	cameraRead = 64 << 10
	// recordBlock is what a recorder writes at once, recordRing where it starts over.
	recordBlock = 256 << 10
	recordRing  = 4 * recordBlock
	// recordPlaces: recorders begin at so many different places of a block, so that cameras that
	// begin together do not write together ever after.
	recordPlaces = 16
	// delayBuckets is room for half an hour at delaysPerDoubling.
	delayBuckets      = 2_048
	delaysPerDoubling = 64
)

// cameras is what all cameras share.
type cameras struct {
	sink   *sink // deliveries and bytes
	work   time.Duration
	record string // directory of recordings, if any

	connections, open, frames, lost, broken atomic.Int64
	recorded, unrecorded, watched, viewers  atomic.Int64
	delays                                  [delayBuckets]atomic.Int64

	mu      sync.Mutex
	waiting map[uint32]net.Conn // viewers that wait for their camera
}

func newCameras(opts options, sink *sink) *cameras {
	return &cameras{sink: sink, work: opts.work, record: opts.record, waiting: map[uint32]net.Conn{}}
}

func (c *cameras) serve(listener net.Listener) {
	acceptEach(listener, func(conn net.Conn) {
		defer conn.Close()
		c.open.Add(1)
		defer c.open.Add(-1)
		c.camera(conn)
	})
}

// serveViewers reads which camera a viewer wants: four bytes, least first.
func (c *cameras) serveViewers(listener net.Listener) {
	acceptEach(listener, func(conn net.Conn) {
		var camera [4]byte
		if _, err := io.ReadFull(conn, camera[:]); err != nil {
			conn.Close()
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.waiting) >= connectionsMax {
			conn.Close()
			return
		}
		c.waiting[binary.LittleEndian.Uint32(camera[:])] = conn
		c.viewers.Add(1)
	})
}

func (c *cameras) camera(conn net.Conn) {
	var frames follower
	recorder := c.newRecorder()
	defer recorder.close()
	var viewer net.Conn
	var lookedAt int64
	defer func() {
		if viewer != nil {
			viewer.Close()
		}
	}()
	buffer := make([]byte, cameraRead)
	for {
		n, err := conn.Read(buffer)
		if n > 0 {
			bytes := buffer[:n]
			c.sink.deliveries.Add(1)
			c.sink.bytes.Add(int64(n))
			if !frames.take(bytes, c) {
				c.broken.Add(1)
				return
			}
			compute(c.work)
			recorder.keep(bytes)
			if viewers := c.viewers.Load(); viewer == nil && lookedAt != viewers {
				lookedAt = viewers
				viewer = c.viewerOf(&frames)
			}
			if viewer != nil {
				if _, err := viewer.Write(bytes); err != nil {
					viewer.Close()
					viewer = nil
				} else {
					c.watched.Add(int64(n))
				}
			}
		}
		if err != nil {
			return
		}
	}
}

func (c *cameras) viewerOf(frames *follower) net.Conn {
	if !frames.known {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	viewer := c.waiting[frames.camera]
	delete(c.waiting, frames.camera)
	return viewer
}

func (c *cameras) delayed(dueNS uint64) {
	us := max(0, float64(time.Now().UnixNano()-int64(dueNS))/1_000)
	bucket := int(math.Log2(math.Floor(us)+1) * delaysPerDoubling)
	c.delays[min(bucket, delayBuckets-1)].Add(1)
}

func (c *cameras) stats() map[string]any {
	delays := [][2]int64{}
	for bucket := range c.delays {
		if n := c.delays[bucket].Load(); n > 0 {
			delays = append(delays, [2]int64{int64(bucket), n})
		}
	}
	return map[string]any{
		"cameras":    c.open.Load(),
		"deliveries": c.sink.deliveries.Load(),
		"bytes":      c.sink.bytes.Load(),
		"frames":     c.frames.Load(),
		"lost":       c.lost.Load(),
		"broken":     c.broken.Load(),
		"recorded":   c.recorded.Load(),
		"unrecorded": c.unrecorded.Load(),
		"watched":    c.watched.Load(),
		"delays":     delays,
	}
}

// follower follows one camera's frames through reads of any size.
type follower struct {
	head   [frameHead]byte
	at     int
	known  bool
	camera uint32
	next   uint64
}

// take is false where the bytes are no frame, or another camera's, or an earlier one.
func (f *follower) take(bytes []byte, c *cameras) bool {
	delayed, frames := false, int64(0)
	for len(bytes) > 0 {
		if f.at < frameHead {
			n := copy(f.head[f.at:], bytes)
			f.at += n
			bytes = bytes[n:]
			if f.at == frameHead {
				if !f.begin(c) {
					return false
				}
				if !delayed {
					c.delayed(binary.LittleEndian.Uint64(f.head[16:]))
					delayed = true
				}
			}
			continue
		}
		n := min(len(bytes), frameLen-f.at)
		f.at += n
		bytes = bytes[n:]
		if f.at == frameLen {
			f.at = 0
			frames++
		}
	}
	c.frames.Add(frames)
	return true
}

func (f *follower) begin(c *cameras) bool {
	camera := binary.LittleEndian.Uint32(f.head[4:])
	number := binary.LittleEndian.Uint64(f.head[8:])
	if string(f.head[:4]) != "cam1" || f.known && camera != f.camera || number < f.next {
		return false
	}
	if number > f.next {
		c.lost.Add(int64(number - f.next))
	}
	f.known, f.camera, f.next = true, camera, number+1
	return true
}

// recorder writes a ring of blocks. One that failed keeps nothing more.
type recorder struct {
	cameras *cameras
	file    *os.File
	block   []byte
	at      int64
}

func (c *cameras) newRecorder() *recorder {
	number := c.connections.Add(1) - 1
	if c.record == "" {
		return &recorder{cameras: c}
	}
	file, err := os.Create(filepath.Join(c.record, "camera-"+strconv.FormatInt(number, 10)))
	if err != nil {
		c.unrecorded.Add(1)
		return &recorder{cameras: c}
	}
	at := number % recordPlaces * (recordBlock / recordPlaces)
	return &recorder{cameras: c, file: file, at: at, block: make([]byte, 0, recordBlock)}
}

func (r *recorder) keep(bytes []byte) {
	for r.file != nil && len(bytes) > 0 {
		room := recordBlock - int(r.at%recordBlock) - len(r.block)
		n := min(len(bytes), room)
		r.block = append(r.block, bytes[:n]...)
		bytes = bytes[n:]
		if n == room {
			r.flush()
		}
	}
}

func (r *recorder) flush() {
	if _, err := r.file.WriteAt(r.block, r.at); err != nil {
		r.cameras.unrecorded.Add(1)
		r.file.Close()
		r.file = nil
		return
	}
	r.cameras.recorded.Add(int64(len(r.block)))
	r.at = (r.at + int64(len(r.block))) % recordRing
	r.block = r.block[:0]
}

func (r *recorder) close() {
	if r.file != nil {
		r.flush()
	}
	if r.file != nil {
		r.file.Close()
	}
}
