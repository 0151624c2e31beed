"""What the peers print is read; needs none of them. `python3 -m unittest` in this folder."""

import json
import os
import tempfile
import unittest
import xml.etree.ElementTree

import chart
from clients import CLIENTS, Job
from process import Failed, Server, run

KINDS = {kind.name: kind for kind in CLIENTS}
WRK = "  101 requests in 2.00s, 1.00MB read\nRequests/sec:     50.50\n"
ENDPOINTS = ("Total Recv: 9\nFinal Results:\n  Total Recv:     1,234\n  Errors:         0\n"
             "  Recv Rate:      617 resp/s\n")
H2LOAD = ("finished in 2.00s, 617.00 req/s, 1MB/s\nrequests: 1234 total, 1300 started, 1234 done, "
          "1234 succeeded, 0 failed, 0 errored, 0 timeout\n")


def job(folder, **more):
    return Job("http://127.0.0.1:9", 2, 64, more.pop("streaming", False), 10, 1, folder, "tok")


class Claims(unittest.TestCase):
    def claim(self, name, stdout="", **files):
        with tempfile.TemporaryDirectory() as folder:
            for file, content in files.items():
                with open(os.path.join(folder, file + ".json"), "w") as out:
                    json.dump(content, out)
            claim = KINDS[name].claim(job(folder), stdout)
        return claim.requests, claim.requests_per_s

    def test_each_is_read(self):
        bare = json.dumps({"requests": 5, "requests_per_s": 2.5})
        oha = json.dumps({"summary": {"total": 2.0}, "statusCodeDistribution": {"200": 10}})
        for name, text, expected in [("bare-client", bare, (5, 2.5)), ("wrk", WRK, (101, 50.5)),
                                     ("wrk2", WRK, (101, 50.5)), ("oha", oha, (10, 5.0)),
                                     ("h2load", H2LOAD, (1234, 617.0)),
                                     ("endpoints", ENDPOINTS, (1234, 617.0))]:
            self.assertEqual(self.claim(name, text), expected, name)
        report = {"load": {"failed": 0, "completed": 7}, "throughput": {"requests_per_s": 3.5}}
        self.assertEqual(self.claim("ridgeline", report=report), (7, 3.5))
        aiperf = {"error_summary": [], "request_count": {"avg": 7.0}, "request_throughput": {"avg": 3.5}}
        self.assertEqual(self.claim("aiperf", profile_export_aiperf=aiperf), (7, 3.5))
        metrics = {"request_totals": {"errored": 0, "successful": 7},
                   "requests_per_second": {"successful": {"mean": 3.5}}}
        self.assertEqual(self.claim("guidellm", out={"benchmarks": [{"metrics": metrics}]}), (7, 3.5))
        summary = {"failures": {"count": 0},
                   "successes": {"count": 7, "throughput": {"requests_per_sec": 3.5}}}
        self.assertEqual(self.claim("inference-perf", summary_lifecycle_metrics=summary), (7, 3.5))

    def test_failures_are_no_results(self):
        oha = json.dumps({"summary": {"total": 2.0}, "statusCodeDistribution": {"200": 10, "503": 1}})
        for name, text in [("wrk", WRK + "  Non-2xx or 3xx responses: 4\n"), ("wrk", ""), ("oha", oha),
                           ("h2load", H2LOAD.replace("0 failed", "1 failed")),
                           ("endpoints", ENDPOINTS.replace("Errors:         0", "Errors:         2"))]:
            with self.assertRaises(Failed, msg=name):
                self.claim(name, text)
        with self.assertRaises(Failed):
            report = {"load": {"failed": 1, "completed": 7}, "throughput": {"requests_per_s": 3.5}}
            self.claim("ridgeline", report=report)


class Processes(unittest.TestCase):
    core = min(os.sched_getaffinity(0))

    def test_a_program_is_run_to_its_end(self):
        ran = run(["sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo said"], self.core, 60)
        self.assertEqual(ran.stdout, "said\n")
        self.assertGreater(ran.cpu_s, 0)
        with self.assertRaisesRegex(Failed, "exit code 7: why"):
            run(["sh", "-c", "echo why >&2; exit 7"], self.core, 60)
        with self.assertRaisesRegex(Failed, "no end"):
            run(["sh", "-c", "exec cat /dev/zero"], self.core, 0)

    def test_a_server_says_where_it_listens(self):
        script = "echo listening on http://127.0.0.1:9; read line; echo done"
        server = Server(["sh", "-c", script], self.core)
        self.assertEqual(server.address, "127.0.0.1:9")
        self.assertIn("listening", server.stop())
        with self.assertRaisesRegex(Failed, "does not listen: no"):
            Server(["sh", "-c", "echo no"], self.core)


class Chart(unittest.TestCase):
    def test_bars_are_as_long_as_their_logarithms(self):
        values = {"ridgeline": (90.0, 100.0, 110.0), "a<b": (9.0, 10.0, 11.0)}
        text = chart.svg("t", "n", [("rate", values), ("none", {})], ["ridgeline", "a<b", "gone"])
        root = xml.etree.ElementTree.fromstring(text)
        bars = [float(r.get("width")) for r in root.iter("{http://www.w3.org/2000/svg}rect")][1:]
        self.assertEqual(len(bars), 2)
        # From 1 on, over three decades: 100 is two thirds of the panel, 10 a third.
        self.assertAlmostEqual(bars[0], chart.PANEL * 2 / 3, delta=0.2)
        self.assertAlmostEqual(bars[1], chart.PANEL / 3, delta=0.2)
        self.assertEqual([chart.short(v) for v in (4.283, 163_400, 2e6)], ["4.28", "163k", "2M"])


if __name__ == "__main__":
    unittest.main()
