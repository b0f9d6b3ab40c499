"""python langchain_cold.py VOCABULARY_DIR REQUEST BUDGET

Cuts the messages of a Chat Completions request to a budget of o200k tokens with LangChain's `trim_messages`, once,
in this process. Prints the CPU time of the call alone, and of all that came before it: starting Python, importing,
loading the vocabulary and making the messages. The vocabulary is read as in tiktoken_count.py.
"""

import json
import os
import sys
import time

os.environ["TIKTOKEN_CACHE_DIR"] = ""
import tiktoken
import tiktoken.load
import tiktoken_ext.openai_public as public
from langchain_core.messages import AIMessage, HumanMessage, trim_messages

directory, file, budget = sys.argv[1:]
public.load_tiktoken_bpe = lambda _, expected_hash=None: tiktoken.load.load_tiktoken_bpe(
    os.path.join(directory, "o200k_base.tiktoken"), expected_hash
)
encoding = tiktoken.Encoding(**public.o200k_base())
encoding.encode_ordinary("load the vocabulary")
ROLES = {"human": "user", "ai": "assistant"}


def counter(messages):
    """As in LangChain's guide: three for the answer, three and the role for each message."""
    total = 3
    for message in messages:
        total += 3 + len(encoding.encode_ordinary(ROLES[message.type]))
        total += len(encoding.encode_ordinary(message.content))
    return total


with open(file, encoding="utf-8") as f:
    said = json.load(f)["messages"]
kind = {"user": HumanMessage, "assistant": AIMessage}
messages = [kind[message["role"]](message["content"]) for message in said]
before = time.process_time()
kept = trim_messages(messages, max_tokens=int(budget), token_counter=counter, strategy="last")
cpu = time.process_time() - before
answer = {"cpu_ms": cpu * 1000, "before_cpu_ms": before * 1000, "kept": len(kept), "tokens": counter(kept)}
print(json.dumps(answer | {"newest": kept == messages[-len(kept) :]}))
