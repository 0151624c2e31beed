#!/usr/bin/env python3
"""Ridgeline against servers that close connections: uvicorn (after 5 s of rest), nginx (after 100
requests, which it announces) and one that closes after 100 requests without a word.

All three at a time, 200 requests/s, then 1, then 200 again. By hand, for what is lost and not for speed:
    perf/peers/closing.py --program target/release/ridgeline --uvicorn ENV/bin/uvicorn
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading

from process import free_port

ANSWER = json.dumps({"choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"},
                                  "finish_reason": "stop"}],
                     "usage": {"prompt_tokens": 1, "completion_tokens": 1}})

# A stream of four events, as an application of uvicorn's.
APPLICATION = '''
import asyncio, json

async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200,
                "headers": [(b"content-type", b"text/event-stream")]})
    for word in ("a", "b", "c", None):
        delta = {"content": word} if word else {}
        choice = {"index": 0, "delta": delta, "finish_reason": None if word else "stop"}
        event = "data: " + json.dumps({"choices": [choice]}) + "\\n\\n"
        await send({"type": "http.response.body", "body": event.encode(), "more_body": True})
        await asyncio.sleep(0.002)
    await send({"type": "http.response.body", "body": b"data: [DONE]\\n\\n"})
'''

# Reads the request after the hundredth, and closes.
SILENT = '''
import asyncio, sys

async def serve(reader, writer):
    try:
        for number in range(101):
            head = await reader.readuntil(b"\\r\\n\\r\\n")
            fields = [line.split(b":", 1) for line in head.lower().split(b"\\r\\n")]
            length = [int(field[1]) for field in fields if field[0] == b"content-length"]
            await reader.readexactly(sum(length))
            if number < 100:
                body = sys.argv[2].encode()
                writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\n"
                             b"Content-Length: %d\\r\\n\\r\\n%b" % (len(body), body))
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    writer.close()

async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[1]))
    await server.serve_forever()

asyncio.run(main())
'''


def uvicorn(program, folder, port):
    with open(os.path.join(folder, "application.py"), "w") as file:
        file.write(APPLICATION)
    return [program, "--app-dir", folder, "application:app", "--port", str(port),
            "--log-level", "warning"]


def nginx(folder, port):
    temporary = "".join(f"{kind}_temp_path {folder}/{kind}; "
                        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    config = os.path.join(folder, "nginx.conf")
    with open(config, "w") as file:
        file.write(f"daemon off; worker_processes 1; error_log stderr crit; pid {folder}/pid;\n"
                   "events { worker_connections 1024; }\n"
                   f"http {{ access_log off; {temporary} keepalive_requests 100;\n"
                   f"server {{ listen 127.0.0.1:{port}; default_type application/json;\n"
                   f"location / {{ return 200 '{ANSWER}'; }} }} }}\n")
    return ["nginx", "-p", folder, "-c", config]


def reachable(program, url):
    """Waits for a server: `probe` says when it answers."""
    for _ in range(100):
        probe = [program, "probe", "--url", url, "--model", "m", "--prompt", "Hi"]
        if subprocess.run(probe, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0:
            return True
    return False


def measure(name, arguments, url, stages, results):
    with tempfile.TemporaryDirectory() as folder:
        argv = [arguments.program, "bench", "--url", url, "--model", "m", "--prompt", "Hi",
                "--output-dir", folder]
        if name != "uvicorn":
            argv.append("--no-streaming")
        for rate, seconds in stages:
            argv += ["--stage", f"rate={rate},duration={seconds}s"]
        ran = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        with open(os.path.join(folder, "report.json")) as file:
            report = json.load(file)
    load = report["load"]
    opened = sum(shard["connections_opened"] for shard in report["harness"]["shards"])
    figures = {key: load[key] for key in ("issued", "completed", "failed", "cancelled", "retried")}
    results[name] = {"exit": ran.returncode, "verdict": report["verdict"]["status"], **figures,
                     "connections": opened, "errors": report["errors"], "said": ran.stdout}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", required=True)
    parser.add_argument("--uvicorn")
    parser.add_argument("--seconds", type=int, default=60, help="of each of the fast stages")
    arguments = parser.parse_args()
    stages = [(200, arguments.seconds), (1, arguments.seconds // 2), (200, arguments.seconds)]
    servers, threads, results = [], [], {}
    with tempfile.TemporaryDirectory() as folder:
        commands = {}
        ports = {name: free_port() for name in ("uvicorn", "nginx", "silent")}
        if arguments.uvicorn:
            commands["uvicorn"] = uvicorn(arguments.uvicorn, folder, ports["uvicorn"])
        commands["nginx"] = nginx(folder, ports["nginx"])
        commands["silent"] = [sys.executable, "-c", SILENT, str(ports["silent"]), ANSWER]
        try:
            for name, argv in commands.items():
                servers.append(subprocess.Popen(argv, stdin=subprocess.DEVNULL))
                url = f"http://127.0.0.1:{ports[name]}"
                if not reachable(arguments.program, url):
                    print(f"{name}: not reachable")
                    continue
                threads.append(threading.Thread(target=measure,
                                                args=(name, arguments, url, stages, results)))
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            for server in servers:
                server.terminate()
                server.wait()
    failed = 0
    for name, figures in results.items():
        print(f"--- {name}\n{figures.pop('said')}")
        failed += figures["failed"]
        print(json.dumps({name: figures}))
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
