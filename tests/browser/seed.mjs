// Fills a server with what the views show: sessions, requests, memory, trees;
// and, for the hostile ones, with content that tries to break the page.

import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

/** A client of the API. */
export function client(base, key) {
  return async (method, path, body) => {
    const response = await fetch(base + path, {
      method,
      headers: { ...(key && { authorization: `Bearer ${key}` }), ...(body && { "content-type": "application/json" }) },
      body: body && JSON.stringify(body),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return text ? JSON.parse(text) : null;
  };
}

const file = (root, path, text) => {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), text);
};

/** Writes the files of a small project. */
export function project(root) {
  const code = (name, lines) => Array.from({ length: lines }, (_, i) => `fn ${name}_${i}(input: &str) -> usize { input.len() + ${i} }`).join("\n") + "\n";
  file(root, "AGENTS.md", "# Harbour\n\nAnswer briefly. Times are local.\n");
  file(root, "README.md", "# The ferry\n\nTimetables of the ferry, and who sails when.\n");
  file(root, "src/timetable.rs", code("timetable", 120));
  file(root, "src/tide.rs", code("tide", 200));
  file(root, "src/weather.rs", code("weather", 300));
  file(root, "docs/moorings.md", "# Moorings\n\n" + "The north mooring is for guests.\n".repeat(150));
  file(root, "working-set.yml", `protocol: CONTEXT-ASSEMBLY/0.1
budget: {max_tokens: 6000, reserved_for_response: 500}
files:
  - {path: AGENTS.md, priority: 1.0, role: system, truncate_strategy: never}
  - {path: README.md, priority: 0.9}
  - {path: src/timetable.rs, priority: 0.8}
  - {path: src/tide.rs, priority: 0.6}
  - {path: src/weather.rs, priority: 0.3, truncate_strategy: never}
  - {path: docs/moorings.md, priority: 0.2, truncate_strategy: never}
`);
}

const QUESTIONS = ["When does the ferry leave?", "Is it late today?", "Who sails it?", "Can I bring a bicycle?", "Which mooring is free?", "Why does the build fail?"];

