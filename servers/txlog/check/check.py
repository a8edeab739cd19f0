#!/usr/bin/env python3
"""Follows a txlog server while it is killed, and sees whether it keeps its promises.

It shares no code with the server: it speaks the protocol by itself, and keeps its own book of what
was sent and what was acknowledged. Clients append, each with several records under way; followers
read along; the server is killed at random moments and started again. After each start the whole
log is read, and compared with the book:

- a record that was acknowledged is there, under its number, with its bytes;
- no record is there twice, and none that no client has sent;
- numbers have no gap, and the records of one connection are in the order in which it sent them;
- what a follower has seen is there later, the same, and it has seen no number twice.

It prints a line for each kill, and ends with exit code 0, or with 1 and what was broken. The log is
kept then. Only loopback is used, and the server is the only process that it ends.
"""

import argparse
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

HELLO, APPEND, READ = 0x01, 0x02, 0x03
WELCOME, APPENDED, RECORDS = 0x81, 0x82, 0x83
REFUSED, FAULT = 0x85, 0x86
ANSWER_MAX = 60.0


class Broken(Exception):
    """The server did not keep a promise."""


class Connection:
    """One connection, in version 1 of the protocol."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=ANSWER_MAX)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.rest = b""
        self.send(HELLO, b"EKTL" + struct.pack("<HH", 1, 1))
        kind, fields = self.receive()
        if kind != WELCOME:
            raise ConnectionError(f"no welcome, but {kind:#x} {fields!r}")
        self.version, self.record_max, self.appends_max, self.first, self.next = struct.unpack(
            "<HIIQQ", fields[:26]
        )

    def send(self, kind, fields):
        self.socket.sendall(struct.pack("<IB", 1 + len(fields), kind) + fields)

    def receive(self):
        length = struct.unpack("<I", self.take(4))[0]
        frame = self.take(length)
        return frame[0], frame[1:]

    def take(self, count):
        while len(self.rest) < count:
            more = self.socket.recv(1 << 18)
            if not more:
                raise ConnectionError("the server closed the connection")
            self.rest += more
        taken, self.rest = self.rest[:count], self.rest[count:]
        return taken

    def read(self, start, wait_ms):
        """Records from a number on, as pairs of number and bytes, and where to read on."""
        self.send(READ, struct.pack("<QQIII", 1, start, 10_000, 1 << 20, wait_ms))
        kind, fields = self.receive()
        if kind != RECORDS:
            raise ConnectionError(f"no records, but {kind:#x} {fields!r}")
        _, following, count = struct.unpack("<QQI", fields[:20])
        at, records = 20, []
        for _ in range(count):
            number, _, length = struct.unpack("<QQI", fields[at : at + 20])
            records.append((number, fields[at + 20 : at + 20 + length]))
            at += 20 + length
        return records, following

    def close(self):
        try:
            self.socket.close()
        except OSError:
            pass


class Book:
    """What was sent, acknowledged and seen."""

    def __init__(self):
        self.lock = threading.Lock()
        self.sent = set()
        self.acknowledged = {}
        self.seen = {}
        self.broken = None

    def note_sent(self, record):
        with self.lock:
            self.sent.add(record)

    def note(self, book, number, record):
        with self.lock:
            before = book.setdefault(number, record)
        if before != record:
            self.fail(f"number {number} was {before!r}, and then {record!r}")

    def fail(self, what):
        with self.lock:
            self.broken = self.broken or what


def append_until_cut(book, port, name, seed):
    """Appends records with several under way, until the connection ends."""
    chance = random.Random(seed)
    try:
        connection = Connection(port)
    except (OSError, ConnectionError):
        return
    window = chance.choice([1, 8, 64])
    under_way, count = [], 0
    try:
        while True:
            while len(under_way) < window:
                filling = b"x" * chance.choice([0, 10, 100, 1_000, 20_000])
                record = f"{name}/{count}/".encode() + filling
                book.note_sent(record)
                under_way.append((count, record))
                connection.send(APPEND, struct.pack("<Q", count) + record)
                count += 1
            kind, fields = connection.receive()
            if kind != APPENDED:
                return
            answered, number = struct.unpack("<QQ", fields)
            expected, record = under_way.pop(0)
            if answered != expected:
                book.fail(f"{name}: append {answered} was answered before {expected}")
            book.note(book.acknowledged, number, record)
    except (OSError, ConnectionError):
        return
    finally:
        connection.close()


def follow_until_cut(book, port):
    """Reads along from the end that there is now."""
    try:
        connection = Connection(port)
        at = connection.next
        while True:
            records, at_next = connection.read(at, 1_000)
            for place, (number, record) in enumerate(records):
                if number != at + place:
                    book.fail(f"a follower asked for {at + place} and got {number}")
                book.note(book.seen, number, record)
            at = at_next
    except (OSError, ConnectionError):
        return


def check_whole(book, port, known):
    """Reads the log, and compares it with the book. `known` is what earlier reads were of."""
    connection = Connection(port)
    log, at = {}, connection.first
    if connection.first != 1:
        raise Broken(f"the log begins with {connection.first}, though nothing was to be removed")
    while at < connection.next:
        records, following = connection.read(at, 0)
        if not records:
            raise Broken(f"no record at {at}, though the next is {connection.next}")
        for number, record in records:
            if number != at:
                raise Broken(f"record {number} where {at} has to be")
            log[number] = record
            at += 1
        if following != at:
            raise Broken(f"to be read on at {following}, after {at - 1}")
    connection.close()
    with book.lock:
        sent, acknowledged, seen = book.sent, dict(book.acknowledged), dict(book.seen)
        broken = book.broken
    if broken:
        raise Broken(broken)
    for what, numbers in (("acknowledged", acknowledged), ("seen by a follower", seen),
                          ("there after an earlier start", known)):
        for number, record in numbers.items():
            if log.get(number) != record:
                there = log.get(number)
                raise Broken(f"record {number} was {what}: {record[:40]!r}; now {there!r:.60}")
    twice, last = set(), {}
    for number in range(1, connection.next):
        record = log[number]
        if record not in sent:
            raise Broken(f"record {number} was sent by nobody: {record[:40]!r}")
        if record in twice:
            raise Broken(f"record {number} is there twice: {record[:40]!r}")
        twice.add(record)
        name, count = record.split(b"/")[:2]
        if int(count) <= last.get(name, -1):
            raise Broken(f"record {number}: {count!r} of {name!r} after {last[name]}")
        last[name] = int(count)
    return log


class Server:
    """The program, on a free port."""

    def __init__(self, program, directory, options):
        arguments = [program, "serve", "--dir", directory, "--listen", "127.0.0.1:0", *options]
        self.child = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        line = self.child.stdout.readline().decode()
        if not line.startswith("listening on "):
            complaint = self.child.stderr.read().decode()
            raise Broken(f"the server did not start: {line}{complaint}")
        self.port = int(line.rsplit(":", 1)[1])

    def kill(self):
        self.child.send_signal(signal.SIGKILL)
        self.child.wait()
        self.child.stdout.close()
        self.child.stderr.close()


def run(arguments, directory):
    chance = random.Random(arguments.seed)
    book, known, kills = Book(), {}, 0
    end = time.monotonic() + arguments.seconds
    while time.monotonic() < end:
        server = Server(arguments.program, directory, arguments.option)
        try:
            known = check_whole(book, server.port, known)
            threads = [
                threading.Thread(
                    target=append_until_cut,
                    args=(book, server.port, f"{kills}.{client}", chance.random()),
                )
                for client in range(arguments.clients)
            ] + [
                threading.Thread(target=follow_until_cut, args=(book, server.port))
                for _ in range(arguments.followers)
            ]
            for thread in threads:
                thread.start()
            # Most kills hit a server that has just begun, which has the most to lose.
            time.sleep(chance.expovariate(1 / arguments.life))
        finally:
            server.kill()
        for thread in threads:
            thread.join()
        kills += 1
        print(f"kill {kills}: {len(known)} records were there, {len(book.acknowledged)} "
              f"acknowledged so far", flush=True)
        if book.broken:
            raise Broken(book.broken)
    server = Server(arguments.program, directory, arguments.option)
    try:
        known = check_whole(book, server.port, known)
    finally:
        server.kill()
    print(f"{kills} kills, {len(book.acknowledged)} records acknowledged, {len(book.seen)} seen by "
          f"followers, {len(known)} in the log: nothing is lost, doubled or out of order")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("program", help="the program txlog")
    parser.add_argument("--seconds", type=float, default=600, help="how long; 600 if not given")
    parser.add_argument("--life", type=float, default=1.0,
                        help="seconds between two kills, on average")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--followers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=None, help="draws the same moments again")
    parser.add_argument("--option", action="append", default=[],
                        help="an option for the server, such as --option=--segment-bytes=200000")
    arguments = parser.parse_args()
    if arguments.seed is None:
        arguments.seed = random.randrange(1 << 32)
    print(f"seed {arguments.seed}", flush=True)
    directory = tempfile.mkdtemp(prefix="txlog-check-")
    try:
        run(arguments, os.path.join(directory, "log"))
    except Broken as broken:
        print(f"BROKEN: {broken}; the log is kept in {directory}", file=sys.stderr)
        return 1
    shutil.rmtree(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
