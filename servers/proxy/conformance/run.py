#!/usr/bin/env python3
"""Runs HAProxy's own scenarios against evenkeel-proxy and HAProxy, and prints a table.

    servers/proxy/conformance/run.py --proxy target/debug/evenkeel-proxy

The files are HAProxy's, under the GPL, and none of them is here: they are fetched into
target/conformance, or taken from a clone that --repository names. Each configuration goes through
`evenkeel-proxy convert`. Needs varnishtest (the package varnish), git and python3.11 or newer.

Why scenarios fail stands in causes.toml. One that fails and has no cause there, or passes and has
one, is an error.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
FOLDERS = ["http-messaging", "connection", "balance", "checks"]
LIMIT_S = 20
# Sections that only show what comes to them, by what HAProxy alone knows: it serves them itself.
SHOWING = {"connection/http_reuse_always": "receiver"}


def fetched(repository, revision):
    """The scenarios in a directory of their own."""
    target = ROOT / "target" / "conformance"
    wanted = target / revision
    if (wanted / "reg-tests").is_dir():
        return wanted / "reg-tests"
    clone = pathlib.Path(repository)
    if not clone.is_dir():
        clone = target / "haproxy.git"
        command = ["git", "clone", "--bare", "--depth", "1", "--branch", revision, repository]
        if not clone.is_dir() and subprocess.run([*command, clone]).returncode != 0:
            sys.exit(f"error: cannot fetch {repository}: without a network, name a clone of it by "
                     "--repository")
    wanted.mkdir(parents=True, exist_ok=True)
    pack = subprocess.run(["git", "-C", clone, "archive", revision, "reg-tests"],
                          capture_output=True)
    if pack.returncode != 0:
        sys.exit(f"error: {clone} has no {revision}: {pack.stderr.decode()}")
    subprocess.run(["tar", "-x", "-C", wanted], input=pack.stdout, check=True)
    return wanted / "reg-tests"


def reason(output):
    """Why a scenario has failed: what cannot be converted, or what was expected."""
    # Lines of the program stand in the log with its name and a bar.
    plain = [re.sub(r"^.*?debug\|", "", line) for line in output.splitlines()]
    found = [re.search(r"haproxy\.cfg:\d+: error: (.*)", line) for line in plain]
    errors = [one.group(1) for one in found if one]
    # A section of which nothing is left has other errors.
    errors.sort(key=lambda error: "sends nothing" in error or "listens anywhere" in error)
    if errors:
        return "not converted: " + re.sub(r'"[^"]*:\d+"', "an address", errors[0])
    for line in plain:
        if found := re.search(r"haproxy\.cfg:\d+.*|the result:\d+.*", line):
            return found.group(0)
    for line in output.splitlines():
        if line.startswith("----"):
            return re.sub(r"^----\s+", "", line)
    return "it did not end in time"


def causes():
    """The cause of each scenario that is known to fail."""
    text = (HERE / "causes.toml").read_text()
    listed = tomllib.loads(text)["cause"]
    return {name: cause["why"] for cause in listed for name in cause["scenarios"]}


def run(scenario, name, program, options):
    environment = dict(os.environ, HAPROXY_PROGRAM=str(program), HAPROXY_TEST_TIMEOUT="5s",
                       EVENKEEL_PROXY=str(options.proxy), HAPROXY_ITSELF=str(options.haproxy),
                       EVENKEEL_SHOWING=SHOWING.get(name, ""))
    command = ["varnishtest", "-t", str(LIMIT_S), "-Dno-htx=", str(scenario)]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True,
                              errors="replace", timeout=LIMIT_S + 10)
    except subprocess.TimeoutExpired:
        return "fails", "it did not end in time"
    if done.returncode == 0:
        return "passes", ""
    if done.returncode == 77:
        return "skipped", ""
    return "fails", reason(done.stdout + done.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--proxy", default=ROOT / "target" / "debug" / "evenkeel-proxy")
    parser.add_argument("--repository", default="https://github.com/haproxy/haproxy.git")
    parser.add_argument("--revision", default="v2.6.0")
    parser.add_argument("--haproxy", default=shutil.which("haproxy"))
    parser.add_argument("names", nargs="*", help="parts of the scenarios' names")
    options = parser.parse_args()
    if not shutil.which("varnishtest"):
        sys.exit("error: varnishtest is not installed: it is in the package varnish")
    options.proxy = pathlib.Path(options.proxy).resolve()
    if not options.proxy.is_file():
        sys.exit(f"error: {options.proxy} is not there: build it by `cargo build -p proxy`")
    folder = fetched(options.repository, options.revision)
    known, by_cause, counts, wrong = causes(), {}, {}, []
    print("| scenario | HAProxy | evenkeel-proxy | why not |\n|---|---|---|---|")
    for part in FOLDERS:
        for scenario in sorted((folder / part).glob("*.vtc")):
            name = f"{part}/{scenario.stem}"
            if options.names and not any(word in name for word in options.names):
                continue
            peer = run(scenario, name, options.haproxy, options)[0] if options.haproxy else "-"
            ours, why = run(scenario, name, HERE / "haproxy.py", options)
            counts[(peer, ours)] = counts.get((peer, ours), 0) + 1
            cause = known.get(name)
            if (ours == "fails") != (cause is not None):
                wrong.append(f"{name} {ours}: {cause or why or 'no cause is known'}")
            if ours == "fails" and cause:
                by_cause[cause] = by_cause.get(cause, 0) + 1
            print(f"| {name} | {peer} | {ours} | {why.replace('|', '/')[:90]} |", flush=True)
    for (peer, ours), count in sorted(counts.items()):
        print(f"HAProxy {peer}, evenkeel-proxy {ours}: {count}")
    for cause, count in sorted(by_cause.items(), key=lambda one: -one[1]):
        print(f"{count:3} {cause}")
    for line in wrong:
        print(f"NOT AS IN causes.toml: {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