/** Fills a server. Returns what the tests open. */
export async function seed(call) {
  await call("POST", "/v1/sessions", { label: "harbour", task: "Answer questions about the ferry" });
  const requests = [];
  for (let i = 0; i < 12; i++) {
    const event = QUESTIONS[i % QUESTIONS.length];
    const made = await call("POST", "/v1/assemble", { recipe: "broker", session: "harbour", event, model: "claude-sonnet-4-5", max_tokens: 12_000, reserve_response: 500 });
    requests.push(made.report.snapshot);
    const input = made.report.budget.used;
    await call("POST", "/v1/sessions/harbour/turns", {
      messages: [
        { role: "user", content: event },
        { role: "assistant", content: [{ type: "text", text: "Let me look." }, { type: "tool_call", id: `c${i}`, name: "timetable", arguments: { day: i } }] },
        { role: "tool", tool_call_id: `c${i}`, content: `sailing ${i}: nine o'clock\n`.repeat(8) },
        { role: "assistant", content: `At nine, as on day ${i}.` },
      ],
      model: "claude-sonnet-4-5", provider: "anthropic", stop_reason: "end_turn",
      usage: { input_tokens: input, output_tokens: 40 + i, cached_input_tokens: i ? Math.floor(input * 0.7) : 0, cache_write_tokens: 100 },
    });
  }
  await call("POST", "/v1/sessions/harbour/compact", {});
  const left = await call("POST", "/v1/assemble", { recipe: "working-set", event: "Why does the build fail?", model: "gpt-4o" });
  await call("POST", "/v1/sessions", { label: "quiet" });
  await call("POST", "/v1/memory/records", { records: [
    { kind: "event", id: "ferry", session_id: "harbour", timestamp: "2026-01-31T08:00:00Z", type: "user_message", actor: "user", content: { speaker: "Ana", text: "The ferry to Skye leaves at nine." } },
    { kind: "event", id: "bicycle", session_id: "harbour", timestamp: "2026-01-31T08:01:00Z", type: "user_message", actor: "user", content: { speaker: "Ben", text: "I keep my bicycle in the shed by the ferry." } },
    { kind: "event", id: "captain", session_id: "harbour", timestamp: "2026-02-01T08:01:00Z", type: "user_message", actor: "user", content: { speaker: "Ana", text: "The captain of the ferry is called Morag." } },
    { kind: "chunk", id: "tides", source: "tides.md", text: "The tide tables are printed in March. The ferry waits for the tide." },
    ...Array.from({ length: 30 }, (_, i) => ({ kind: "event", id: `sailing-${i}`, session_id: "harbour", timestamp: `2026-01-${String(1 + (i % 28)).padStart(2, "0")}T09:00:00Z`, type: "log", content: `Sailing ${i}: the ferry left with ${10 + i} passengers.` })),
  ] });
  const nodes = [], edges = [];
  const add = (id, after, author, content) => {
    nodes.push({ id, author, content, created_at: `2026-03-01T10:${String(nodes.length % 60).padStart(2, "0")}:00Z`, ...(author === "model" && { author_agent_id: "guide" }) });
    if (after) edges.push({ id: `edge-${id}`, type: "continuation", sources: [{ node_id: after, role: "primary" }], target_node_id: id });
  };
  add("start", null, "human", "Tell me a story about a ferry.");
  add("calm", "start", "model", "The sea was calm, and the ferry waited.");
  add("storm", "start", "model", "A storm rose, and the ferry waited.");
  add("fog", "start", "model", "Fog hid the pier; the ferry waited.");
  add("calm-more", "calm", "human", "Who is on board?");
  add("calm-crew", "calm-more", "model", "Morag, her dog, and a crate of lemons.");
  add("storm-more", "storm", "human", "Does it sail?");
  await call("POST", "/v1/trees", {
    tree: { id: "story", mode: "dialogue", title: "The ferry" },
    agents: [{ id: "guide", type: "model", system_prompt: "Be brief." }],
    nodes, edges, paths: [{ name: "main", head: "calm-crew" }],
  });
  return { requests, left: left.report.snapshot };
}

export const SCRIPT = `<img src=x onerror="window.broken=1"><script>window.broken=1</script>`;
export const CODES = "\u001b[31mred\u001b[0m\u0007\u202edesrever\u0001";
export const HUGE = "W".repeat(20_000);

