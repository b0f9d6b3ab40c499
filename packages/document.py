"""Prints the OpenAPI document of the command that CONTEXTURE_BIN names."""

import os
import subprocess
import sys
import tempfile
import urllib.request

with tempfile.TemporaryDirectory() as root:
    command = [os.environ["CONTEXTURE_BIN"], "serve", "--stop-with-stdin"]
    command += ["--addr", "127.0.0.1:0", "--root", root]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as server:
        assert server.stdin and server.stderr
        address = server.stderr.readline().decode().split()[2]
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        sys.stdout.buffer.write(direct.open(f"{address}/openapi.json").read())
        server.stdin.close()
        server.stderr.read()
