#!/usr/bin/env python3
"""Ridgeline beside its peers, in one interleaved run: see README.md in this folder."""

import argparse
import copy
import json
import os
import re
import shutil
import statistics
import sys
import tempfile

import chart
from clients import CLIENTS, BareClient, Job
from process import Failed, run
from servers import SERVERS, Nginx, ask, mock


def main():
    args = arguments()
    os.makedirs(args.out, exist_ok=True)
    kinds = CLIENTS if args.what == "clients" else SERVERS
    peers = [(kind, program) for kind in kinds if (program := locate(kind, args))]
    measure = measure_client if args.what == "clients" else measure_server
    rows = {kind.name: [] for kind, _ in peers}
    for number in range(args.rounds):
        # There and back: what drifts over two rounds falls on all alike.
        for kind, program in peers if number % 2 == 0 else reversed(peers):
            try:
                row = measure(kind, program, args)
                rows[kind.name].append(row)
                said = ", ".join(f"{key} {value:.6g}" for key, value in row.items())
            except (Failed, KeyError, ValueError, OSError, TypeError, IndexError) as error:
                said = f"failed: {error!r}"
            print(f"{number + 1} {kind.name}: {said}", file=sys.stderr, flush=True)
    write(rows, args)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["clients", "servers"])
    parser.add_argument("--programs", required=True, metavar="FOLDER",
                        help="where ridgeline, bare-client and bare-server are: target/release")
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=PROGRAM",
                        help="a peer that is not in the PATH, or an environment's Python or program")
    parser.add_argument("--only", metavar="NAMES", help="these alone, with commas between")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=64, help="content events of a stream")
    parser.add_argument("--streaming", action="store_true")
    parser.add_argument("--tls", action="store_true",
                        help="clients by TLS 1.3 against nginx, which answers at once")
    parser.add_argument("--http2", type=int, default=0, metavar="STREAMS",
                        help="with --tls: HTTP/2, so many requests at a time on a connection")
    parser.add_argument("--tokenizer", metavar="FOLDER", default="",
                        help="a Hugging Face tokenizer, for guidellm and inference-perf")
    parser.add_argument("--server-core", type=int, default=0)
    parser.add_argument("--client-core", type=int, default=1)
    parser.add_argument("--out", default="peers-out", metavar="FOLDER")
    return parser.parse_args()


def locate(kind, args):
    """The program of a peer, or None with a line that says why."""
    if args.only and kind.name not in args.only.split(","):
        return None
    named = dict(pair.split("=", 1) for pair in args.peer)
    own = os.path.join(args.programs, kind.binary or "")
    choices = [named.get(kind.name), own, kind.binary, f"/usr/sbin/{kind.binary}"]
    for choice in choices if kind.binary else choices[:1]:
        if choice and (program := shutil.which(choice)):
            return program
    how = "" if kind.binary else f" (name it: --peer {kind.name}=PROGRAM)"
    print(f"{kind.name}: skipped: not installed{how}")
    return None


def everything(args):
    """The same arguments without a choice of peers."""
    args = copy.copy(args)
    args.only = None
    return args


def job_of(url, folder, args):
    return Job(url, args.seconds, args.connections, args.streaming, args.tokens, args.client_core,
               folder, os.path.abspath(args.tokenizer) if args.tokenizer else "", args.http2)


def measure_client(kind, program, args):
    """One run of a client against a fresh mock server, which says in the end what it served; or nginx."""
    if args.tls and not getattr(kind, "secure", False):
        raise Failed("is not asked to speak TLS here")
    if args.http2 and not (args.tls and getattr(kind, "http2", False)):
        raise Failed("is not asked to speak HTTP/2 here")
    held = tempfile.TemporaryDirectory()
    if args.tls:
        job = job_of("", held.name, args)
        job.answer = answer_of_ours(args)
        program_of_server = locate(Nginx(), everything(args))
        server = Nginx().start(program_of_server, args.server_core, job, secure=True)
    else:
        server = mock(os.path.join(args.programs, "ridgeline"), args.server_core, args.streaming, args.tokens)
    said, scheme = "", "https" if args.tls else "http"
    try:
        with tempfile.TemporaryDirectory() as folder:
            job = job_of(f"{scheme}://{server.address}", folder, args)
            ran = run(kind.argv(program, job), args.client_core, 10 * args.seconds + 120,
                      getattr(kind, "env", None), getattr(kind, "codes", (0,)))
            claim = kind.claim(job, ran.stdout)
    finally:
        said = server.stop()
        held.cleanup()
    row = {"requests": claim.requests, "requests_per_s": claim.requests_per_s,
           "cpu_us_per_request": ran.cpu_s * 1e6 / max(claim.requests, 1),
           "wall_s": ran.wall_s, "cpu_s": ran.cpu_s}
    if served := re.search(r"served (\d+) requests", said):
        row["served"] = int(served.group(1))
    if args.streaming:
        row["events_per_s"] = claim.requests_per_s * args.tokens
    return row


