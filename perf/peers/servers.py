"""The servers: how each is made to answer every request with the same few hundred bytes."""

import json
import os
import urllib.request

from clients import PROMPT
from process import Failed, Server, free_port


def mock(program, core, streaming, tokens):
    """Ridgeline's mock server in instant mode, one core."""
    return Server([program, "mock-server", "--mode", "instant", "--port", "0", "--cores", str(core),
                   "--max-tokens-default", str(tokens)], core)


def ask(address, streaming):
    """The body of one answer."""
    body = {"model": "mock", "messages": [{"role": "user", "content": PROMPT}], "stream": streaming}
    request = urllib.request.Request(f"http://{address}/v1/chat/completions",
                                     json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.read().decode()


class BareServer:
    """The ceiling: answers with bytes made at start."""

    name, binary = "bare-server", "bare-server"

    def start(self, program, core, job):
        argv = [program, "--attached", "--mode", "coalesced" if job.streaming else "request"]
        return Server([*argv, "--events", str(job.tokens)], core)


class MockServer:
    name, binary = "ridgeline", "ridgeline"

    def start(self, program, core, job):
        return mock(program, core, job.streaming, job.tokens)


class Nginx:
    """`return 200` with our answer as its body, one worker."""

    name, binary = "nginx", "nginx"

    def start(self, program, core, job):
        if job.streaming:
            raise Failed("streams nothing by `return`")
        if any(sign in job.answer for sign in "'\\$"):
            raise Failed("can't be told this body")
        port, folder = free_port(), job.folder
        temporary = "".join(f"{kind}_temp_path {folder}/{kind}; "
                            for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        config = (
            f"daemon off; worker_processes 1; error_log stderr crit; pid {folder}/pid;\n"
            "events { worker_connections 4096; }\n"
            f"http {{ access_log off; server_tokens off; {temporary}\n"
            "keepalive_timeout 3600s; keepalive_requests 1000000000;\n"
            f"server {{ listen 127.0.0.1:{port} backlog=4096; default_type application/json;\n"
            f"location / {{ return 200 '{job.answer}'; }} }} }}\n")
        path = os.path.join(folder, "nginx.conf")
        with open(path, "w") as file:
            file.write(config)
        return Server([program, "-e", "stderr", "-c", path], core, port)


class EndpointsServer:
    """max_throughput_server of mlcommons/endpoints, one worker; the program is the Python that has
    it. Its text has as many characters as ours has bytes; its streams have as many events."""

    name, binary = "endpoints", None

    def start(self, program, core, job):
        port = free_port()
        length = job.tokens
        if not job.streaming:
            length = len(json.loads(job.answer)["choices"][0]["message"]["content"])
        return Server([program, "-m", "inference_endpoint.testing.max_throughput_server",
                       "--host", "127.0.0.1", "--port", str(port), "--num-workers", "1",
                       "--output-length", str(length), *(["--stream"] if job.streaming else [])],
                      core, port)


class GuidellmServer:
    """guidellm's mock server with no delays."""

    name, binary = "guidellm", None

    def start(self, program, core, job):
        port = free_port()
        return Server([program, "mock-server", "--host", "127.0.0.1", "--port", str(port),
                       "--model", "mock", "--ttft-ms", "0", "--itl-ms", "0",
                       "--output-tokens", str(job.tokens)], core, port)


SERVERS = [BareServer(), MockServer(), Nginx(), EndpointsServer(), GuidellmServer()]
