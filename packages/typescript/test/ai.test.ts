import assert from "node:assert/strict";
import { after, test } from "node:test";

import { type ModelMessage, Output, generateText, modelMessageSchema, stepCountIs, streamText, tool, wrapLanguageModel } from "ai";
import { MockLanguageModelV4, convertArrayToReadableStream } from "ai/test";
import { z } from "zod";

import { emptyRoot, run } from "./support.js";
import { contextureMiddleware, fitModelMessages, prepareStep } from "../src/ai.js";
import { Client, FrameworkVersionError, LocalServer } from "../src/index.js";

const server = new LocalServer({ root: emptyRoot() });
after(() => server.stop());
const client = new Client({ server });

const usage = {
  inputTokens: { total: 10, noCache: 10, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 5, text: 5, reasoning: 0 },
};

/** A model that reads files and then answers. It keeps what it was sent. */
function standIn(reads: number) {
  return new MockLanguageModelV4({
    modelId: "gpt-5.6",
    doGenerate: async ({ prompt }) => {
      const done = standInCalls.length;
      standInCalls.push(prompt);
      const call = { type: "tool-call" as const, toolCallId: `c${done}`, toolName: "read", input: JSON.stringify({ path: `${done}.py` }) };
      return done < reads
        ? { content: [call], finishReason: { unified: "tool-calls", raw: undefined }, usage, warnings: [] }
        : { content: [{ type: "text", text: "Done." }], finishReason: { unified: "stop", raw: undefined }, usage, warnings: [] };
    },
  });
}
let standInCalls: { role: string; content: unknown }[][] = [];

const tools = {
  read: tool({
    description: "Reads a file.",
    inputSchema: z.object({ path: z.string() }),
    execute: async ({ path }) => `# ${path}\n` + Array.from({ length: 200 }, (_, at) => `line ${at}: value`).join("\n"),
  }),
};

/** Checks a prompt as providers do: every call has a result in the next message. */
function checkPairs(messages: readonly { role: string; content: unknown }[]): void {
  let waiting = new Set<string>();
  for (const { role, content } of messages) {
    const parts = Array.isArray(content) ? (content as { type: string; toolCallId: string }[]) : [];
    if (role === "tool") {
      for (const part of parts) assert.ok(waiting.delete(part.toolCallId), "a result without a call");
      assert.equal(waiting.size, 0, "calls without results");
      continue;
    }
    assert.equal(waiting.size, 0, "calls without results");
    waiting = new Set(parts.filter((part) => part.type === "tool-call").map((part) => part.toolCallId));
  }
  assert.equal(waiting.size, 0, "calls without results at the end");
}

test("the middleware keeps an agent within its window", async () => {
  standInCalls = [];
  const reports: number[] = [];
  const middleware = contextureMiddleware({ maxTokens: 8000, client, onReport: (report) => reports.push(report.budget.used) });
  const model = wrapLanguageModel({ model: standIn(12), middleware });
  const result = await generateText({ model, tools, instructions: "Be brief.", prompt: "Read all.", stopWhen: stepCountIs(20) });
  assert.equal(result.text, "Done.");
  assert.equal(standInCalls.length, 13);
  for (const prompt of standInCalls) {
    checkPairs(prompt);
    assert.deepEqual(prompt[0]?.content, "Be brief.");
  }
  assert.ok((standInCalls.at(-1)?.length ?? 99) < 22);
  assert.ok(reports.every((tokens) => tokens <= 8000));
});

test("prepareStep keeps an agent within its window", async () => {
  standInCalls = [];
  const result = await generateText({
    model: standIn(12),
    tools,
    prompt: "Read all.",
    stopWhen: stepCountIs(20),
    prepareStep: prepareStep({ maxTokens: 8000, client }),
  });
  assert.equal(result.text, "Done.");
  for (const prompt of standInCalls) checkPairs(prompt);
  assert.ok((standInCalls.at(-1)?.length ?? 99) < 22);
});

test("prepareStep counts the tools that it is given", async () => {
  const available = async (given: object | undefined) => {
    standInCalls = [];
    const found: number[] = [];
    const settings = { maxTokens: 8000, client, onReport: (report: { budget: { available: number } }) => found.push(report.budget.available) };
    const step = prepareStep(given ? { ...settings, tools: given as Record<string, unknown> } : settings);
    await generateText({ model: standIn(1), tools, prompt: "Read all.", prepareStep: step });
    return found[0] ?? 0;
  };
  const long = { ...tools, write: tool({ description: "Writes. ".repeat(1000), inputSchema: z.object({ path: z.string() }) }) };
  const [none, some, many] = [await available(undefined), await available(tools), await available(long)];
  assert.ok(none - some > 10 && none - some < 200, `${none} ${some}`);
  assert.ok(some - many > 1300 && some - many < 2500, `${some} ${many}`);
});

