"""The clients of check.sh: `check_client.py PEER COMMAND...` exercises one peer, flag by flag.

Nothing here asserts how fast a peer is: only what it answers, and least amounts of computing.
"""

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

LOCAL = "127.0.0.1:0"
PATIENCE_S = 20
PAYLOAD = os.urandom(3_000_000)
NAME, COMMAND = sys.argv[1], sys.argv[2:]


class Peer:
    """A running peer; `services` maps each name it printed to (host, port)."""

    def __init__(self, *flags):
        self.process = subprocess.Popen(
            [*COMMAND, *flags],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.services, self.order = {}, []
        # Killed when its time is up, it ends its lines.
        late = threading.Timer(PATIENCE_S, self.process.kill)
        late.start()
        try:
            self.read_services()
        finally:
            late.cancel()

    def read_services(self):
        for line in self.process.stdout:
            if line == "ready\n":
                return
            name, address = line.split()
            host, port = address.rsplit(":", 1)
            self.order.append(name)
            self.services[name] = (host, int(port))
        self.process.kill()
        raise AssertionError("not ready: " + self.process.communicate()[1].strip())

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        alive = self.process.poll() is None
        self.process.kill()
        self.process.communicate()
        assert alive or kind is not None, "the peer died during the check"

    def connect(self, service):
        return socket.create_connection(self.services[service], timeout=PATIENCE_S)

    def get(self, service, path):
        host, port = self.services[service]
        with urllib.request.urlopen(f"http://{host}:{port}{path}", timeout=PATIENCE_S) as answer:
            return answer.read().decode()

    def json(self, path):
        return json.loads(self.get("api", path))

    def stats_until(self, holds):
        """The first /stats of which `holds` is true; its `cpu_s` is that of all calls made."""
        deadline, cpu_s = time.monotonic() + PATIENCE_S, 0
        while True:
            stats = self.json("/stats")
            cpu_s = stats["cpu_s"] = stats["cpu_s"] + cpu_s
            if holds(stats):
                return stats
            assert time.monotonic() < deadline, f"still {stats}"
            time.sleep(0.05)


def there_and_back(connection, payload):
    """Sends all, says so, and reads to the end: a half-closed connection must still answer."""
    back = bytearray()

    def read():
        while part := connection.recv(65536):
            back.extend(part)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    connection.sendall(payload)
    connection.shutdown(socket.SHUT_WR)
    reader.join(PATIENCE_S)
    connection.close()
    assert bytes(back) == payload, f"{len(back)} of {len(payload)} bytes came back, or other ones"


def reset(connection):
    """Ends a connection in the rudest way there is."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def read_response(stream):
    status, headers = stream.readline(), {}
    while (line := stream.readline().strip()) != b"":
        key, value = line.split(b":", 1)
        headers[key.lower()] = value.strip()
    return status, headers, stream.read(int(headers[b"content-length"]))


def echo():
    """--echo: 3 MB there and back over a connection that is half closed"""
    with Peer("--echo", LOCAL) as peer:
        assert peer.order == ["echo"]
        there_and_back(peer.connect("echo"), PAYLOAD)


def echo_many():
    """--echo: 200 connections at once, each its own bytes"""
    with Peer("--echo", LOCAL) as peer:
        connections = [peer.connect("echo") for _ in range(200)]
        for index, connection in enumerate(connections):
            connection.sendall(index.to_bytes(4, "big"))
        for index, connection in enumerate(connections):
            assert connection.recv(4, socket.MSG_WAITALL) == index.to_bytes(4, "big")
            connection.close()


def all_at_once():
    """all services together: one line each, in order, then ready"""
    flags = [flag for name in ("echo", "sink", "http", "api") for flag in ("--" + name, LOCAL)]
    with Peer(*flags, "--work", LOCAL, "--proxy", LOCAL + "=127.0.0.1:9") as peer:
        assert peer.order == ["echo", "sink", "http", "api", "proxy", "work"], peer.order
        assert all(port > 0 for _, port in peer.services.values())


def sink():
    """--sink: 3 MB read and counted, not one byte lost, the connection given back"""
    with Peer("--sink", LOCAL, "--api", LOCAL) as peer:
        connection = peer.connect("sink")
        connection.sendall(PAYLOAD)
        peer.stats_until(lambda stats: stats["bytes"] == len(PAYLOAD))
        assert peer.json("/stats")["sink_connections"] == 1
        connection.close()
        stats = peer.stats_until(lambda stats: stats["sink_connections"] == 0)
        assert 0 < stats["deliveries"] <= len(PAYLOAD)


def buffer():
    """--buffer: no delivery is larger than the buffer"""
    with Peer("--sink", LOCAL, "--api", LOCAL, "--buffer", "1000") as peer:
        with peer.connect("sink") as connection:
            connection.sendall(PAYLOAD[:100_000])
            stats = peer.stats_until(lambda stats: stats["bytes"] == 100_000)
        assert stats["deliveries"] >= 100, stats


def work():
    """--work-us: five deliveries of 20 ms use 100 ms of processor"""
    with Peer("--sink", LOCAL, "--api", LOCAL, "--work-us", "20000") as peer:
        used = 0
        with peer.connect("sink") as connection:
            for count in range(1, 6):
                connection.sendall(b"x")
                used += peer.stats_until(lambda stats: stats["deliveries"] == count)["cpu_s"]
        time.sleep(0.2)
        used += peer.json("/stats")["cpu_s"]
        assert used >= 0.09, f"{used} s"


def frames(camera, numbers):
    heads = (struct.pack("<4sIQQ", b"cam1", camera, number, 0) for number in numbers)
    return b"".join(head + bytes([number % 251]) * 1436 for head, number in zip(heads, numbers))


def camera_until(peer, holds):
    deadline = time.monotonic() + PATIENCE_S
    while True:
        stats = peer.json("/camera")
        if holds(stats):
            return stats
        assert time.monotonic() < deadline, f"still {stats}"
        time.sleep(0.05)


def camera():
    """--camera, --watch, --record: frames are checked, recorded, passed on"""
    flags = ("--camera", LOCAL, "--watch", LOCAL, "--api", LOCAL)
    modes = ((), ("--mode", "once"), ("--mode", "defer:20")) if NAME == "erlang" else ((),)
    for mode in modes:
        with tempfile.TemporaryDirectory() as records:
            with Peer(*flags, "--record", records, *mode) as peer:
                sent = frames(5, range(1000))
                viewer = peer.connect("watch")
                viewer.sendall(struct.pack("<I", 5))
                time.sleep(0.2)
                with peer.connect("camera") as connection:
                    for start in range(0, len(sent), 7_777):
                        connection.sendall(sent[start : start + 7_777])
                seen = viewer.makefile("rb").read()
                assert seen == sent, f"{len(seen)} of {len(sent)} bytes"
                stats = camera_until(peer, lambda stats: stats["cameras"] == 0)
                assert (stats["frames"], stats["lost"], stats["broken"]) == (1000, 0, 0), stats
                assert stats["recorded"] == stats["bytes"] == len(sent), stats
                assert 0 < sum(n for _, n in stats["delays"]) <= stats["deliveries"], stats
                (name,) = os.listdir(records)
                length = os.path.getsize(os.path.join(records, name))
                assert 900_000 < length < 1_400_000, f"a ring of {length} bytes"


def camera_broken():
    """--camera: gaps are counted, and who sends no frames is hung up on"""
    with Peer("--camera", LOCAL, "--api", LOCAL) as peer:
        with peer.connect("camera") as connection:
            for byte in frames(1, [0, 3, 4])[:3000]:
                connection.sendall(bytes([byte]))
            camera_until(peer, lambda stats: stats["lost"] == 2 and stats["frames"] == 2)
        for noise in (b"no frame" * 200, frames(1, [0, 0]), frames(1, [0]) + frames(2, [1])):
            before = peer.json("/camera")["broken"]
            with peer.connect("camera") as connection:
                connection.sendall(noise)
                camera_until(peer, lambda stats: stats["broken"] == before + 1)


def fsync():
    """--fsync, --fsync-bytes, --fsync-writers, --stat: writers sync, and /stat tells how often"""
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "written")
        flags = ("--fsync", path, "--fsync-bytes", "5000", "--fsync-writers", "3")
        with Peer("--api", LOCAL, *flags, "--stat", __file__) as peer:
            deadline = time.monotonic() + PATIENCE_S
            while (stats := peer.json("/stat"))["syncs"] < 10:
                assert time.monotonic() < deadline, stats
                time.sleep(0.05)
            assert stats["length"] == os.path.getsize(__file__), stats
            assert stats["sync_us"] > 0 and stats["failed"] == stats["hanging"] == 0, stats
            assert [os.path.getsize(f"{path}.{n}") for n in range(3)] == [5000] * 3


def hang():
    """--hang, --hang-opens: opens that never return, and the echo still answers"""
    with tempfile.TemporaryDirectory() as directory:
        fifo = os.path.join(directory, "fifo")
        os.mkfifo(fifo)
        with Peer("--echo", LOCAL, "--api", LOCAL, "--hang", fifo, "--hang-opens", "4") as peer:
            there_and_back(peer.connect("echo"), b"hello")
            deadline = time.monotonic() + PATIENCE_S
            while (stats := peer.json("/stat"))["hanging"] < 4:
                assert time.monotonic() < deadline, stats
                time.sleep(0.05)


def log():
    """--log, --log-path: appends are acknowledged one by one, anything else is hung up on"""
    hello = struct.pack("<IB4sHH", 9, 1, b"EKTL", 1, 1)
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "log")
        with Peer("--log", LOCAL, "--log-path", path) as peer:
            with peer.connect("log") as connection:
                stream = connection.makefile("rb")
                connection.sendall(hello)
                assert stream.read(7)[4:] == b"\x81\x01\x00" and len(stream.read(24)) == 24
                for id in range(5):
                    connection.sendall(struct.pack("<IBQ", 9 + id, 2, id) + b"r" * id)
                    length, kind, answered, _ = struct.unpack("<IBQQ", stream.read(21))
                    assert (length, kind, answered) == (17, 0x82, id), (length, kind, answered)
            assert os.path.getsize(path) == 10
            for noise in (b"no hello here", hello + struct.pack("<IBQ", 9, 3, 0)):
                with peer.connect("log") as connection:
                    connection.sendall(noise)
                    assert len(connection.makefile("rb").read()) in (0, 31)


def http():
    """--http: GET / is 200, twice on one connection, then Connection: close closes"""
    with Peer("--http", LOCAL) as peer, peer.connect("http") as connection:
        stream = connection.makefile("rb")
        for extra in (b"", b"", b"Connection: close\r\n"):
            connection.sendall(b"GET / HTTP/1.1\r\nHost: lab\r\n" + extra + b"\r\n")
            status, _, body = read_response(stream)
            assert status.startswith(b"HTTP/1.1 200 ") and 0 < len(body) < 100, status
        assert stream.read() == b"", "the connection should be closed"


def http_pipelined():
    """--http: two requests in one segment get two answers, HTTP/1.0 is closed after one"""
    with Peer("--http", LOCAL) as peer:
        with peer.connect("http") as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: lab\r\n\r\n" * 2)
            stream = connection.makefile("rb")
            assert all(read_response(stream)[0].startswith(b"HTTP/1.1 200 ") for _ in range(2))
        with peer.connect("http") as connection:
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            assert b" 200 " in connection.makefile("rb").read().split(b"\r\n")[0]


def http_refuses():
    """--http: an unknown path is 404, garbage and endless headers are refused, others served"""
    with Peer("--http", LOCAL) as peer:
        try:
            peer.get("http", "/nothing/here")
            raise AssertionError("404 was due")
        except urllib.error.HTTPError as error:
            assert error.code == 404, error.code
        endless = b"GET / HTTP/1.1\r\n" + b"X-Filler: " + b"y" * 60_000 + b"\r\n\r\n"
        for garbage in (b"\x16\x03\x01\x02\x00\r\n\r\n", b"GET\r\n\r\n", endless):
            with peer.connect("http") as connection:
                try:
                    connection.sendall(garbage)
                    answer = connection.makefile("rb").read()
                    assert b" 200 " not in answer[:20], answer[:40]
                except ConnectionError:
                    pass
        assert peer.get("http", "/")


def parse():
    """--api, --api-us: /parse takes what it must, and tells what the sink saw meanwhile"""
    with Peer("--sink", LOCAL, "--api", LOCAL, "--api-us", "50000") as peer:
        assert peer.json("/parse")["deliveries_per_s"] == 0
        with peer.connect("sink") as connection:
            stop = threading.Event()

            def send():
                while not stop.wait(0.002):
                    connection.sendall(b"x" * 1460)

            sender = threading.Thread(target=send)
            sender.start()
            answer = peer.json("/parse")
            stop.set()
            sender.join()
        assert answer["took_us"] >= 49_000, answer
        assert answer["deliveries_per_s"] > 0 and answer["bytes_per_delivery"] >= 1460, answer


def stats():
    """--api: /stats names the peer, its workers and what they used since the last call"""
    with Peer("--api", LOCAL, "--api-us", "100000") as peer:
        peer.json("/stats")
        peer.json("/parse")
        stats = peer.json("/stats")
        assert stats["peer"] == NAME and stats["workers"] >= 1, stats
        assert 0.08 <= stats["cpu_s"] and 0 < stats["cpu_share"] <= 1.2, stats
        if NAME == "erlang":
            assert stats["busy_wait"] == "none", stats
            assert 0 < stats["utilisation"] <= 1, stats


def workers():
    """--workers: as many as asked for"""
    for count in (1, 2):
        with Peer("--api", LOCAL, "--workers", str(count)) as peer:
            assert peer.json("/stats")["workers"] == count


def proxy():
    """--proxy: 3 MB through it and back, half closes passed on; 100 connections at once"""
    with Peer("--echo", LOCAL) as target:
        host, port = target.services["echo"]
        with Peer("--proxy", f"{LOCAL}={host}:{port}") as peer:
            there_and_back(peer.connect("proxy"), PAYLOAD)
            connections = [peer.connect("proxy") for _ in range(100)]
            for connection in connections:
                there_and_back(connection, b"hello")


def proxy_unreachable():
    """--proxy: a target that refuses ends the client's connection, and nothing else"""
    with Peer("--proxy", LOCAL + "=127.0.0.1:9", "--echo", LOCAL) as peer:
        for _ in range(3):
            with peer.connect("proxy") as connection:
                try:
                    assert connection.recv(1) == b""
                except ConnectionError:
                    pass
        there_and_back(peer.connect("echo"), b"still here")


def hogs():
    """--hogs, --hog-poll-us: they compute, and the echo still answers"""
    with Peer("--echo", LOCAL, "--api", LOCAL, "--hogs", "4", "--hog-poll-us", "500") as peer:
        there_and_back(peer.connect("echo"), b"hello")
        assert peer.stats_until(lambda stats: stats["cpu_s"] > 0.01)


def hogs_never():
    """--hog-poll-us never: even those, since this runtime preempts"""
    with Peer("--echo", LOCAL, "--api", LOCAL, "--hogs", "4", "--hog-poll-us", "never") as peer:
        there_and_back(peer.connect("echo"), b"hello")
        assert peer.stats_until(lambda stats: stats["cpu_s"] > 0.01)


def work_done(peer):
    with peer.connect("work") as connection:
        return json.loads(connection.makefile("rb").read())


def counted():
    """--work: what hogs compute is counted, also by one that never yields"""
    for poll in ("500", "never"):
        flags = ("--echo", LOCAL, "--work", LOCAL, "--hogs", "1", "--hog-poll-us", poll)
        with Peer(*flags) as peer:
            before = work_done(peer)
            time.sleep(0.3)
            after = work_done(peer)
            assert after["at_us"] - before["at_us"] >= 300_000, (before, after)
            done = after["work_us"] - before["work_us"]
            assert 0 < done <= 1.1 * (after["at_us"] - before["at_us"]), (before, after)


def burn():
    """--burn: so many a second, each its length"""
    with Peer("--echo", LOCAL, "--work", LOCAL, "--burn", "20:5000") as peer:
        before = work_done(peer)
        time.sleep(0.5)
        after = work_done(peer)
        share = (after["work_us"] - before["work_us"]) / (after["at_us"] - before["at_us"])
        assert 0.03 <= share <= 0.2, f"{share} of a core, 0.1 was asked for"


def mixed():
    """--mixed, --apart, --post-us: GET is answered at once, POST after its computing"""
    flags = ("--mixed", LOCAL, "--apart", LOCAL, "--post-us", "30000")
    with Peer(*flags) as peer:
        for service in ("mixed", "apart"):
            with peer.connect(service) as connection:
                stream = connection.makefile("rb")
                for method, body in ((b"GET", b"at once\n"), (b"POST", b"computed\n")):
                    began = time.monotonic()
                    connection.sendall(
                        method + b" / HTTP/1.1\r\nHost: lab\r\nContent-Length: 0\r\n\r\n"
                    )
                    status, _, answer = read_response(stream)
                    assert status.startswith(b"HTTP/1.1 200 ") and answer == body, answer
                    if method == b"POST":
                        assert time.monotonic() - began >= 0.02


def mixed_h2():
    """--mixed-h2, --apart-h2: HTTP/2 without TLS"""
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex("000000040000000000")
    with Peer("--mixed-h2", LOCAL, "--apart-h2", LOCAL) as peer:
        for service in ("mixed-h2", "apart-h2"):
            with peer.connect(service) as connection:
                connection.sendall(preface)
                # The server's own settings are its first frame.
                assert connection.makefile("rb").read(9)[3] == 4


def fresh():
    """--fresh, --waits: each task's moments, in order"""
    flags = ("--fresh", "500", "--fresh-hog-us", "1000", "--fresh-apart", "--waits", LOCAL)
    with Peer(*flags) as peer:
        time.sleep(0.3)
        with peer.connect("waits") as connection:
            told = json.loads(connection.makefile("rb").read())
        assert told["at_us"] >= 300_000 and len(told["tasks"]) >= 100, told["at_us"]
        ran = [task for task in told["tasks"] if task[3] is not None]
        assert all(due <= spawned <= ran for _, due, spawned, ran in ran)
        assert {kind for kind, *_ in ran} == {"hog", "innocent", "urgent"}
        five = [kind for kind, *_ in told["tasks"][:5]]
        assert five == ["hog", "innocent", "urgent", "innocent", "innocent"], five


def block():
    """--block: goroutines that hold their threads hold up nobody else"""
    flags = ("--block", LOCAL, "--block-tasks", "40", "--block-us", "500000")
    with Peer("--echo", LOCAL, *flags) as peer:
        with peer.connect("block") as connection:
            assert connection.makefile("rb").read() == b"!"
        there_and_back(peer.connect("echo"), b"meanwhile")


def busy_wait():
    """--busy-wait: a warning, no more"""
    with Peer("--echo", LOCAL, "--busy-wait", "very_long") as peer:
        there_and_back(peer.connect("echo"), b"hello")
        peer.process.send_signal(signal.SIGTERM)
        assert "--busy-wait very_long" in peer.process.communicate(timeout=PATIENCE_S)[1]
        raise SystemExit  # It ended as it was told to: not a death during the check.


def mode():
    """--mode once, true, N, defer:MS: each reads all there is"""
    for mode in ("once", "true", "7", "defer:20"):
        with Peer("--sink", LOCAL, "--api", LOCAL, "--mode", mode) as peer:
            with peer.connect("sink") as connection:
                for start in range(0, 30_000, 1_000):
                    connection.sendall(PAYLOAD[start : start + 1_000])
                peer.stats_until(lambda stats: stats["bytes"] == 30_000)


def rude_peers():
    """every service outlives clients that reset their connections in the middle"""
    flags = [flag for name in ("echo", "sink", "http", "api") for flag in ("--" + name, LOCAL)]
    with Peer("--echo", LOCAL) as target:
        host, port = target.services["echo"]
        with Peer(*flags, "--proxy", f"{LOCAL}={host}:{port}") as peer:
            for _ in range(20):
                for service in peer.order:
                    connection = peer.connect(service)
                    connection.sendall(b"GET / HTTP/1.1\r\nHost")
                    reset(connection)
            there_and_back(peer.connect("proxy"), b"still here")
            assert peer.get("http", "/")
            peer.stats_until(lambda stats: stats["sink_connections"] == 0)


def exit_with_parent():
    """--exit-with-parent: standard input ends, and so does the peer"""
    peer = Peer("--echo", LOCAL, "--exit-with-parent")
    peer.process.stdin.write("a word is no end\n")
    peer.process.stdin.flush()
    time.sleep(0.3)
    assert peer.process.poll() is None
    peer.process.stdin.close()
    assert peer.process.wait(PATIENCE_S) == 0


def signals():
    """SIGTERM and SIGINT end it, hogs or not"""
    for number in (signal.SIGTERM, signal.SIGINT):
        peer = Peer("--echo", LOCAL, "--hogs", "2", "--hog-poll-us", "never")
        peer.process.send_signal(number)
        status = peer.process.wait(PATIENCE_S)
        assert status in (0, -signal.SIGINT), status


def mistakes():
    """what cannot be is refused with status 2 and a reason"""
    with Peer("--echo", LOCAL) as other:
        taken = "{}:{}".format(*other.services["echo"])
        for flags in (
            ["--no-such-flag"],
            ["--hogs", "2"],
            ["--echo", "nonsense"],
            ["--echo", taken],
            ["--echo", LOCAL, "--hogs", "-1"],
            ["--echo", LOCAL, "--hog-poll-us", "soon"],
            ["--echo", LOCAL, "--burn", "50"],
            ["--echo", LOCAL, "--burn", "0:20"],
            ["--proxy", LOCAL],
            ["--log", LOCAL],
            ["--fresh", "5"],
            ["--mixed", LOCAL, "--post-us", "-1"],
            ["--echo", LOCAL, "--fsync-writers", "0"],
        ):
            done = subprocess.run(
                [*COMMAND, *flags],
                capture_output=True,
                timeout=PATIENCE_S,
                stdin=subprocess.DEVNULL,
            )
            assert done.returncode == 2 and done.stderr, (flags, done)


CHECKS = [
    all_at_once, echo, echo_many, sink, buffer, work, camera, camera_broken, fsync, hang,
    log, http, mixed, fresh,
    http_pipelined, http_refuses, parse, stats, workers, proxy, proxy_unreachable, hogs, hogs_never, counted, burn, busy_wait,
    rude_peers, exit_with_parent, signals, mistakes,
]
if NAME == "erlang":
    CHECKS.insert(5, mode)
else:
    CHECKS[5:5] = [mixed_h2, block]


def main():
    failures = 0
    for check in CHECKS:
        try:
            check()
            result = "ok"
        except SystemExit:
            result = "ok"
        except Exception as error:  # whatever it is, the other checks still run
            result, failures = f"FAILED  {type(error).__name__}: {error}", failures + 1
        what, _, reason = result.partition("  ")
        print(f"{NAME:7} {what:8} {check.__doc__}", flush=True)
        if reason:
            print("        " + reason, flush=True)
    return 1 if failures else 0


sys.exit(main())
