#!/usr/bin/env bash
# Smoke test of the lab's peers: builds each whose language is installed, starts it on ports of
# the system's choice, and exercises every flag. One line per check; ends with 1 if any failed.
#
#   lab/peers/check.sh [go] [erlang]
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
built="${CARGO_TARGET_DIR:-$here/../../target}/lab-peers"
mkdir -p "$built"
built=$(cd "$built" && pwd)
peers=("$@")
[ ${#peers[@]} -gt 0 ] || peers=(go erlang)
failed=0

missing() { printf '%-7s missing  %s\n' "$1" "$2"; }

command -v python3 >/dev/null || { missing all "no python3: it plays the clients"; exit 1; }

for peer in "${peers[@]}"; do
    case $peer in
    go)
        command -v go >/dev/null || { missing go "no go on the PATH, so not checked"; continue; }
        (cd "$here/go" && go vet . && go build -o "$built/go-peer" .)
        python3 "$here/check_client.py" go "$built/go-peer" || failed=1
        ;;
    erlang)
        command -v erlc >/dev/null || { missing erlang "no erlc, so not checked"; continue; }
        erlc -Wall -Werror -o "$built" "$here"/erlang/*.erl
        # +Bd: without it a SIGINT opens the runtime's break menu.
        python3 "$here/check_client.py" erlang \
            erl -noshell +Bd +S 2:2 +sbwt none -pa "$built" -run lab_peer main || failed=1
        ;;
    *)
        echo "$0: no peer is called $peer; there are go and erlang" >&2
        exit 2
        ;;
    esac
done
exit $failed
