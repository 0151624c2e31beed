"""The servers: how each is made to answer every request with the same few hundred bytes."""

import json
import os
import subprocess
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
    """`return 200` with our answer as its body, one worker; by TLS 1.3 with `secure`, and HTTP/2 by that."""

    name, binary = "nginx", "nginx"

    def start(self, program, core, job, secure=False):
        if job.streaming:
            raise Failed("streams nothing by `return`")
        if any(sign in job.answer for sign in "'\\$"):
            raise Failed("can't be told this body")
        port, folder = free_port(), job.folder
        temporary = "".join(f"{kind}_temp_path {folder}/{kind}; "
                            for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        ssl, keys = "", ""
        if secure:
            ssl = " ssl http2" if job.streams else " ssl"
            keys = (f"ssl_certificate {folder}/cert.pem; ssl_certificate_key {folder}/key.pem;\n"
                    "ssl_protocols TLSv1.3;\n")
            certify(folder)
        config = (
            f"daemon off; worker_processes 1; error_log stderr crit; pid {folder}/pid;\n"
            "events { worker_connections 4096; }\n"
            f"http {{ access_log off; server_tokens off; {temporary}\n"
            "keepalive_timeout 3600s; keepalive_requests 1000000000;\n"
            f"server {{ listen 127.0.0.1:{port}{ssl} backlog=4096; {keys}default_type application/json;\n"
            f"location / {{ return 200 '{job.answer}'; }} }} }}\n")
        path = os.path.join(folder, "nginx.conf")
        with open(path, "w") as file:
            file.write(config)
        return Server([program, "-e", "stderr", "-c", path], core, port)


def certify(folder):
    """A certificate for 127.0.0.1 that is its own root, and its key."""
    argv = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
            "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1",
            "-keyout", f"{folder}/key.pem", "-out", f"{folder}/cert.pem"]
    subprocess.run(argv, check=True, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


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
