package main

import (
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	fsyncBytesMax = 64 << 20
	diskTasksMax  = 10_000
	recordMax     = 1 << 20
	logFileMax    = 256 << 20
)

// hello, and the rest of what appending needs of the log server's protocol: a frame is its length
// in four bytes, then so many bytes, all integers least byte first.
const (
	logHello                              = "\x09\x00\x00\x00\x01EKTL\x01\x00\x01\x00"
	kindAppend, kindWelcome, kindAppended = 0x02, 0x81, 0x82
)

// diskOptions is disk work beside the services.
type diskOptions struct {
	fsync        string
	fsyncBytes   int
	fsyncWriters int
	hang         string
	hangOpens    int
	stat         string
	log, logPath string
}

// disk is where it stands.
type disk struct {
	opts                           diskOptions
	syncs, syncUS, failed, hanging atomic.Int64

	mu      sync.Mutex // guards the log
	file    *os.File
	at      int64
	records uint64
}

func (o *diskOptions) flags(set *flag.FlagSet) {
	set.StringVar(&o.fsync, "fsync", "", "`PATH`: writers, each to PATH.N, that sync for ever")
	set.IntVar(&o.fsyncBytes, "fsync-bytes", 4_096, "bytes of each of these writes")
	set.IntVar(&o.fsyncWriters, "fsync-writers", 1, "how many such writers")
	set.StringVar(&o.hang, "hang", "", "`PATH`: a FIFO that is opened and that nobody writes to")
	set.IntVar(&o.hangOpens, "hang-opens", 1, "how many such opens")
	set.StringVar(&o.stat, "stat", "", "`PATH`: the file that GET /stat is about")
	set.StringVar(&o.log, "log", "", "`ADDR`: a log that syncs each record")
	set.StringVar(&o.logPath, "log-path", "", "`PATH`: the file of that log")
}

func (o *diskOptions) check() error {
	if err := within("fsync-bytes", o.fsyncBytes, 1, fsyncBytesMax); err != nil {
		return err
	}
	if err := within("fsync-writers", o.fsyncWriters, 1, diskTasksMax); err != nil {
		return err
	}
	if err := within("hang-opens", o.hangOpens, 1, diskTasksMax); err != nil {
		return err
	}
	if (o.log == "") != (o.logPath == "") {
		return fmt.Errorf("--log and --log-path go together")
	}
	if o.stat == "" {
		program, err := os.Executable()
		if err != nil {
			return fmt.Errorf("give --stat: this program cannot be found: %w", err)
		}
		o.stat = program
	}
	return nil
}

func newDisk(opts diskOptions) (*disk, error) {
	d := &disk{opts: opts}
	if opts.logPath == "" {
		return d, nil
	}
	file, err := os.Create(opts.logPath)
	if err != nil {
		return nil, fmt.Errorf("--log-path: %w", err)
	}
	d.file = file
	return d, nil
}

// start lets writers and opens loose.
func (d *disk) start() {
	if d.opts.fsync != "" {
		for writer := range d.opts.fsyncWriters {
			go func() {
				err := d.write(d.opts.fsync + "." + strconv.Itoa(writer))
				d.failed.Add(1)
				logSometimes("fsync: writer %d ends: %v", writer, err)
			}()
		}
	}
	if d.opts.hang != "" {
		for range d.opts.hangOpens {
			go func() {
				d.hanging.Add(1)
				defer d.hanging.Add(-1)
				if file, err := os.Open(d.opts.hang); err == nil {
					file.Close()
				}
			}()
		}
	}
}

// write writes the same bytes at the same place, and syncs them, until that fails.
func (d *disk) write(path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	bytes := make([]byte, d.opts.fsyncBytes)
	for {
		if _, err := file.WriteAt(bytes, 0); err != nil {
			return err
		}
		begun := time.Now()
		if err := file.Sync(); err != nil {
			return err
		}
		d.syncUS.Add(time.Since(begun).Microseconds())
		d.syncs.Add(1)
	}
}

// syncData is fdatasync, which package os does not have.
func syncData(file *os.File) error {
	for {
		if err := syscall.Fdatasync(int(file.Fd())); err != syscall.EINTR {
			return err
		}
	}
}

func (d *disk) stats() (map[string]any, error) {
	begun := time.Now()
	info, err := os.Stat(d.opts.stat)
	if err != nil {
		return nil, err
	}
	return map[string]any{
		"took_us": time.Since(begun).Microseconds(),
		"length":  info.Size(),
		"syncs":   d.syncs.Load(),
		"sync_us": d.syncUS.Load(),
		"failed":  d.failed.Load(),
		"hanging": d.hanging.Load(),
	}, nil
}

func (d *disk) serveLog(listener net.Listener) {
	acceptEach(listener, func(conn net.Conn) {
		defer conn.Close()
		hello := make([]byte, len(logHello))
		if _, err := io.ReadFull(conn, hello); err != nil || string(hello) != logHello {
			return
		}
		welcome := make([]byte, 31)
		welcome[0], welcome[4], welcome[5], welcome[11] = 27, kindWelcome, 1, 1
		binary.LittleEndian.PutUint32(welcome[7:], recordMax)
		if _, err := conn.Write(welcome); err != nil {
			return
		}
		head := make([]byte, 13)
		for {
			if _, err := io.ReadFull(conn, head); err != nil {
				return
			}
			length := int64(binary.LittleEndian.Uint32(head)) - 9
			if head[4] != kindAppend || length < 0 || length > recordMax {
				return
			}
			record := make([]byte, length)
			if _, err := io.ReadFull(conn, record); err != nil {
				return
			}
			sequence, err := d.append(record)
			if err != nil {
				logSometimes("log: %v", err)
				return
			}
			appended := make([]byte, 21)
			appended[0], appended[4] = 17, kindAppended
			copy(appended[5:], head[5:])
			binary.LittleEndian.PutUint64(appended[13:], sequence)
			if _, err := conn.Write(appended); err != nil {
				return
			}
		}
	})
}

// append gives the record's number once it is durable.
func (d *disk) append(record []byte) (uint64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.file.WriteAt(record, d.at); err != nil {
		return 0, err
	}
	if err := syncData(d.file); err != nil {
		return 0, err
	}
	d.at = (d.at + int64(len(record))) % logFileMax
	d.records++
	return d.records, nil
}