def measure_server(kind, program, args):
    """One run of the bare client against a fresh server, warmed by a short one."""
    client, ceiling = BareClient(), os.path.join(args.programs, "bare-client")
    with tempfile.TemporaryDirectory() as folder:
        job = job_of("", folder, args)
        job.answer = answer_of_ours(args)
        server = kind.start(program, args.server_core, job)
        try:
            job.url = f"http://{server.address}"

            def load(seconds):
                job.seconds = seconds
                limit = seconds + 60
                return client.claim(job, run(client.argv(ceiling, job), args.client_core, limit).stdout)

            load(1)
            before = server.cpu_s()
            claim = load(args.seconds)
            cpu_s = server.cpu_s() - before
        finally:
            server.stop()
    row = {"requests": claim.requests, "requests_per_s": claim.requests_per_s,
           "cpu_us_per_request": cpu_s * 1e6 / max(claim.requests, 1)}
    if args.streaming:
        row["events_per_s"] = claim.requests_per_s * args.tokens
    return row


def answer_of_ours(args):
    server = mock(os.path.join(args.programs, "ridgeline"), args.server_core, False, args.tokens)
    try:
        return ask(server.address, False)
    finally:
        server.stop()


def write(rows, args):
    """The table, on standard output and in the folder, the samples and the plot."""
    measured = {name: samples for name, samples in rows.items() if samples}
    names = sorted(measured, key=lambda name: -middle(measured[name], "requests_per_s")[1])
    rate = "events_per_s" if args.streaming else "requests_per_s"
    table = table_of(names, measured, args)
    print(table, end="")
    with open(os.path.join(args.out, f"{args.what}.md"), "w") as file:
        file.write(table)
    with open(os.path.join(args.out, f"{args.what}.json"), "w") as file:
        json.dump({"machine": machine(), "arguments": vars(args), "samples": rows}, file, indent=1)
    panels = [(heading, {name: middle(measured[name], key) for name in names})
              for heading, key in ((rate.replace("_per_s", "/s"), rate),
                                   ("CPU us/request", "cpu_us_per_request"))]
    kind = "streams" if args.streaming else "requests"
    title = f"{args.what.capitalize()}: {kind}, {args.connections} connections, one core"
    with open(os.path.join(args.out, f"{args.what}.svg"), "w") as file:
        file.write(chart.svg(title, machine(), panels, names))


def table_of(names, measured, args):
    columns = ["requests_per_s", "cpu_us_per_request"]
    if args.streaming:
        columns.insert(1, "events_per_s")
    if args.what == "clients":
        columns += ["requests", "served", "wall_s"]
    best = middle(measured["ridgeline"], "requests_per_s")[1] if "ridgeline" in measured else None
    lines = [f"{machine()}; {args.rounds} rounds of {args.seconds} s, {args.connections} connections",
             "", "| | " + " | ".join(columns) + " | ridgeline / this |",
             "|---" * (len(columns) + 2) + "|"]
    for name in names:
        cells = []
        for column in columns:
            low, mid, high = middle(measured[name], column)
            spread = f" ({chart.short(low)} to {chart.short(high)})" if low < high else ""
            cells.append(chart.short(mid) + spread if mid == mid else "?")
        ratio = best / middle(measured[name], "requests_per_s")[1] if best else float("nan")
        lines.append(f"| {name} | " + " | ".join(cells) + f" | {ratio:.2f} |")
    return "\n".join(lines) + "\n"


def middle(samples, key):
    """Least, median and most of what has been measured."""
    values = [sample[key] for sample in samples if key in sample]
    if not values:
        return (float("nan"),) * 3
    return min(values), statistics.median(values), max(values)


def machine():
    """What of the machine moves the numbers."""
    def first(path, pattern):
        with open(path) as file:
            found = re.search(pattern, file.read(), re.M)
        return found.group(1) if found else "unknown"
    return (f"{first('/proc/cpuinfo', r'^model name.*: (.*)$')}, {os.cpu_count()} cores, "
            f"Linux {os.uname().release}, {first('/proc/sys/net/ipv4/tcp_congestion_control', '(.*)')}, "
            f"load {first('/proc/loadavg', '([^ ]*)')}")


if __name__ == "__main__":
    main()