test("the middleware counts the schema of the output", async () => {
  const available = async (description: string) => {
    standInCalls = [];
    const found: number[] = [];
    const middleware = contextureMiddleware({ maxTokens: 8000, client, onReport: (report) => found.push(report.budget.available) });
    const output = Output.object({ schema: z.object({ answer: z.string().describe(description) }) });
    const call = generateText({ model: wrapLanguageModel({ model: standIn(0), middleware }), prompt: "Hi.", output });
    // The model does not answer with JSON.
    await call.then(({ output }) => output).catch(() => undefined);
    return found[0] ?? 0;
  };
  assert.ok((await available("short")) - (await available("long ".repeat(2000))) > 1300);
});

test("streams are fitted, too", async () => {
  const sent: unknown[][] = [];
  const model = new MockLanguageModelV4({
    modelId: "gpt-5.6",
    doStream: async ({ prompt }) => {
      sent.push(prompt);
      return {
        stream: convertArrayToReadableStream([
          { type: "text-start", id: "1" },
          { type: "text-delta", id: "1", delta: "Done." },
          { type: "text-end", id: "1" },
          { type: "finish", finishReason: { unified: "stop", raw: undefined }, usage },
        ]),
      };
    },
  });
  const middleware = contextureMiddleware({ maxTokens: 4000, client });
  const messages: ModelMessage[] = Array.from({ length: 100 }, (_, at) => ({ role: at % 2 ? ("assistant" as const) : ("user" as const), content: "word ".repeat(100) }));
  messages.push({ role: "user", content: "And now?" });
  const result = streamText({ model: wrapLanguageModel({ model, middleware }), messages });
  assert.equal(await result.text, "Done.");
  assert.ok((sent[0]?.length ?? 999) < 60);
});

test("every request is valid", async () => {
  for (const seed of [1, 2]) {
    const messages: ModelMessage[] = [];
    for (const step of run(seed, 60)) {
      for (const content of step.user) messages.push({ role: "user", content });
      const calls = step.calls.map((toolCallId) => ({ type: "tool-call" as const, toolCallId, toolName: "read", input: { path: "a.py" } }));
      messages.push({ role: "assistant", content: [{ type: "reasoning", text: "…" }, { type: "text", text: step.text || "." }, ...calls] });
      const results = [...step.results].map(([toolCallId, value]) => ({ type: "tool-result" as const, toolCallId, toolName: "read", output: { type: "text" as const, value } }));
      if (results.length) messages.push({ role: "tool", content: results });
    }
    for (const maxTokens of [2000, 8000, 32_000]) {
      for (let end = 1; end < messages.length; end += 13) {
        const shown: ModelMessage[] = [...messages.slice(0, end), { role: "user", content: "?" }];
        const fitted = await fitModelMessages(shown, { maxTokens, model: "gpt-5.6", client });
        for (const message of fitted) modelMessageSchema.parse(message);
        checkPairs(fitted);
        // Assistant messages are the very objects, with their reasoning.
        assert.ok(fitted.every((message) => message.role !== "assistant" || shown.includes(message)));
      }
    }
  }
});

test("a framework that is too old", async () => {
  const middleware = contextureMiddleware({ client });
  const call = { params: { prompt: [] }, model: { modelId: "x", specificationVersion: "v2" } };
  await assert.rejects(middleware.transformParams(call), (error: unknown) => error instanceof FrameworkVersionError && /version 7 or newer/.test(error.message));
});

const words = "word ".repeat(80);
const secret = "ghp_16C7e42F292c6912E7710c838347Ae178B4a";
const fitTo = (messages: unknown[], maxTokens: number) =>
  fitModelMessages(messages as ModelMessage[], { maxTokens, model: "gpt-5.6", client });

test("repeated call ids keep their results", async () => {
  const messages: unknown[] = [{ role: "user", content: "go" }];
  for (let at = 0; at < 40; at += 1) {
    messages.push({ role: "assistant", content: [{ type: "tool-call", toolCallId: "call_0", toolName: "t", input: { at } }] });
    messages.push({ role: "tool", content: [{ type: "tool-result", toolCallId: "call_0", toolName: "t", output: { type: "text", value: `r${at} ${words}` } }] });
  }
  const fitted = await fitTo(messages, 4000);
  assert.ok(fitted.length < 60);
  assert.deepEqual(fitted.slice(1), messages.slice(1 - fitted.length));
});

