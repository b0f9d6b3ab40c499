"""python measure.py STDOUT STDERR COMMAND...: runs COMMAND, prints its cost as JSON.

A process of its own because a child's peak memory counts that of the process it was started from:
this one stays small, bench/run does not.
"""

import os
import sys
import time

out, err, *args = sys.argv[1:]
flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
started = time.monotonic()
pid = os.posix_spawnp(
    args[0],
    args,
    os.environ,
    file_actions=[
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, out, flags, 0o644),
        (os.POSIX_SPAWN_OPEN, 2, err, flags, 0o644),
    ],
)
_, status, usage = os.wait4(pid, 0)
wall = (time.monotonic() - started) * 1000
cpu = (usage.ru_utime + usage.ru_stime) * 1000
rss = usage.ru_maxrss / (1024 * 1024 if sys.platform == "darwin" else 1024)
code = os.waitstatus_to_exitcode(status)
print(f'{{"code": {code}, "cpu_ms": {cpu:.3f}, "rss_mb": {rss:.2f}, "wall_ms": {wall:.3f}}}')
