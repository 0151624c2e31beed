"""The recount by hand-made files. `python3 -m unittest` in this folder."""

import json
import os
import tempfile
import unittest

from recount import MS, median, passed, recount


class Rows(unittest.TestCase):
    def test_each_limit_is_passed_beyond_it(self):
        on_time = [0] * 1000
        for lags, due, sent, expected in [
            (on_time, 1000, 1000, []),
            (on_time, 1000, 995, []),
            (on_time, 1000, 994, ["rate"]),
            (on_time[:200], 200, 198, []),
            ([10 * MS] * 1000, 1000, 1000, []),
            ([10 * MS + 1] * 1000, 1000, 1000, ["lag_median"]),
            ([0] * 950 + [26 * MS] * 50, 1000, 1000, []),
            ([0] * 949 + [26 * MS] * 51, 1000, 1000, ["lag_share"]),
            ([0] * 999, 1000, 999, ["never_sent"]),
        ]:
            self.assertEqual(passed(lags, due, sent, 50 * MS), expected)

    def test_the_median_is_a_value_that_occurred(self):
        self.assertEqual([median([3, 1, 2]), median([4, 1, 3, 2])], [2, 2])


class Files(unittest.TestCase):
    def test_records_and_truth_are_on_one_clock(self):
        with tempfile.TemporaryDirectory() as folder:
            def write(name, *lines):
                with open(os.path.join(folder, name), "w") as out:
                    out.writelines(json.dumps(line) + "\n" for line in lines)

            write("report.json", {"environment": {"clock": {"start_monotonic_ns": 9000 * MS}}})
            # Stopped between its word and its bytes: the server sees what the record does not.
            record = {"phase": "measured", "outcome": "ok"}
            records = [{**record, "request_id": f"r{n}", "scheduled_ns": n * 10 * MS,
                        "started_ns": n * 10 * MS, "submitted_ns": n * 10 * MS,
                        "first_token_ns": n * 10 * MS + 50 * MS} for n in range(100)]
            write("records.jsonl", {**record, "phase": "warmup"}, *records)
            came = [{"request_id": f"r{n}", "arrival_ns": 4000 * MS + n * 10 * MS + 30 * MS}
                    for n in range(100)]
            truth = os.path.join(folder, "truth")
            write("truth", {"clock": {"start_monotonic_ns": 5000 * MS}}, *came, {"end": {}})
            by_records, by_truth = recount(folder, truth, 100, 1)
        self.assertEqual((by_records, by_truth), ([], ["lag_median", "lag_share"]))


if __name__ == "__main__":
    unittest.main()
