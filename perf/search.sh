#!/bin/sh
# How near the searches of `ridgeline bench` come to the capacity of a mock server that is known: ten seeds
# each of --find knee and --find max-rate. Build first: cargo build --release --bins.
#   perf/search.sh [PLACES] [SEEDS] [FIRST SEED]
# A request takes 20 ms to its first token and 5 ms to each of 31 others, with a tenth of deviation: 175 ms.
set -eu
places=${1:-48}
seeds=${2:-10}
seed=${3:-1}
last=$((seed + seeds - 1))
cd "$(dirname "$0")/.."
program=target/release/ridgeline
work=$(mktemp -d)
trap 'kill "$server" 2>/dev/null || true; rm -rf "$work"' EXIT
server=

# Starts a server with seed $1; its URL is in $url.
serve() {
    $program mock-server --port 0 --cores 0 --max-num-seqs "$places" --seed "$1" \
        --time-to-first-token 20ms --time-to-first-token-std-dev 2ms \
        --inter-token-latency 5ms --inter-token-latency-std-dev 500us >"$work/server" &
    server=$!
    until grep -q '^listening on ' "$work/server"; do sleep 0.05; done
    url=$(sed -n 's/^listening on //p' "$work/server")
}

# Searches with the flags given; prints what was found and how long it took.
find_it() {
    begun=$(date +%s)
    $program bench --url "$url" --cores 1 --isl 16 --osl 32 --output-dir "$work/out" --quiet "$@" |
        sed -n '1p'
    echo "  in $(($(date +%s) - begun)) s"
}

echo "computed: knee $places, rate $(echo "$places" | awk '{ printf "%.1f", $1 / 0.175 }')/s"
while [ "$seed" -le "$last" ]; do
    serve "$seed"
    echo "seed $seed"
    find_it --find knee --seed "$seed"
    # Even arrivals that may wait long: the highest rate is the capacity.
    find_it --find max-rate --slo ttft:p90=400ms --arrival-pattern constant --seed "$seed"
    kill "$server"
    wait "$server" || true
    seed=$((seed + 1))
done
