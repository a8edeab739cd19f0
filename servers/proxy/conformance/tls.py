#!/usr/bin/env python3
"""Examines a TLS listener of evenkeel-proxy by testssl.sh, and says what it finds wrong.

    servers/proxy/conformance/tls.py --proxy target/debug/evenkeel-proxy

The certificate is made for the occasion by openssl, and signed by itself, which is not held against
the listener. The exit code is 1 if something else is found whose severity is low or more. Takes one
to two minutes. Everything is on the loopback. Needs testssl.sh and openssl (Debian's packages of
these names).
"""

import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
CONFIG = """
[listener.web]
bind = "127.0.0.1:0"
mode = "http"
tls = { certificate = "certificate.pem", key = "key.pem" }
[[listener.web.route]]
path = "/"
answer = { status = 200, body = "ok" }
"""
# Known, with the reason why it stays.
KNOWN = {
    "cert_chain_of_trust": "the certificate is made for the occasion",
    "cert_revocation": "the certificate is made for the occasion",
    "DNS_CAArecord": "the loopback has no name",
    "cipher_order": "all that is offered is sound, so that clients take what is cheapest for them",
    "HSTS": "headers are up to the operator: response.set_headers",
    "security_headers": "headers are up to the operator: response.set_headers",
}
HARMLESS = {"OK", "INFO", "DEBUG", "WARN"}


def certificate(directory):
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-days", "90", "-subj", "/CN=localhost", "-addext",
         "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", directory / "key.pem",
         "-out", directory / "certificate.pem"], check=True, capture_output=True)
    (directory / "key.pem").chmod(0o600)


def examined(tool, address, directory):
    report = directory / "report.json"
    command = [tool, "--quiet", "--color", "0", "--warnings", "off", "--openssl",
               shutil.which("openssl"), "--jsonfile", report, address]
    said = subprocess.run(command, stdout=subprocess.DEVNULL, timeout=600)
    if not report.exists():
        sys.exit(f"error: testssl.sh has written no report (it ended with {said.returncode})")
    return json.loads(report.read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--proxy", default=ROOT / "target" / "debug" / "evenkeel-proxy")
    options = parser.parse_args()
    tool = shutil.which("testssl") or shutil.which("testssl.sh")
    if not tool or not shutil.which("openssl"):
        sys.exit("error: testssl.sh or openssl is not installed: each is in a package of its name")
    proxy = pathlib.Path(options.proxy).resolve()
    with tempfile.TemporaryDirectory(prefix="evenkeel-tls-") as name:
        directory = pathlib.Path(name)
        certificate(directory)
        (directory / "proxy.toml").write_text(CONFIG)
        child = subprocess.Popen([proxy, "run", directory / "proxy.toml"], stdout=subprocess.PIPE,
                                 stderr=subprocess.DEVNULL, text=True)
        try:
            address = re.search(r"web (\S+)", child.stdout.readline()).group(1)
            found = examined(tool, address, directory)
        finally:
            child.kill()
            child.wait()
    counts, failed = {}, False
    for one in found:
        severity = one["severity"]
        counts[severity] = counts.get(severity, 0) + 1
        if severity in HARMLESS:
            continue
        reason = KNOWN.get(one["id"])
        failed |= reason is None
        print(f"{severity:<9} {one['id']}: {one['finding']}")
        if reason:
            print(f"{'':<9} which stays: {reason}")
    print("testssl.sh: " + ", ".join(f"{count} {name}" for name, count in sorted(counts.items())))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