test("a late result is moved to its call", async () => {
  const call = { role: "assistant", content: [{ type: "tool-call", toolCallId: "c1", toolName: "t", input: {} }] };
  const result = { role: "tool", content: [{ type: "tool-result", toolCallId: "c1", toolName: "t", output: { type: "text", value: "4711" } }] };
  const [first, late] = [{ role: "user", content: "book" }, { role: "user", content: "hurry" }];
  assert.deepEqual(await fitTo([first, call, late, result], 8000), [first, call, result, late]);
});

test("images stay with their messages, and secrets are masked", async () => {
  const picture = (name: string, text = "What is this?") => ({ role: "user", content: [{ type: "text", text }, { type: "image", image: `https://example.com/${name}.png` }] });
  const messages = Array.from({ length: 40 }, (_, at) => [picture(String(at)), { role: "assistant", content: `answer ${at} ${words}` }]).flat();
  messages.push(picture("last"));
  const fitted = await fitTo(messages, 5000);
  assert.ok(fitted.length < 60);
  assert.ok(fitted.slice(1).every((message, at) => (message as unknown) === messages[messages.length - fitted.length + 1 + at]));
  const [masked] = await fitTo([picture("a", `see ${secret}`)], 8000);
  assert.match(JSON.stringify(masked), /secret masked.*a\.png/);
  const calls = { role: "assistant", content: [{ type: "tool-call", toolCallId: "c1", toolName: "t", input: { key: secret } }] };
  const results = { role: "tool", content: [{ type: "tool-result", toolCallId: "c1", toolName: "t", output: { type: "error-text", value: `${secret} failed` } }] };
  const shown = JSON.stringify(await fitTo([{ role: "user", content: "go" }, calls, results], 8000));
  assert.ok(!shown.includes(secret));
  assert.match(shown, /error-text/);
});

test("a system message between the messages is kept", async () => {
  const messages: unknown[] = [{ role: "system", content: "Be brief." }];
  for (let at = 0; at < 30; at += 1) {
    messages.push({ role: "user", content: `q${at} ${words}` }, { role: "assistant", content: `a${at} ${words}` });
    if (at === 28) messages.push({ role: "system", content: "From now on answer in French." });
  }
  messages.push({ role: "user", content: "go" });
  const fitted = await fitTo(messages, 5000);
  assert.ok(fitted.length < messages.length);
  assert.equal(fitted[0], messages[0]);
  assert.equal(fitted.filter((message) => message.role === "system").length, 2);
});

test("an approval that was answered does not stop the fitting", async () => {
  const answered: unknown[] = [
    { role: "user", content: "delete x" },
    { role: "assistant", content: [{ type: "tool-call", toolCallId: "c1", toolName: "del", input: {} }, { type: "tool-approval-request", approvalId: "a1", toolCallId: "c1" }] },
  ];
  assert.deepEqual(await fitTo(answered, 5000), answered);
  const response = { type: "tool-approval-response", approvalId: "a1", approved: true };
  const result = { type: "tool-result", toolCallId: "c1", toolName: "del", output: { type: "text", value: "deleted" } };
  answered.push({ role: "tool", content: [response, result] });
  const talk = Array.from({ length: 40 }, (_, at) => [{ role: "user", content: `q${at} ${words}` }, { role: "assistant", content: `a${at} ${words}` }]).flat();
  const messages = [...talk, ...answered, { role: "user", content: "last" }];
  const fitted = await fitTo(messages, 5000);
  assert.ok(fitted.length < messages.length);
  assert.deepEqual(fitted.slice(-4), messages.slice(-4));
});

for (const session of [undefined, "steps"]) {
  test(`prepareStep never summarises a summary${session ? ", with a session" : ""}`, async () => {
    standInCalls = [];
    const settings = { maxTokens: 8000, client, ...(session ? { session } : {}) };
    await generateText({ model: standIn(30), tools, prompt: "Read all.", stopWhen: stepCountIs(40), prepareStep: prepareStep(settings) });
    assert.equal(standInCalls.length, 31);
    for (const prompt of standInCalls) checkPairs(prompt);
    const last = JSON.stringify(standInCalls.at(-1));
    assert.equal(last.split("[Previous conversation summary]").length, 2);
    assert.ok(!last.includes("[message 2]"));
  });
}

test("an edited conversation continues in another session", async () => {
  const settings = { maxTokens: 8000, model: "gpt-5.6", client, session: "edited" };
  await fitModelMessages([{ role: "user", content: "one" }], settings);
  const other = [{ role: "user" as const, content: "other" }, { role: "assistant" as const, content: "0" }, { role: "user" as const, content: "?" }];
  assert.deepEqual(await fitModelMessages(other, settings), other);
  assert.ok((await client.getHistory({ label: "edited~2" })).total > 0);
});
