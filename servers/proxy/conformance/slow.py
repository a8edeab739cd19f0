#!/usr/bin/env python3
"""Attacks evenkeel-proxy by slow clients, by slowhttptest, and says whether others are served.

    servers/proxy/conformance/slow.py --proxy target/debug/evenkeel-proxy

Slow heads, slow bodies and slow reading, each by some hundred connections that begin at once and
for longer than the proxy's patience. Meanwhile another client asks ten times a second; all of its
answers have to come. So that the server is not blamed on the proxy, it is asked directly, too. At
the end no connection of the attack may be left. Everything is on the loopback. Needs slowhttptest (Debian's package of this name).
"""

import argparse
import http.client
import http.server
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
# The proxy gives up after a second, and the attack goes on for longer.
CONFIG = """
[process]
admin_socket = "{directory}/admin"
connections_max = 4000
[listener.web]
bind = "127.0.0.1:0"
mode = "http"
pool = "app"
connections_per_client_max = 4000
timeouts = {{ head = "1s", body = "1s", keep_alive = "1s" }}
[pool.app]
[[pool.app.server]]
name = "one"
address = "127.0.0.1:{port}"
"""
ATTACKS = {
    "slow heads": ["-H", "-i", "1"],
    "slow bodies": ["-B", "-i", "1", "-s", "8192"],
    "ranges": ["-R", "-a", "10", "-b", "3000"],
    "slow reading": ["-X", "-w", "512", "-y", "1024", "-n", "5", "-z", "32", "-k", "3"],
}
BIG = b"x" * 1_000_000


class Origin(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        length = int(self.headers.get("content-length", 0))
        self.rfile.read(length)
        body = BIG if self.path == "/big" else b"ok"
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, *_):
        pass


class Quiet(http.server.ThreadingHTTPServer):
    """Connections of an attack end in all ways, which is nothing to be said."""
    daemon_threads = True
    request_queue_size = 1_000

    def handle_error(self, *_):
        pass


def asked(address, until):
    """Asks again and again. Returns how many answers came, how many not, and the slowest."""
    good, bad, slowest = 0, 0, 0.0
    while time.monotonic() < until:
        began = time.monotonic()
        try:
            client = http.client.HTTPConnection(address, timeout=5)
            client.request("GET", "/")
            good += client.getresponse().read() == b"ok"
            client.close()
        except OSError:
            bad += 1
        slowest = max(slowest, time.monotonic() - began)
        time.sleep(0.1)
    return good, bad, slowest


def ctl(proxy, directory, command):
    run = [proxy, "ctl", "--socket", f"{directory}/admin", command]
    return subprocess.run(run, capture_output=True, text=True, check=True).stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--proxy", default=ROOT / "target" / "debug" / "evenkeel-proxy")
    parser.add_argument("--connections", type=int, default=400)
    parser.add_argument("--seconds", type=int, default=6)
    options = parser.parse_args()
    if not shutil.which("slowhttptest"):
        sys.exit("error: slowhttptest is not installed: it is in the package of this name")
    proxy = pathlib.Path(options.proxy).resolve()
    origin = Quiet(("127.0.0.1", 0), Origin)
    threading.Thread(target=origin.serve_forever, daemon=True).start()
    made = tempfile.TemporaryDirectory(prefix="evenkeel-slow-")
    directory = made.name
    config = pathlib.Path(directory) / "proxy.toml"
    config.write_text(CONFIG.format(directory=directory, port=origin.server_port))
    child = subprocess.Popen([proxy, "run", config], stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL, text=True)
    failed = False
    try:
        address = re.search(r"web (\S+)", child.stdout.readline()).group(1)
        for name, attack in ATTACKS.items():
            path = "/big" if name == "slow reading" else "/"
            count, seconds = str(options.connections), str(options.seconds)
            command = ["slowhttptest", *attack, "-c", count, "-r", count, "-l", seconds, "-p", "5",
                       "-u", f"http://{address}{path}"]
            attacker = subprocess.Popen(command, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
            until = time.monotonic() + options.seconds
            itself = []
            directly = threading.Thread(
                target=lambda: itself.extend(asked(f"127.0.0.1:{origin.server_port}", until)))
            directly.start()
            good, bad, slowest = asked(address, until)
            directly.join()
            attacker.wait(timeout=60)
            end = time.monotonic() + 20
            left = 1
            while left and time.monotonic() < end:
                rows = json.loads(ctl(proxy, directory, "show stat json"))
                left = next(row["scur"] for row in rows if row["svname"] == "FRONTEND")
                time.sleep(0.2)
            print(f"{name:<13} {good} answers, {bad} failures, the slowest "
                  f"{slowest * 1000:.0f} ms (of the server itself {itself[2] * 1000:.0f} ms); "
                  f"left: {left}")
            failed |= bad > 0 or good == 0 or left > 0
    finally:
        child.kill()
        child.wait()
        made.cleanup()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
