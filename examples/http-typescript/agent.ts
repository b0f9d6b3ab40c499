// A small agent over HTTP: Contexture assembles, a model answers, Contexture records. See README.md.
//
//     CONTEXTURE_URL=http://127.0.0.1:8787 CONTEXTURE_KEY=ctx_… npm start
//
// Without OPENAI_API_KEY, a stand-in answers: see model.ts.

import createClient from "openapi-fetch";

// Made from the server's OpenAPI document by `npm run types`.
import type { components, paths } from "./api.js";
import { MODEL, openAi, standIn, type ChatRequest } from "./model.js";

type Turn = components["schemas"]["NewTurn"];
type Report = components["schemas"]["Report"];

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
  baseUrl: process.env["CONTEXTURE_URL"] ?? "http://127.0.0.1:8787",
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

/** What the agent's tools do. Yours do more. */
async function use(tool: string, input: Record<string, string>, session: string): Promise<string> {
  if (tool === "price_of") return `Today ${input["what"]} costs 3.80.`;
  if (tool === "order") return `Ordered: ${input["what"]}.`;
  const content = { speaker: "A customer", text: input["fact"] };
  const record = { kind: "event" as const, session_id: session, type: "note", content };
  given(await contexture.POST("/v1/memory/records", { body: { records: [record] } }));
  return `It is noted that ${input["fact"]}.`;
}

/** One turn: assemble, ask the model until it is done, record. */
async function ask(session: string, question: string, meanwhile?: Turn): Promise<void> {
  const turns = { params: { path: { label: session } } };
  for (let attempt = 1; attempt <= MOST_ATTEMPTS; attempt++) {
    const body = { recipe: "broker", format: "openai-chat" as const, model: MODEL, session, event: question };
    const made = given(await contexture.POST("/v1/assemble", { body }));
    if (!("request" in made) || typeof made.request === "string") throw new Error("a provider's form was asked for");
    // The server's document says no more than that it is JSON: what is in it, the provider says.
    const turn = await answer(made.request as unknown as ChatRequest, session, question);
    turn.parent_turn_id = made.parent_turn_id;
    turn.request_hash = made.snapshot;
    // Whoever sends it again, because no answer came, does not record it twice.
    turn.idempotency_key = `${session}-${rows.length}-${attempt}`;
    if (meanwhile && attempt === 1) given(await contexture.POST("/v1/sessions/{label}/turns", { ...turns, body: meanwhile }));
    const recorded = await contexture.POST("/v1/sessions/{label}/turns", { ...turns, body: turn });
    if (recorded.error?.error.code === "conflict") {
      // The answer did not know of the other turn: nothing was recorded, so ask again.
      conflicts++;
      continue;
    }
    given(recorded);
    latest = made.report as Report;
    const memories = latest.included.filter((row) => row.layer === "memory").length;
    const said = turn.messages.at(-1)?.content as string;
    rows.push({ session, tokens: made.tokens, shared: latest.cache?.shared_tokens ?? 0, memories, question, answer: said });
    return;
  }
  throw new Error(`${session}: others are faster every time`);
}

/** Asks the model, and does what it calls for, until it has answered. Returns the turn. */
async function answer(request: ChatRequest, session: string, question: string): Promise<Turn> {
  const usage = { input_tokens: 0, output_tokens: 0, cached_input_tokens: 0 };
  const asked = { role: "user" as const, source: "human" as const, content: question };
  const turn: Turn = { messages: [asked], model: MODEL, provider: "openai", usage };
  for (;;) {
    const answered = await model(request);
    usage.input_tokens += answered.usage.prompt_tokens;
    usage.output_tokens += answered.usage.completion_tokens;
    usage.cached_input_tokens += answered.usage.prompt_tokens_details?.cached_tokens ?? 0;
    const message = answered.choices[0]!.message;
    const calls = (message.tool_calls ?? []).map(({ id, function: f }) => ({
      type: "tool_call" as const,
      id,
      name: f.name,
      arguments: JSON.parse(f.arguments) as Record<string, string>,
    }));
    if (calls.length === 0) {
      turn.messages.push({ role: "assistant", content: message.content ?? "" });
      return turn;
    }
    const text = message.content ? [{ type: "text" as const, text: message.content }] : [];
    turn.messages.push({ role: "assistant", content: [...text, ...calls] });
    request = { ...request, messages: [...request.messages, message] };
    for (const call of calls) {
      const content = await use(call.name, call.arguments, session);
      turn.messages.push({ role: "tool", tool_call_id: call.id, content });
      request.messages.push({ role: "tool", tool_call_id: call.id, content });
    }
  }
}

const stop = new AbortController();
for (const label of ["friday", "saturday"]) {
  given(await contexture.POST("/v1/sessions", { body: { label, task: "Take orders" } }));
  await listen(label, stop.signal);
}
await ask("friday", "What does a rye loaf cost?");
await ask("friday", "Please remember that Mrs Abebe must not eat sesame.");
// Somebody in the shop records a turn while the model thinks.
const note = "From the shop: spelt is sold out.";
const shop: Turn = { messages: [{ role: "user", content: note }, { role: "assistant", content: "I see." }] };
await ask("friday", "Then order two rye loaves for tomorrow.", shop);
await ask("friday", "Thank you! What did I want to know again?");
// Another conversation: nothing of the first is in it, but for what is remembered.
await ask("saturday", "Is there anything that Mrs Abebe must not eat?");
await ask("saturday", "Then order a rye loaf for her.");

const query = { query: "What about Mrs Abebe?", max_tokens: 200 };
const recalled = given(await contexture.POST("/v1/memory/recall", { body: query })).components.map((part) => part.content);
let [dollars, uncached] = [0, 0];
for (const label of ["friday", "saturday"]) {
  const cost = given(await contexture.GET("/v1/sessions/{label}/cost", { params: { path: { label } } }));
  dollars += cost.dollars ?? 0;
  uncached += cost.dollars_uncached ?? 0;
}
// Events come on their own way, and may be a little late.
for (let i = 0; i < 100 && (heard["turn_recorded"] ?? 0) <= rows.length; i++) await new Promise((done) => setTimeout(done, 50));
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
