"""Whether the lateness limits of the verdict were passed, from a run's records and its server's truth alone.

Nothing here is taken from report.json but the clock that both files count from: percentiles, shares and
limits are reckoned anew, as the verdict's table words them.
"""

import json
import math
import os

MS = 1_000_000


def read_records(folder):
    with open(os.path.join(folder, "records.jsonl")) as lines:
        records = [json.loads(line) for line in lines]
    return [record for record in records if record["phase"] == "measured"]


def read_truth(path):
    """The server's start on its monotonic clock, and when each request came, from there."""
    with open(path) as lines:
        header = json.loads(next(lines))
        came = {}
        for line in lines:
            request = json.loads(line)
            if request.get("request_id"):
                came.setdefault(request["request_id"], request["arrival_ns"])
    return header["clock"]["start_monotonic_ns"], came


def median(values):
    """Nearest rank, as reports have it."""
    return sorted(values)[math.ceil(len(values) / 2) - 1]


def passed(lags, due, sent, ttft_median):
    """The rows of the table that speak of lateness and make a run invalid, of those that are passed.

    lags: of every request that was started, ns; due: how many the schedule had; sent: how many of them
    were handed over within the window.
    """
    late = max(10 * MS, ttft_median / 2)
    found = []
    if due - sent > max(0.005 * due, 2):
        found.append("rate")
    if median(lags) > 10 * MS:
        found.append("lag_median")
    if sum(lag > late for lag in lags) > 0.05 * len(lags):
        found.append("lag_share")
    if len(lags) < due:
        found.append("never_sent")
    return found


def recount(folder, truth, rate, seconds):
    """What records say, and what the server saw: two lists of rows."""
    records = read_records(folder)
    with open(os.path.join(folder, "report.json")) as file:
        started = json.load(file)["environment"]["clock"]["start_monotonic_ns"]
    server, came = read_truth(truth)
    due, window = round(rate * seconds), seconds * 1e9
    ttfts = [record["first_token_ns"] - record["submitted_ns"]
             for record in records if record["outcome"] == "ok"]
    ttft = median(ttfts) if ttfts else 0
    sent = [record for record in records if record["submitted_ns"] is not None]
    # The measured phase begins with the first request: it is due at once.
    begin = min(record["scheduled_ns"] for record in records)
    in_window = sum(record["submitted_ns"] - begin <= window for record in sent)
    lags = [record["started_ns"] - record["scheduled_ns"] for record in records]
    arrived = {record["request_id"]: server + came[record["request_id"]] - started
               for record in records if record["request_id"] in came}
    ways = [arrived[record["request_id"]] - record["scheduled_ns"]
            for record in records if record["request_id"] in arrived]
    seen = sum(at - begin <= window for at in arrived.values())
    return passed(lags, due, in_window, ttft), passed(ways, due, seen, ttft)
