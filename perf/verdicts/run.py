#!/usr/bin/env python3
"""Whether the verdict agrees with the truth: runs whose client is left alone or starved, each judged by
ridgeline and, independently, from its records and its server's truth.

A run is to be invalid and limited by the client exactly when the limits of lateness were passed. Kinds:
clean, stop (bursts of SIGSTOP), quota (a CPU quota by a cgroup of version 1 or 2; needs the rights to make one)
and neighbour (others that are busy on the client's core). How hard a client is starved is drawn anew for each run,
from a seed, so that some runs pass their limits and some do not.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading

from recount import recount

TTFT, ITL, TOKENS = "50ms", "5ms", "16"


def main():
    args = arguments()
    dice = random.Random(args.seed)
    agreed, rows = 0, []
    for kind in args.kinds.split(","):
        for number in range(args.runs):
            row = one(kind, dice, args)
            if row is None:
                print(f"{kind}: skipped: no cgroup can be made", flush=True)
                break
            rows.append(row)
            agreed += row["agrees"]
            print(f"{kind} {number + 1}: {json.dumps(row)}", flush=True)
    print(f"{agreed} of {len(rows)} verdicts agree with the records; "
          f"{sum(row['truth_agrees'] for row in rows)} with the server's truth; "
          f"{sum(bool(row['records']) for row in rows)} runs passed a limit")
    return 0 if agreed == len(rows) else 5


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ridgeline", required=True, metavar="PROGRAM")
    parser.add_argument("--kinds", default="clean,stop,quota,neighbour")
    parser.add_argument("--runs", type=int, default=20, help="of each kind")
    parser.add_argument("--rate", type=int, default=200, help="requests a second")
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--server-core", type=int, default=0)
    parser.add_argument("--client-core", type=int, default=1)
    return parser.parse_args()


def one(kind, dice, args):
    with tempfile.TemporaryDirectory() as folder:
        truth, results = os.path.join(folder, "truth"), os.path.join(folder, "results")
        server = subprocess.Popen(
            [args.ridgeline, "mock-server", "--port", "0", "--cores", str(args.server_core),
             "--time-to-first-token", TTFT, "--inter-token-latency", ITL,
             "--max-tokens-default", TOKENS, "--truth", truth],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        try:
            url = server.stdout.readline().strip().removeprefix("listening on ")
            bench = [args.ridgeline, "bench", "--url", url, "--model", "mock", "--quiet",
                     "--arrival-pattern", "constant", "--request-rate", str(args.rate),
                     "--duration", f"{args.seconds}s", "--cores", str(args.client_core),
                     "--output-dir", results]
            how = STARVE[kind](bench, dice, args)
        finally:
            server.send_signal(signal.SIGTERM)
            server.communicate()
        if how is None:
            return None
        with open(os.path.join(results, "report.json")) as file:
            report = json.load(file)
        by_records, by_truth = recount(results, truth, args.rate, args.seconds)
    verdict = report["verdict"]
    invalid = verdict["status"] == "invalid" and verdict["limited_by"] == "client"
    causes = [shard["stall"] and shard["stall"]["cause"] for shard in report["harness"]["shards"]]
    return {"how": how, "status": verdict["status"], "limited_by": verdict["limited_by"],
            "reasons": [reason["code"] for reason in verdict["reasons"]], "stall": causes,
            "records": by_records, "truth": by_truth,
            "agrees": invalid == bool(by_records), "truth_agrees": invalid == bool(by_truth)}


def finish(process):
    """0 and 3 are verdicts; anything else is no run."""
    out, _ = process.communicate(timeout=120)
    if process.returncode not in (0, 3):
        raise SystemExit(f"ridgeline ended with {process.returncode}: {out}")


def start(bench, **more):
    return subprocess.Popen(bench, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, **more)


def clean(bench, dice, args):
    finish(start(bench))
    return "left alone"


def stop(bench, dice, args):
    """Stopped for a while, again and again."""
    length, every = dice.choice([2, 5, 10, 20, 40, 80]) / 1000, dice.choice([200, 500, 1000]) / 1000
    process, over = start(bench), threading.Event()

    def bursts():
        while not over.wait(every):
            process.send_signal(signal.SIGSTOP)
            over.wait(length)
            process.send_signal(signal.SIGCONT)

    thread = threading.Thread(target=bursts)
    thread.start()
    try:
        finish(process)
    finally:
        over.set()
        thread.join()
    return f"stopped for {length * 1000:.0f} ms every {every * 1000:.0f} ms"


def quota(bench, dice, args):
    """A CPU quota that is used up early in each period."""
    share = dice.choice([1, 2, 4, 8, 20, 60])
    group = make_group(share)
    if group is None:
        return None
    try:
        # A shell enters the group and becomes the client: all its threads are in it.
        enter = ["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', group, *bench]
        finish(start(enter))
    finally:
        os.rmdir(group)
    return f"a quota of {share} % of a core"


def make_group(share):
    """A group with a quota, of whichever version can be had; its folder."""
    for parent, file, text in [("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", str(share * 1000)),
                               ("/sys/fs/cgroup", "cpu.max", f"{share * 1000} 100000")]:
        folder = os.path.join(parent, f"ridgeline-verdicts-{os.getpid()}")
        try:
            os.mkdir(folder)
        except OSError:
            continue
        try:
            with open(os.path.join(folder, file), "r+") as out:
                out.write(text)
            return folder
        except OSError:
            os.rmdir(folder)
    return None


def neighbour(bench, dice, args):
    """Others on the client's core that never wait."""
    count = dice.choice([1, 2, 4, 8])
    spin = f"import os\nos.sched_setaffinity(0, [{args.client_core}])\nwhile True: pass"
    others = [subprocess.Popen([sys.executable, "-c", spin]) for _ in range(count)]
    try:
        finish(start(bench))
    finally:
        for other in others:
            other.kill()
            other.wait()
    return f"{count} busy neighbours"


STARVE = {"clean": clean, "stop": stop, "quota": quota, "neighbour": neighbour}

if __name__ == "__main__":
    sys.exit(main())
