#!/usr/bin/env python3
"""Drives Ridgeline's engine over ZeroMQ: N queries through `ridgeline worker`, with a window.

Needs pyzmq and msgpack. See README.md beside this file.
"""

import argparse
import collections
import json
import time

import msgpack
import zmq

VERSION = 2
TEMPLATE = 1


def body_pieces(model, stream):
    """A chat request with one hole: the prompt, which the worker escapes."""
    body = {"model": model, "messages": [{"role": "user", "content": "<PROMPT>"}], "max_tokens": 16}
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    before, after = json.dumps(body).encode().split(b"<PROMPT>")
    return [before, 0, after]


class Summary:
    """What came back."""

    def __init__(self, count):
        self.seen = bytearray(count)
        self.repeated = self.strange = self.errors = self.notices = 0
        self.outcomes = collections.Counter()
        self.latency_ns, self.ttft_ns, self.lag_ns = [], [], []
        self.ended = None

    def take(self, message, sample_every):
        version, kind, *rest = msgpack.unpackb(message)
        assert version == VERSION, f"version {version}"
        if kind == "results":
            for result in rest[0]:
                self.result(result, sample_every)
            return len(rest[0])
        if kind == "notices":
            self.notices += len(rest[0])
            for _id, ttft, *_times in rest[0]:
                if _id % sample_every == 0:
                    self.ttft_ns.append(ttft)
        elif kind == "error":
            code, text, query = rest
            self.errors += 1
            if self.errors <= 10:
                print(f"error {code} (query {query}): {text}")
            # A query that was not taken has no result.
            return 0 if query is None else 1
        elif kind == "ended":
            self.ended = rest[0]
        return 0

    def result(self, result, sample_every):
        number, outcome, _status, times, *_ = result
        if number >= len(self.seen):
            self.strange += 1
        elif self.seen[number]:
            self.repeated += 1
        else:
            self.seen[number] = 1
        self.outcomes[outcome] += 1
        scheduled, started, submitted, *_, done = times
        if number % sample_every == 0 and submitted is not None and done is not None:
            self.latency_ns.append(done - submitted)
            self.lag_ns.append(started - scheduled)


def percentiles(name, values_ns):
    if not values_ns:
        return
    values_ns.sort()
    at = lambda share: values_ns[min(len(values_ns) - 1, int(share * len(values_ns)))] / 1e6
    print(f"{name:<8} p50 {at(0.5):9.3f} ms   p90 {at(0.9):9.3f} ms   p99 {at(0.99):9.3f} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", default="ipc:///tmp/ridgeline-requests")
    parser.add_argument("--responses", default="ipc:///tmp/ridgeline-responses")
    parser.add_argument("--count", type=int, default=1_000_000, help="queries")
    parser.add_argument("--window", type=int, default=4096, help="queries without a result, at most")
    parser.add_argument("--batch", type=int, default=128, help="queries in a message")
    parser.add_argument("--rate", type=float, help="queries due per second [default: all at once]")
    parser.add_argument("--model", default="mock")
    parser.add_argument("--prompt", default='Say "{}".', help="{} is the number of the query")
    parser.add_argument("--stream", action="store_true", help="ask for streams")
    parser.add_argument("--silence", type=float, default=60, help="seconds without an answer: give up")
    parser.add_argument("--end", action="store_true", help="have the worker end afterwards")
    args = parser.parse_args()

    context = zmq.Context()
    requests, responses = context.socket(zmq.PUSH), context.socket(zmq.PULL)
    requests.connect(args.requests)
    responses.connect(args.responses)

    send = lambda *message: requests.send(msgpack.packb([VERSION, *message]))
    send("template", TEMPLATE, body_pieces(args.model, args.stream))

    summary = Summary(args.count)
    sample_every = max(1, args.count // 100_000)
    sent = answered = 0
    start = time.monotonic()
    # Due times are of the clock that this is: the worker's, on the same machine.
    first_due = time.monotonic_ns() + 10_000_000
    while answered < args.count:
        while sent < args.count and sent - answered + args.batch <= max(args.window, args.batch):
            batch = range(sent, min(sent + args.batch, args.count))
            due = (lambda n: first_due + int(n / args.rate * 1e9)) if args.rate else (lambda n: 0)
            send(
                "queries",
                [[n, due(n), None, args.stream, False, [TEMPLATE, args.prompt.format(n)]] for n in batch],
            )
            sent += len(batch)
        if not responses.poll(args.silence * 1000):
            print(f"no answer for {args.silence} s")
            break
        # All that is there: the window opens once.
        while True:
            try:
                message = responses.recv(zmq.NOBLOCK)
            except zmq.Again:
                break
            answered += summary.take(message, sample_every)
    elapsed = time.monotonic() - start

    if args.end:
        send("end")
        while summary.ended is None and responses.poll(10_000):
            summary.take(responses.recv(), sample_every)
    report(args, summary, elapsed)
    context.destroy(linger=1000)
    whole = sum(summary.seen) == args.count and not summary.repeated and not summary.strange
    raise SystemExit(0 if whole and not summary.errors else 1)


def report(args, summary, elapsed):
    once = sum(summary.seen)
    print(f"{once} of {args.count} came back once, {summary.repeated} more than once, {summary.strange} unasked")
    print(f"{once / elapsed:,.0f} queries/s for {elapsed:.1f} s, batches of {args.batch}, window {args.window}")
    print("outcomes " + ", ".join(f"{name} {count}" for name, count in summary.outcomes.most_common()))
    print(f"notices  {summary.notices}, errors {summary.errors}")
    percentiles("latency", summary.latency_ns)
    percentiles("ttft", summary.ttft_ns)
    percentiles("lag", summary.lag_ns)
    if summary.ended:
        queries, ok, failed, cancelled, errors = summary.ended
        print(f"ended    {queries} queries: {ok} ok, {failed} failed, {cancelled} cancelled; {errors} errors")


if __name__ == "__main__":
    main()
