#!/usr/bin/env python3
"""Takes HAProxy's command line, and serves its configuration by evenkeel-proxy.

Sockets that are passed on as descriptors (`fd@N`) are served by connections of their own: bytes
are passed on in both directions, and ends too. EVENKEEL_PROXY is the path of the program.

Sections that only show what has come to them, such as on which connection, are served by HAProxy
itself: those that EVENKEEL_SHOWING names, with HAPROXY_ITSELF as the path of that program.
"""

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

PROXY = os.environ["EVENKEEL_PROXY"]
# Options that are followed by a value.
WITH_VALUE = {"-f", "-p", "-L", "-S", "-n", "-N", "-m", "-C", "-x", "-cc"}


def relay(source, target):
    """Passes on what one side sends, and its end."""
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        for side in (source, target):
            try:
                side.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def serve(listener, connect):
    """Takes connections, and connects each."""
    while True:
        try:
            client, _ = listener.accept()
            server = connect()
        except OSError:
            return
        for pair in ((client, server), (server, client)):
            threading.Thread(target=relay, args=pair, daemon=True).start()


def connected(address):
    """A connection, as soon as somebody listens there."""
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    for _ in range(500):
        side = socket.socket(family, socket.SOCK_STREAM)
        try:
            side.connect(address)
            return side
        except OSError:
            side.close()
            time.sleep(0.01)
    raise OSError("nobody listens there")


def free_port():
    with socket.socket() as side:
        side.bind(("127.0.0.1", 0))
        return side.getsockname()[1]


def without_descriptors(text, admin):
    """The configuration with addresses in the place of descriptors, which are served from here."""
    def replaced(found):
        name = found.group(2)
        number = int(os.environ[name] if name else found.group(3))
        listener = socket.socket(fileno=os.dup(number))
        address = ("127.0.0.1", free_port())
        connect = lambda: connected(address)
        threading.Thread(target=serve, args=(listener, connect), daemon=True).start()
        return f"127.0.0.1:{address[1]}"

    lines = []
    for line in text.splitlines():
        if re.match(r"\s*stats\s+socket\s", line):
            if "fd@" in line:
                number = int(os.environ["cli"])
                listener = socket.socket(fileno=os.dup(number))
                connect = lambda: connected(admin)
                threading.Thread(target=serve, args=(listener, connect), daemon=True).start()
                continue
            line = f"stats socket {admin}"
        lines.append(re.sub(r'"?fd@(\$\{(\w+)\}|(\d+))"?', replaced, line))
    return "\n".join(lines) + "\n"


def parted(text, showing):
    """The configuration without the sections that only show, and one of these with what they
    inherit."""
    ours, theirs, target = [], [], None
    for line in text.splitlines():
        words = line.split()
        if words and words[0] in ("global", "defaults"):
            target = [ours, theirs]
        elif words and words[0] in ("frontend", "backend", "listen"):
            target = [theirs] if words[1] in showing else [ours]
        # There is one socket for operators, and it is the proxy's.
        is_for_operators = words[:2] == ["stats", "socket"]
        for lines in target or [ours]:
            if not (is_for_operators and lines is theirs):
                lines.append(line)
    return "\n".join(ours) + "\n", "\n".join(theirs) + "\n"


def main():
    arguments, files, words = sys.argv[1:], [], set()
    while arguments:
        word = arguments.pop(0)
        words.add(word)
        value = arguments.pop(0) if word in WITH_VALUE and arguments else None
        if word == "-f":
            files.append(value)
    if "-cc" in words:
        return 0
    if "-v" in words or "-vv" in words:
        print("HAProxy version 2.6.0, by evenkeel-proxy")
        return 0
    directory = tempfile.mkdtemp(prefix="evenkeel-")
    admin = os.path.join(directory, "admin")
    text = "".join(open(file).read() for file in files)
    showing = os.environ.get("EVENKEEL_SHOWING", "").split()
    shower = None
    if showing:
        text, shown = parted(text, showing)
        file = os.path.join(directory, "shows.cfg")
        with open(file, "w") as out:
            out.write(shown)
        if "-c" not in words:
            command = [os.environ["HAPROXY_ITSELF"], "-db", "-f", file]
            shower = subprocess.Popen(command, close_fds=False)
    text = without_descriptors(text, admin)
    source, config = (os.path.join(directory, name) for name in ("haproxy.cfg", "proxy.toml"))
    with open(source, "w") as out:
        out.write(text)
    done = subprocess.run([PROXY, "convert", "--quiet", source], capture_output=True, text=True)
    sys.stderr.write(done.stderr)
    if done.returncode != 0:
        return 1
    with open(config, "w") as out:
        out.write(done.stdout)
    if "-c" in words:
        return 0
    child = subprocess.Popen([PROXY, "run", config])
    ended = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: (ended.append(1), child.kill()))
    code = child.wait()
    if shower:
        shower.kill()
        shower.wait()
    if ended:
        # As HAProxy ends.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    return code


if __name__ == "__main__":
    sys.exit(main())
