"""Writes the main comparisons of a run as SVG files.

    bench/run --charts DIR            after a run, a chart for each part that was measured
    bench/charts.py FILE DIR          from the JSON that `bench/run --json FILE` wrote

Every chart has bars on one linear scale that begins at 0, and the figure beside each bar. The same
figures give the same bytes.
"""

import json
import os
import sys
from xml.sax.saxutils import escape

WIDTH, LABELS, VALUES = 760, 250, 130
BAR, GAP, GROUP = 18, 6, 30

STYLE = """
text{font:13px system-ui,sans-serif;fill:#24292f}.title{font-weight:600;font-size:15px}.soft{fill:#57606a;font-size:12px}
.group{font-weight:600}.bar{fill:#afb8c1}.ours{fill:#0f766e}.axis{stroke:#afb8c1}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.soft{fill:#9da7b1}.bar{fill:#57606a}.ours{fill:#2bb5a6}.axis{stroke:#57606a}}
"""


def chart(title, note, groups):
    """Returns an SVG file. A group is its name and bars: label, value, the value as text, and whether it is ours."""
    largest = max((value for _, bars in groups for _, value, _, _ in bars), default=0) or 1
    scale = (WIDTH - LABELS - VALUES) / largest
    out, y = [], 62
    for name, bars in groups:
        if name:
            out.append(f'<text class="group" x="0" y="{y + 13}">{escape(name)}</text>')
            y += GROUP - GAP
        for label, value, text, ours in bars:
            width = max(1.0, value * scale)
            out.append(f'<text x="{LABELS - 10}" y="{y + 13}" text-anchor="end">{escape(label)}</text>')
            kind = "bar ours" if ours else "bar"
            out.append(f'<rect class="{kind}" x="{LABELS}" y="{y}" width="{width:.1f}" height="{BAR}" rx="2"/>')
            out.append(f'<text x="{LABELS + width + 8:.1f}" y="{y + 13}">{escape(text)}</text>')
            y += BAR + GAP
        y += GAP
    axis = f'<line class="axis" x1="{LABELS}" x2="{LABELS}" y1="54" y2="{y - GAP}"/>'
    said = "; ".join(f"{name}: " * bool(name) + f"{label} {text}" for name, bars in groups for label, _, text, _ in bars)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" width="{WIDTH}" height="{y}" role="img" '
        f'aria-labelledby="t d">\n<title id="t">{escape(title)}</title>\n<desc id="d">{escape(said)}</desc>\n'
        f"<style>{STYLE}</style>\n"
        f'<text class="title" x="0" y="18">{escape(title)}</text>\n<text class="soft" x="0" y="38">{escape(note)}</text>\n'
        + axis + "\n" + "\n".join(out) + "\n</svg>\n"
    )


def milliseconds(value):
    return f"{value:,.0f} ms" if value >= 100 else f"{value:.1f} ms" if value >= 1 else f"{value:.2f} ms"


def timed(bars):
    return [(label, value, milliseconds(value), ours) for label, value, ours in bars if value is not None]


def field(figures, *names):
    """Returns a figure, or None where it was not measured."""
    for name in names:
        figures = (figures or {}).get(name)
    return figures


def blocks(fig):
    bars = timed([
        ("Contexture, cold", field(fig, "ours", "cold_cpu_ms"), True),
        ("Contexture, counts cached", field(fig, "ours", "warm_cpu_ms"), True),
        ("prompt-tsx, separate messages", field(fig, "prompt_tsx_messages", "cpu_ms"), False),
        ("prompt-tsx, chunks of one message", field(fig, "prompt_tsx_chunks", "cpu_ms"), False),
    ])
    return chart("1,000 blocks into 128,000 tokens", "CPU time; less is better", [("", bars)])


def tokens(fig):
    def rate(name):
        got = fig.get(name)
        return got and got["bytes"] / got["cpu_ms"] / 1000

    bars = [("Contexture", rate("ours"), True), ("Python tiktoken", rate("tiktoken"), False), ("gpt-tokenizer", rate("gpt_tokenizer"), False)]
    bars = [(label, value, f"{value:.1f} MB/s", ours) for label, value, ours in bars if value]
    return chart("Counting o200k tokens", "text per second of one core; more is better", [("", bars)])


def pack(fig):
    groups = []
    for title, key, text in (("CPU time", "cpu_ms", milliseconds), ("peak memory", "rss_mb", lambda value: f"{value:.0f} MB")):
        bars = [("Contexture", "ours", True), ("yek", "yek", False), ("repomix", "repomix", False)]
        bars = [(label, field(fig, name, key), ours) for label, name, ours in bars]
        groups.append((title, [(label, value, text(value), ours) for label, value, ours in bars if value]))
    # Two units have no scale in common.
    most = [max((value for _, value, _, _ in bars), default=1) for _, bars in groups]
    groups = [(name, [(label, value / top, text, ours) for label, value, text, ours in bars]) for (name, bars), top in zip(groups, most)]
    return chart("A source tree into 128,000 tokens", "each group has its own scale; less is better", groups)


