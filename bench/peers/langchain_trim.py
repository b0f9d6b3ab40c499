"""python langchain_trim.py VOCABULARY_DIR MESSAGES WARM BUDGET RUNS
   python langchain_trim.py VOCABULARY_DIR CHAT BUDGETS

Cuts messages to a budget of o200k tokens with LangChain's `trim_messages`, counting as its guide does
with tiktoken (whose vocabulary is read as in tiktoken_count.py). The first form measures: CPU time,
vocabulary loaded, warmed up on other messages. The second prints the shape of what is left of a chat
with tool calls at each budget of FROM:TO:STEP, for the ways of calling it in WAYS.
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
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage, trim_messages

directory, file, *rest = sys.argv[1:]
public.load_tiktoken_bpe = lambda _, expected_hash=None: tiktoken.load.load_tiktoken_bpe(
    os.path.join(directory, "o200k_base.tiktoken"), expected_hash
)
encoding = tiktoken.Encoding(**public.o200k_base())
ROLES = {"human": "user", "ai": "assistant", "tool": "tool", "system": "system"}

# How it is called: as it is by default, and as its guide says for chats.
WAYS = {
    "last": {"strategy": "last"},
    "first": {"strategy": "first"},
    "guide": {"strategy": "last", "start_on": "human", "end_on": ("human", "tool"), "include_system": True},
}


def read(path):
    with open(path, encoding="utf-8", newline="") as f:
        return json.load(f)


def tokens_of(text):
    return len(encoding.encode_ordinary(text))


def counter(messages):
    """As in LangChain's guide: three for the answer, three and the role for each message."""
    total = 3
    for message in messages:
        total += 3 + tokens_of(ROLES[message.type]) + tokens_of(message.content)
    return total


def measure(warm, budget, runs):
    kind = {"user": HumanMessage, "assistant": AIMessage}
    messages = [kind[m["role"]](m["text"]) for m in read(file)]
    other = [kind[m["role"]](m["text"]) for m in read(warm)[:200]]
    trim_messages(other, max_tokens=4_000, token_counter=counter)
    answer = {}
    for name, count in (("tiktoken", counter), ("approximate", "approximate")):
        times = []
        for _ in range(runs):
            start = time.process_time()
            kept = trim_messages(messages, max_tokens=budget, token_counter=count)
            times.append((time.process_time() - start) * 1000)
        answer[name] = {
            "cpu_ms": statistics.median(times),
            "kept": len(kept),
            "tokens": counter(kept),
            "newest": kept == messages[-len(kept) :],
            "runs": times,
        }
    return answer


def shapes(budgets):
    # Counted once: only what is left matters here.
    known = {}

    def cached(messages):
        total = 3
        for message in messages:
            key = id(message)
            if key not in known:
                calls = json.dumps([[c["name"], c["args"]] for c in getattr(message, "tool_calls", [])])
                known[key] = 4 + tokens_of(message.content) + tokens_of(calls)
            total += known[key]
        return total

    messages = [SystemMessage("You mend builds. Answer briefly, and look before you answer.")]
    for turn in read(file):
        for message in turn["messages"]:
            if message["role"] == "user":
                messages.append(HumanMessage(message["content"]))
            elif message["role"] == "tool":
                messages.append(ToolMessage(message["content"], tool_call_id=message["tool_call_id"]))
            elif isinstance(message["content"], str):
                messages.append(AIMessage(message["content"]))
            else:
                calls = [
                    {"id": block["id"], "name": block["name"], "args": block["arguments"]}
                    for block in message["content"]
                ]
                messages.append(AIMessage("", tool_calls=calls))
    messages.append(HumanMessage("Go on."))
    answer = {}
    for name, way in WAYS.items():
        answer[name] = []
        for budget in range(*budgets):
            kept = trim_messages(messages, max_tokens=budget, token_counter=cached, **way)
            shape = [
                {
                    "role": ROLES[message.type],
                    "calls": [call["id"] for call in getattr(message, "tool_calls", [])],
                    "answers": getattr(message, "tool_call_id", None),
                }
                for message in kept
            ]
            answer[name].append({"budget": budget, "messages": shape})
    return answer


if len(rest) == 3:
    answer = measure(rest[0], int(rest[1]), int(rest[2]))
else:
    answer = shapes([int(n) for n in rest[0].split(":")])
print(json.dumps(answer))
