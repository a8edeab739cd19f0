#!/usr/bin/env python3
"""Follows a txlog server while it is killed, and sees whether it keeps its promises.

It shares no code with the server: it speaks the protocol by itself, and keeps its own book of what
was sent and what was acknowledged. Clients append, each with several records under way; producers
append batches, and repeat after each kill those that were not answered, and some that were;
followers read along; the server is killed at random moments and started again. After each start the
whole log is read, and compared with the book:

- a record that was acknowledged is there, under its number, with its bytes;
- no record is there twice, and none that no client has sent;
- numbers have no gap, and the records of one connection are in the order in which it sent them;
- a batch is there as a whole, under numbers in a row, or not at all;
- a producer's records are all there in the end, each once, in their order, however often it has
  repeated them; and a batch that is repeated gets the same numbers again;
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

HELLO, APPEND, READ, BATCH = 0x01, 0x02, 0x03, 0x06
WELCOME, APPENDED, RECORDS, STORED = 0x81, 0x82, 0x83, 0x89
OF_PRODUCER, REPEATED = 2, 1
UNSUPPORTED = 31
REFUSED, FAULT = 0x85, 0x86
ANSWER_MAX = 60.0


class Broken(Exception):
    """The server did not keep a promise."""


class Connection:
    """One connection, in version 1 of the protocol or a later one."""

    def __init__(self, port, version=1):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=ANSWER_MAX)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.rest = b""
        self.send(HELLO, b"EKTL" + struct.pack("<HH", version, version))
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

    def batch(self, request, producer, number, records):
        """Sends the records, which have the producer's numbers from that one on."""
        lengths = [struct.pack("<I", len(record)) + record for record in records]
        begin = struct.pack("<QB16sQI", request, OF_PRODUCER, producer, number, len(records))
        self.send(BATCH, begin + b"".join(lengths))

    def stored(self):
        """An answer to a batch: its request, the first number, how many, whether repeated."""
        kind, fields = self.receive()
        if kind == REFUSED and struct.unpack("<QH", fields[:10])[1] == UNSUPPORTED:
            raise Broken(f"the server takes no batches of producers: {fields[10:].decode()}")
        if kind != STORED:
            raise ConnectionError(f"no batch was stored, but {kind:#x} {fields!r}")
        request, first, count, flags = struct.unpack("<QQIB", fields)
        return request, first, count, flags == REPEATED

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


class Producer:
    """Appends batches of its records, over many connections; it lives as long as the check."""

    def __init__(self, name, seed):
        self.name, self.chance = name, random.Random(seed)
        self.id = self.chance.randbytes(16)
        # How many records it has made, and those that are not acknowledged: as pairs of a number
        # and records, in the order in which they have to be repeated.
        self.made, self.under_way = 0, []
        # The last batch that was acknowledged, and its first number in the log.
        self.last = None

    def make(self, book):
        count = self.chance.choice([1, 2, 10, 100])
        records = []
        for number in range(self.made, self.made + count):
            filling = b"x" * self.chance.choice([0, 10, 100, 2_000])
            # The batch's ends are in each record, so that a reader sees whether it is whole.
            ends = f"{self.made}-{self.made + count - 1}"
            records.append(f"{self.name}/{number}/{ends}/".encode() + filling)
            book.note_sent(records[-1])
        batch = (self.made, records)
        self.made += count
        self.under_way.append(batch)
        return batch

    def append_until_cut(self, book, port):
        try:
            connection = Connection(port, version=3)
        except (OSError, ConnectionError):
            return
        try:
            self.repeat_and_append(book, connection)
        except (OSError, ConnectionError):
            return
        except Broken as broken:
            book.fail(str(broken))
        finally:
            connection.close()

    def repeat_and_append(self, book, connection):
        sent = 0
        if self.last is not None:
            (number, records), first = self.last
            connection.batch(0, self.id, number, records)
            answer = connection.stored()
            if answer != (0, first, len(records), True):
                book.fail(f"{self.name}: batch {number} was at {first}, and repeated {answer}")
        for number, records in self.under_way:
            connection.batch(number, self.id, number, records)
        sent = len(self.under_way)
        while True:
            while sent < 4:
                number, records = self.make(book)
                connection.batch(number, self.id, number, records)
                sent += 1
            request, first, count, _ = connection.stored()
            number, records = self.under_way[0]
            if (request, count) != (number, len(records)):
                book.fail(f"{self.name}: {request} with {count} was answered, not {number}")
            for place, record in enumerate(records):
                book.note(book.acknowledged, first + place, record)
            self.last = (self.under_way.pop(0), first)
            sent -= 1


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


def check_batch(log, number, count, ends):
    """The batch of a producer's record is whole, under numbers in a row."""
    first, last = (int(end) for end in ends.split(b"-"))
    for other in {first, last}:
        record = log.get(number - count + other, b"")
        if record.split(b"/")[1:3] != [str(other).encode(), ends]:
            raise Broken(f"record {number} is of a batch that is not whole: {record[:40]!r}")


def check_whole(book, port, known, producers):
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
        name, count, ends = record.split(b"/")[:3]
        if int(count) <= last.get(name, -1):
            raise Broken(f"record {number}: {count!r} of {name!r} after {last[name]}")
        if name.startswith(b"producer"):
            check_batch(log, number, int(count), ends)
            if int(count) != last.get(name, -1) + 1:
                raise Broken(f"record {number}: {count!r} of {name!r} after {last.get(name)}")
        last[name] = int(count)
    for producer in producers:
        there = last.get(producer.name.encode(), -1) + 1
        first = producer.under_way[0][0] if producer.under_way else producer.made
        if there < first:
            raise Broken(f"{producer.name} was told of {first} records, and {there} are there")
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
    producers = [
        Producer(f"producer{number}", chance.random()) for number in range(arguments.producers)
    ]
    end = time.monotonic() + arguments.seconds
    while time.monotonic() < end:
        server = Server(arguments.program, directory, arguments.option)
        try:
            known = check_whole(book, server.port, known, producers)
            threads = [
                threading.Thread(
                    target=append_until_cut,
                    args=(book, server.port, f"{kills}.{client}", chance.random()),
                )
                for client in range(arguments.clients)
            ] + [
                threading.Thread(target=producer.append_until_cut, args=(book, server.port))
                for producer in producers
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
        known = check_whole(book, server.port, known, producers)
    finally:
        server.kill()
    made = sum(producer.made for producer in producers)
    print(f"{kills} kills, {len(book.acknowledged)} records acknowledged, {made} made by "
          f"{len(producers)} producers, {len(book.seen)} seen by followers, {len(known)} in the "
          f"log: nothing is lost, doubled or out of order")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("program", help="the program txlog")
    parser.add_argument("--seconds", type=float, default=600, help="how long; 600 if not given")
    parser.add_argument("--minutes", type=float, default=None, help="how long, in minutes")
    parser.add_argument("--life", type=float, default=1.0,
                        help="seconds between two kills, on average")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--producers", type=int, default=3,
                        help="clients that append batches, and repeat them after each kill")
    parser.add_argument("--followers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=None, help="draws the same moments again")
    parser.add_argument("--option", action="append", default=[],
                        help="an option for the server, such as --option=--segment-bytes=200000")
    arguments = parser.parse_args()
    if arguments.minutes is not None:
        arguments.seconds = arguments.minutes * 60
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
