// A small agent over HTTP: Contexture assembles, a model answers, Contexture records. See README.md.
//
//     CONTEXTURE_URL=http://127.0.0.1:4650 CONTEXTURE_KEY=ctx_… npm start
//
// Without OPENAI_API_KEY, a stand-in answers: see model.ts.

import createClient from "openapi-fetch";

// Made from the server's OpenAPI document by `npm run types`.
import type { components, paths } from "./api.js";
import { MODEL, openAi, standIn, textOf, type Call, type ChatAnswer, type ChatRequest } from "./model.js";

type Turn = components["schemas"]["NewTurn"];
type Report = components["schemas"]["Report"];
type Rendered = components["schemas"]["RenderedRequest"];
/** A provider's response, as it came. */
type Exchange = components["schemas"]["NativeTurn"];

const MOST_ATTEMPTS = 5;
let waited = 0;

/** Too many requests, or the server cannot work now: it says how long to wait. */
async function patiently(request: Request): Promise<Response> {
  for (let attempt = 1; ; attempt++) {
    const answer = await fetch(request.clone());
    if (![429, 503].includes(answer.status) || attempt === MOST_ATTEMPTS) return answer;
    waited++;
    const seconds = Number(answer.headers.get("retry-after") ?? 1);
    await new Promise((done) => setTimeout(done, seconds * 1000));
  }
}

const contexture = createClient<paths>({
  baseUrl: process.env["CONTEXTURE_URL"] ?? "http://127.0.0.1:4650",
  headers: { authorization: `Bearer ${process.env["CONTEXTURE_KEY"] ?? ""}` },
  fetch: patiently,
});

/** What was answered; throws what the server says when it is an error. */
function given<T>(answer: { data?: T; error?: components["schemas"]["Error"] }): T {
  if (answer.error) throw new Error(JSON.stringify(answer.error.error));
  return answer.data as T;
}

const key = process.env["OPENAI_API_KEY"];
const model = key ? openAi(key) : standIn();
const rows: { session: string; tokens: number; shared: number; memories: number; question: string; answer: string }[] = [];
const heard: Record<string, number> = {};
let conflicts = 0;
let latest: Report | undefined;
// The requests of the question that is being answered.
const requests: Rendered[] = [];

/** Counts what happens in a session, from now on. */
async function listen(label: string, signal: AbortSignal): Promise<void> {
  const events = await contexture.GET("/v1/sessions/{label}/events", { params: { path: { label } }, parseAs: "stream", signal });
  const stream = given(events) as unknown as ReadableStream<Uint8Array> | null;
  if (!stream) throw new Error(`${label}: cannot listen to events`);
  void (async () => {
    let text = "";
    for await (const part of stream.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>)) {
      const lines = (text + part).split("\n");
      text = lines.pop() ?? "";
      for (const line of lines) {
        if (!line.startsWith("event: ")) continue;
        const name = line.slice("event: ".length);
        heard[name] = (heard[name] ?? 0) + 1;
      }
    }
  })().catch(() => {});
}

/** Runs a tool. Yours do more. */
async function use(session: string, call: Call): Promise<string> {
  const input = JSON.parse(call.function.arguments) as Record<string, string>;
  if (call.function.name === "price_of") return `Today ${input["what"]} costs 3.80.`;
  if (call.function.name === "order") return `Ordered: ${input["what"]}.`;
  const content = { speaker: "A customer", text: input["fact"] };
  const record = { kind: "event" as const, session_id: session, type: "note", content };
  given(await contexture.POST("/v1/memory/records", { body: { records: [record] } }));
  return `It is noted that ${input["fact"]}.`;
}

/** Asks the model, and runs the tools that it calls, until it has answered. */
async function ask(session: string, question: string, meanwhile?: Turn): Promise<string> {
  given(await record(session, { messages: [{ role: "user", content: question }] }));
  for (;;) {
    const body = { recipe: "broker", session, query: question, model: MODEL, format: "openai-chat" as const };
    const made = given(await contexture.POST("/v1/assemble", { body })) as Rendered;
    const answer = await model(made.request as unknown as ChatRequest);
    if (!(await recordAnswer(session, made, answer, meanwhile))) continue;
    const { content, tool_calls: calls = [] } = answer.choices[0]!.message;
    if (calls.length === 0) return textOf(content);
    const results = calls.map(async (call) => ({ role: "tool" as const, tool_call_id: call.id, content: await use(session, call) }));
    given(await record(session, { messages: await Promise.all(results) }));
  }
}

