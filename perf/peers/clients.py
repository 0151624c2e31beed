"""The load generators: how each is asked for the same load, and where it says what it did.

Every one gets: `connections` requests in flight at a time, one chat request over and over (or its
own synthetic one of a like size), for `seconds`, from one core. What it answers is a `Claim`.
"""

import json
import os
import re
from dataclasses import dataclass

from process import Failed

PROMPT = "Say one word about the sea, please."


@dataclass
class Job:
    """One load: what is asked, of whom, and a folder for what the client writes."""

    url: str
    seconds: int
    connections: int
    streaming: bool
    tokens: int
    core: int
    folder: str
    tokenizer: str
    # Of HTTP/2: requests at a time on a connection; 0: HTTP/1.1.
    streams: int = 0

    def body(self):
        ask = {"model": "mock", "messages": [{"role": "user", "content": PROMPT}]}
        if self.streaming:
            ask.update(stream=True, stream_options={"include_usage": True})
        else:
            ask.update(stream=False)
        return json.dumps(ask, separators=(",", ":"))

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            file.write(text)
        return path

    def read_json(self, name):
        with open(os.path.join(self.folder, name)) as file:
            return json.load(file)

    @property
    def secure(self):
        return self.url.startswith("https://")

    @property
    def sockets(self):
        """Connections that `connections` requests in flight take."""
        return -(-self.connections // self.streams) if self.streams else self.connections

    @property
    def chat(self):
        return self.url + "/v1/chat/completions"


@dataclass
class Claim:
    """What a client says it did."""

    requests: int
    requests_per_s: float


def number(text):
    return float(text.replace(",", ""))


def find(pattern, text):
    found = re.search(pattern, text)
    if not found:
        raise Failed(f"nothing like {pattern!r} in what it printed")
    return found


class BareClient:
    """The ceiling: counts bytes, parses nothing."""

    name, binary, parses = "bare-client", "bare-client", False

    def argv(self, program, job):
        mode = "stream" if job.streaming else "request"
        return [program, job.url, "--mode", mode, "--seconds", str(job.seconds),
                "--connections", str(job.connections)]

    def claim(self, job, stdout):
        said = json.loads(stdout)
        return Claim(said["requests"], said["requests_per_s"])


class Ridgeline:
    name, binary, parses = "ridgeline", "ridgeline", True
    secure = True
    http2 = True
    # Nothing is wrong with a client that says that it was its own limit.
    codes = (0, 3)

    def argv(self, program, job):
        return [program, "bench", "--url", job.url, "--model", "mock", "--endpoint-type", "chat",
                "--streaming" if job.streaming else "--no-streaming", "--prompt", PROMPT,
                "--concurrency", str(job.connections), "--duration", f"{job.seconds}s",
                "--cores", str(job.core), "--quiet", "--output-dir", job.folder,
                *(["--insecure"] if job.secure else []),
                *(["--http", "2", "--streams-per-connection", str(job.streams)] if job.streams else [])]

    def claim(self, job, stdout):
        report = job.read_json("report.json")
        if report["load"]["failed"]:
            raise Failed(f"{report['load']['failed']} requests failed")
        return Claim(report["load"]["completed"], report["throughput"]["requests_per_s"])


class Wrk:
    name, binary, parses = "wrk", "wrk", False
    secure = True

    def argv(self, program, job):
        script = (f"wrk.method = \"POST\"\nwrk.body = [==[{job.body()}]==]\n"
                  "wrk.headers[\"Content-Type\"] = \"application/json\"\n")
        return [program, "-t1", f"-c{job.connections}", f"-d{job.seconds}s",
                "-s", job.write("post.lua", script), job.chat]

    def claim(self, job, stdout):
        if "Non-2xx" in stdout or "Socket errors" in stdout:
            raise Failed(find(r".*(Non-2xx|Socket errors).*", stdout).group(0).strip())
        requests = int(find(r"(\d+) requests in", stdout).group(1))
        return Claim(requests, number(find(r"Requests/sec:\s*([\d.]+)", stdout).group(1)))


class Wrk2(Wrk):
    """wrk at a rate that it can't reach: what it does then is its most."""

    name, binary = "wrk2", "wrk2"

    def argv(self, program, job):
        return [*super().argv(program, job)[:-1], "-R1000000", job.chat]


class Oha:
    name, binary, parses = "oha", "oha", False
    secure = True
    http2 = True

    def argv(self, program, job):
        return [program, "--no-tui", "--output-format", "json", "-z", f"{job.seconds}s",
                "-c", str(job.sockets), "-m", "POST", "-T", "application/json",
                "-D", job.write("body", job.body()), *(["--insecure"] if job.secure else []),
                *(["--http2", "-p", str(job.streams)] if job.streams else []), job.chat]

    def claim(self, job, stdout):
        said = json.loads(stdout)
        codes = said["statusCodeDistribution"]
        if set(codes) - {"200"}:
            raise Failed(f"statuses {codes}")
        return Claim(codes["200"], codes["200"] / said["summary"]["total"])


class H2load:
    name, binary, parses = "h2load", "h2load", False
    secure = True
    http2 = True

    def argv(self, program, job):
        version = [f"-m{job.streams}"] if job.streams else ["--h1"]
        return [program, *version, "-t1", f"-c{job.sockets}", f"-D{job.seconds}",
                "-d", job.write("body", job.body()), "-H", "content-type: application/json", job.chat]

    def claim(self, job, stdout):
        counts = find(r"(\d+) succeeded, (\d+) failed, (\d+) errored", stdout)
        if counts.group(2) != "0" or counts.group(3) != "0":
            raise Failed(counts.group(0))
        rate = find(r"finished in [^,]*, ([\d.]+) req/s", stdout).group(1)
        return Claim(int(counts.group(1)), number(rate))


class Endpoints:
    """benchmark_httpclient of mlcommons/endpoints; the program is the Python that has it."""

    name, binary, parses = "endpoints", None, True

    def argv(self, program, job):
        return [program, "-m", "inference_endpoint.utils.benchmark_httpclient",
                "--endpoint", job.chat, "--num-workers", "1", "--no-pin",
                "--duration", str(job.seconds), "--prompt-length", str(len(PROMPT)),
                "--max-connections", str(job.connections), "--max-concurrency", str(job.connections),
                *(["--stream"] if job.streaming else [])]

    def claim(self, job, stdout):
        results = stdout[stdout.rindex("Final Results"):]
        errors = find(r"Errors:\s*([\d,]+)", results).group(1)
        if errors != "0":
            raise Failed(f"{errors} errors")
        return Claim(int(number(find(r"Total Recv:\s*([\d,]+)", results).group(1))),
                     number(find(r"Recv Rate:\s*([\d,]+)", results).group(1)))


class Aiperf:
    name, binary, parses = "aiperf", None, True
    env = {"HF_HUB_OFFLINE": "1"}

    def argv(self, program, job):
        return [program, "profile", "-m", "mock", "--url", job.url, "--endpoint-type", "chat",
                *(["--streaming"] if job.streaming else []), "--tokenizer", "builtin",
                "--isl", "16", "--osl", str(job.tokens), "--use-server-token-count",
                "--concurrency", str(job.connections), "--benchmark-duration", str(job.seconds),
                "--workers-max", "1", "--ui", "none", "--no-server-metrics", "--no-gpu-telemetry",
                "--output-artifact-dir", job.folder]

    def claim(self, job, stdout):
        report = job.read_json("profile_export_aiperf.json")
        if report["error_summary"]:
            raise Failed(f"errors: {report['error_summary']}")
        return Claim(int(report["request_count"]["avg"]), report["request_throughput"]["avg"])


class Guidellm:
    name, binary, parses = "guidellm", None, True
    env = {"HF_HUB_OFFLINE": "1"}

    def argv(self, program, job):
        if not job.tokenizer:
            raise Failed("needs --tokenizer")
        profile = json.dumps({"kind": "concurrent", "streams": [job.connections]})
        return [program, "run", "--backend", f"kind=openai_http,target={job.url},model=mock",
                "--tokenizer", f"kind=hf_auto,model={job.tokenizer}",
                "--data", f"kind=synthetic_text,prompt_tokens=16,output_tokens={job.tokens}",
                "--profile", profile, "--constraint", f"kind=max_duration,seconds={job.seconds}",
                "--disable-console-interactive",
                "--output", f"kind=json,path={os.path.join(job.folder, 'out.json')}"]

    def claim(self, job, stdout):
        metrics = job.read_json("out.json")["benchmarks"][0]["metrics"]
        totals = metrics["request_totals"]
        if totals["errored"]:
            raise Failed(f"{totals['errored']} requests failed")
        return Claim(totals["successful"], metrics["requests_per_second"]["successful"]["mean"])


class InferencePerf:
    name, binary, parses = "inference-perf", None, True
    env = {"HF_HUB_OFFLINE": "1"}

    def argv(self, program, job):
        if not job.tokenizer:
            raise Failed("needs --tokenizer")
        # As many requests as it could send in the time: it has no run by time at a concurrency.
        requests = max(job.connections, 300 * job.seconds)
        config = {
            "load": {"type": "concurrent", "num_workers": 1, "worker_max_concurrency": job.connections,
                     "stages": [{"concurrency_level": job.connections, "num_requests": requests}]},
            "api": {"type": "completion", "streaming": job.streaming},
            "server": {"type": "vllm", "model_name": "mock", "base_url": job.url, "ignore_eos": True},
            "tokenizer": {"pretrained_model_name_or_path": job.tokenizer},
            "data": {"type": "random", **{
                f"{kind}_distribution": {"min": n, "max": n, "mean": n, "std_dev": 0,
                                         "total_count": requests}
                for kind, n in (("input", 16), ("output", job.tokens))}},
            "storage": {"local_storage": {"path": job.folder}},
        }
        # JSON is YAML.
        return [program, "-c", job.write("config.yml", json.dumps(config))]

    def claim(self, job, stdout):
        report = job.read_json("summary_lifecycle_metrics.json")
        if report["failures"]["count"]:
            raise Failed(f"{report['failures']['count']} requests failed")
        rate = report["successes"]["throughput"]["requests_per_sec"]
        return Claim(report["successes"]["count"], rate)


CLIENTS = [BareClient(), Ridgeline(), Wrk(), Wrk2(), Oha(), H2load(), Endpoints(), Aiperf(),
           Guidellm(), InferencePerf()]