/** Fills a server with content that tries to run, to reorder or to overflow. */
export async function seedHostile(call) {
  const requests = [];
  const texts = { script: SCRIPT, codes: CODES, huge: HUGE };
  const label = "hostile<img src=x onerror=window.broken=1>";
  await call("POST", "/v1/sessions", { label, task: SCRIPT + CODES + HUGE.slice(0, 2000) });
  for (const text of Object.values(texts)) {
    const made = await call("POST", "/v1/assemble", { recipe: "broker", session: label, event: text });
    requests.push(made.report.snapshot);
    await call("POST", `/v1/sessions/${encodeURIComponent(label)}/turns`, {
      messages: [{ role: "user", content: text }, { role: "assistant", content: text }],
      model: "m<script>window.broken=1</script>", usage: { input_tokens: 100, output_tokens: 10 },
    });
  }
  const items = Object.entries(texts).map(([name, text]) => ({ id: `${name} ${text.slice(0, 200)}`, content: text, priority: 0.1 }));
  items.push({ id: "large <b>one</b>", content: "word ".repeat(30_000), priority: 0.01, cut: "never" });
  const inline = await call("POST", "/v1/assemble", { recipe: "inline", session: label, items, event: SCRIPT, model: "gpt-4o", max_tokens: 9000, reserve_response: 500 });
  requests.push(inline.report.snapshot);
  await call("POST", "/v1/memory/records", { records: Object.entries(texts).map(([name, text]) => ({ kind: "event", id: `${name}-<b>`, session_id: "s<b>", type: "note<b>", content: `hostile ${text}` })) });
  await call("POST", "/v1/memory/records", { records: [
    { kind: "entity", id: "evil", type: "note<b>", name: SCRIPT, aliases: [CODES], properties: { "<b>": SCRIPT } },
    ...Object.entries(texts).flatMap(([name, text]) => [
      { kind: "entity", id: `evil-${name}`, type: "t<b>", name: text.slice(0, 400) },
      { kind: "relation", id: `r-${name}`, type: `is<b> ${text.slice(0, 40)}`, source_id: "evil", target_id: `evil-${name}` },
    ]),
  ] });
  await call("POST", "/v1/trees", {
    tree: { id: "hostile<b>", mode: "dialogue", title: SCRIPT },
    nodes: [
      { id: "h1<i>", author: "human", content: SCRIPT }, { id: "h2<i>", author: "model", content: CODES }, { id: "h3<i>", author: "model", content: HUGE },
    ],
    edges: ["h2<i>", "h3<i>"].map((id) => ({ id: `e-${id}`, type: "continuation", sources: [{ node_id: "h1<i>", role: "primary" }], target_node_id: id })),
  });
  return { requests, label };
}

/** Fills a server with a session of many turns and a tree of many nodes. */
export async function seedLarge(call, size) {
  await call("POST", "/v1/sessions", { label: "large" });
  let next = 0;
  // Several at once share a commit of the store.
  const worker = async () => {
    for (let i = next++; i < size; i = next++)
      await call("POST", "/v1/sessions/large/turns", {
        messages: [{ role: "user", content: `Question ${i} about the ferry, in a sentence of usual length.` }, { role: "assistant", content: `Answer ${i}: it leaves at nine, and returns at five.` }],
        model: "claude-sonnet-4-5", usage: { input_tokens: 2000 + (i % 500) * 20, output_tokens: 60, cached_input_tokens: 1500 + (i % 500) * 15 },
      });
  };
  await Promise.all(Array.from({ length: 16 }, worker));
  const nodes = [], edges = [];
  for (let i = 0; i < size; i++) {
    nodes.push({ id: `n${i}`, author: i % 2 ? "model" : "human", content: `Node ${i}: the ferry sails on, and somebody tells of it.` });
    // Half of it is one long line; the rest branches off it.
    const from = i < size / 2 ? i - 1 : (i * 7919) % i;
    if (i) edges.push({ id: `e${i}`, type: "continuation", sources: [{ node_id: `n${from}`, role: "primary" }], target_node_id: `n${i}` });
  }
  await call("POST", "/v1/trees", { tree: { id: "large", mode: "dialogue", title: "Ten thousand nodes" }, nodes, edges });
}

/** Assembles a request of about `tokens` tokens from files. Returns its hash. */
export async function seedLargeRequest(call, root, tokens) {
  const names = Array.from({ length: 60 }, (_, i) => `large/part-${i}.md`);
  for (const [i, name] of names.entries())
    file(root, name, Array.from({ length: Math.ceil(tokens / 60 / 14) }, (_, line) => `Line ${line} of part ${i}: the ferry sails at nine and returns at five.`).join("\n") + "\n");
  file(root, "large.yml", `protocol: CONTEXT-ASSEMBLY/0.1
budget: {max_tokens: ${tokens}, reserved_for_response: 1000}
files:
${names.map((name, i) => `  - {path: ${name}, priority: ${(1 - i / 100).toFixed(2)}}`).join("\n")}
`);
  const made = await call("POST", "/v1/assemble", { recipe: "working-set", manifest: "large.yml", event: "Why?", model: "gpt-4o" });
  return { hash: made.report.snapshot, tokens: made.report.budget.used };
}
