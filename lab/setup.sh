#!/bin/sh
# Installs the optional tools of the lab by the system's package manager: Erlang/OTP and Go (peers),
# HAProxy and nginx (beside which the relay and the proxy stand), ab and h2load (HTTP load),
# sysbench and MariaDB (what stands behind the proxy), perf (which counts system calls). The lab
# runs without any of them, and says what is missing.
set -eu

say() { printf '%s\n' "setup.sh: $*"; }

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

if command -v apt-get >/dev/null; then
    # A Go of any origin will do, so one that is there is left alone.
    if command -v go >/dev/null; then go=; else go=golang-go; fi
    as_root apt-get update
    # Debian's name for it, and Ubuntu's.
    perf=linux-perf
    apt-cache show "$perf" >/dev/null 2>&1 || perf=linux-tools-generic
    # shellcheck disable=SC2086 # No package is no word.
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
        erlang-base erlang-runtime-tools apache2-utils haproxy nginx-light \
        libnginx-mod-stream nghttp2-client sysbench mariadb-server $perf $go
elif command -v dnf >/dev/null; then
    as_root dnf install --assumeyes \
        erlang-erts erlang-runtime_tools httpd-tools haproxy nginx nginx-mod-stream nghttp2 \
        sysbench mariadb-server perf golang
elif command -v pacman >/dev/null; then
    as_root pacman --sync --needed --noconfirm erlang-nox apache haproxy nginx \
        nginx-mod-stream nghttp2 sysbench mariadb perf go
elif command -v brew >/dev/null; then
    # ab comes with the system there.
    brew install erlang haproxy nginx nghttp2 sysbench mariadb go
else
    say "no package manager that it knows (apt-get, dnf, pacman, brew); install by hand:"
    say "Erlang/OTP, Go, HAProxy, nginx, ab, h2load, sysbench, MariaDB, perf"
    exit 1
fi

# The lab starts a database and an HAProxy of its own; what the packages started for all is not
# needed by it.
for tool in erl erlc go haproxy nginx ab h2load sysbench mariadbd mariadb-install-db perf; do
    if command -v "$tool" >/dev/null; then found="is installed"; else found="is still missing"; fi
    say "$tool $found"
done