def trim(fig):
    time = timed([
        ("Contexture, the core", field(fig, "ours", "core_cold_cpu_ms"), True),
        ("Contexture, SQLite, counts stored", field(fig, "ours", "engine_cold_cpu_ms"), True),
        ("Contexture, SQLite, no counts", field(fig, "ours", "engine_uncounted_cold_cpu_ms"), True),
        ("LangChain with tiktoken", field(fig, "langchain", "tiktoken", "cpu_ms"), False),
    ])
    return chart("2,000 messages truncated to 100,000 tokens", "CPU time of the first call; less is better", [("", time)])


def valid(fig):
    bars = []
    for label, name, ours in (
        ("Contexture", "ours_valid", True),
        ("LangChain, as its guide says", "langchain_valid_guide", False),
        ("LangChain, strategy “last”", "langchain_valid_last", False),
        ("LangChain, strategy “first”", "langchain_valid_first", False),
    ):
        got = fig.get(name)
        if got:
            share = 100 * got["invalid"] / got["results"]
            bars.append((label, share, f"{share:.0f} %", ours))
    return chart("Requests that a provider would reject", "of a chat with tool calls, truncated to some 700 budgets", [("", bars)])


def cache(fig):
    bars = [
        ("Contexture", fig["ours"]["cost"], True), ("sliding window", fig["sliding"]["cost"], False),
        ("without a cache", fig["ours"]["cost_uncached"], False),
    ]
    bars = [(label, value, f"{value / 1e6:.2f} million", ours) for label, value, ours in bars]
    return chart("What 200 turns cost", "billed like so many uncached input tokens, at Anthropic's cache prices; less is better", [("", bars)])


def recall(fig):
    evidence = field(fig, "locomo", "evidence")
    if not evidence:
        return None
    ways = [("Contexture", "ours"), ("full text alone", "words"), ("vectors alone", "vectors"), ("most recent", "recent")]
    groups = []
    for budget in sorted(evidence, key=int):
        bars = [(label, evidence[budget][way]["all"], way) for label, way in ways if way in evidence[budget]]
        groups.append((f"{int(budget):,} tokens", [(label, value, f"{value:.1f} %", way == "ours") for label, value, way in bars]))
    return chart("Evidence in the recalled context", "997 questions about conversations of LoCoMo; more is better", groups)


def agents(fig):
    rows = field(fig, "replayed", "rows")
    if not rows:
        return None
    names = {row["trace"] for row in rows}
    total = "all" if "all" in names else sorted(names)[0]
    rows = {(row["shape"], row["window"], row["method"]): row["figures"] for row in rows if row["trace"] == total}
    groups = []
    for window in sorted({window for _, window, _ in rows}):
        for kind in ("errors", "paths"):
            bars = []
            for label, method in (("Contexture", "contexture"), ("summary at 80 %", "summarise at 80 %"), ("sliding window", "sliding window")):
                got = field(rows.get(("recorded", window, method)), "survival", kind)
                if got and got["of"]:
                    share = 100 * got["found"] / got["of"]
                    bars.append((label, share, f"{share:.0f} %", method == "contexture"))
            if bars:
                groups.append((f"{kind}, {window:,} tokens", bars))
    return chart("Facts of an agent's run in its last request", "recorded runs, replayed; more is better", groups)


CHARTS = {
    "blocks": [("blocks", blocks)], "tokens": [("tokens", tokens)], "pack": [("pack", pack)], "trim": [("trim", trim), ("valid", valid)],
    "cache": [("cache", cache)], "recall": [("recall", recall)], "agents": [("agents", agents)],
}


def write(figures, wrong, directory):
    """Writes a chart for each part that was measured and has no wrong answer. Returns the paths."""
    os.makedirs(directory, exist_ok=True)
    written = []
    # A wrong answer makes the figures beside it meaningless. It begins with the part.
    without = {text.split(":")[0].split(",")[0] for text in wrong}
    for part, charts in CHARTS.items():
        if part in without:
            continue
        for name, draw in charts:
            text = draw(figures[part]) if figures.get(part) else None
            if text and "<rect" in text:
                path = os.path.join(directory, name + ".svg")
                with open(path, "w", encoding="utf-8", newline="\n") as file:
                    file.write(text)
                written.append(path)
    return written


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as given:
        run = json.load(given)
    for path in write(run["figures"], run["wrong"], sys.argv[2]):
        print(path)