/** Records a turn. A retry with the same key does not record it twice. */
function record(label: string, body: Turn | Exchange) {
  const params = { path: { label }, header: { "Idempotency-Key": crypto.randomUUID() } };
  return contexture.POST("/v1/sessions/{label}/turns", { params, body });
}

/** Records the answer as the provider sent it. Returns false if another client recorded a turn first. */
async function recordAnswer(session: string, made: Rendered, response: ChatAnswer, meanwhile?: Turn): Promise<boolean> {
  requests.push(made);
  if (meanwhile && requests.length === 1) given(await record(session, meanwhile));
  const recorded = await record(session, { response, parent_turn_id: made.parent_turn_id });
  if (recorded.error?.error.code === "conflict") {
    // The answer did not see the other turn. Nothing was recorded, so ask again.
    conflicts++;
    return false;
  }
  given(recorded);
  return true;
}

/** Asks, and keeps the figures of the first request. */
async function row(session: string, question: string, meanwhile?: Turn): Promise<void> {
  requests.length = 0;
  const answer = await ask(session, question, meanwhile);
  const [first, last] = [requests[0]!, requests.at(-1)!];
  latest = last.report as Report;
  const report = first.report as Report;
  const memories = report.included.filter((row) => row.layer === "memory").length;
  rows.push({ session, tokens: first.tokens, shared: report.cache?.shared_tokens ?? 0, memories, question, answer });
}

const stop = new AbortController();
for (const label of ["friday", "saturday"]) {
  given(await contexture.POST("/v1/sessions", { body: { label, task: "Take orders" } }));
  await listen(label, stop.signal);
}
await row("friday", "What does a rye loaf cost?");
await row("friday", "Please remember that Mrs Abebe must not eat sesame.");
// Another client records a message while the model works.
const note = "From the shop: spelt is sold out.";
const shop: Turn = { messages: [{ role: "user", content: note }] };
await row("friday", "Then order two rye loaves for tomorrow.", shop);
await row("friday", "Thank you! What did I want to know again?");
// Another conversation: nothing of the first is in it, but for what is remembered.
await row("saturday", "Is there anything that Mrs Abebe must not eat?");
await row("saturday", "Then order a rye loaf for her.");

const query = { query: "What about Mrs Abebe?", max_tokens: 200 };
const recalled = given(await contexture.POST("/v1/memory/recall", { body: query })).components.map((part) => part.content);
let [dollars, uncached] = [0, 0];
for (const label of ["friday", "saturday"]) {
  const cost = given(await contexture.GET("/v1/sessions/{label}/cost", { params: { path: { label } } }));
  dollars += cost.dollars ?? 0;
  uncached += cost.dollars_uncached ?? 0;
}
let recorded = 0;
for (const label of ["friday", "saturday"]) {
  recorded += given(await contexture.GET("/v1/sessions/{label}", { params: { path: { label } } })).turns;
}
// Events come on their own way, and may be a little late.
for (let i = 0; i < 100 && (heard["turn_recorded"] ?? 0) < recorded; i++) await new Promise((done) => setTimeout(done, 50));
stop.abort();

const report = { kept: latest!.included.length, left_out: latest!.excluded.length };
const by = key ? "OpenAI" : "the stand-in";
if (process.argv.includes("--json")) {
  // Sums of decimal fractions are not exact: what is beyond a billionth is noise.
  const exact = (sum: number) => Number(sum.toFixed(9));
  const cost = { dollars: exact(dollars), dollars_uncached: exact(uncached) };
  const found = { model: by, turns: rows, conflicts, waited, recalled, ...cost, report, events: heard };
  console.log(JSON.stringify(found, null, 1));
} else {
  const columns = (session: string, ...figures: (string | number)[]) =>
    [session.padEnd(8), ...figures.map((figure) => String(figure).padStart(8))].join(" ");
  console.log(`${columns("session", "tokens", "shared", "memories")}  question, answer`);
  for (const row of rows) {
    console.log(`${columns(row.session, row.tokens, row.shared, row.memories)}  ${row.question}`);
    console.log(`${" ".repeat(35)}  → ${row.answer}`);
  }
  console.log(`answers by ${by}; ${conflicts} conflict, answered again`);
  console.log(`heard: ${Object.entries(heard).sort().map(([name, count]) => `${count} ${name}`).join(", ")}`);
  console.log(`recalled: ${recalled.join("; ")}`);
  console.log(`cost: $${dollars.toFixed(4)}; without the cache $${uncached.toFixed(4)}`);
  const { used, effective } = latest!.budget;
  console.log(`latest request: ${used} of ${effective} tokens, ${report.kept} parts kept`);
}
