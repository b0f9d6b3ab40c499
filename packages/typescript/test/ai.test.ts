import assert from "node:assert/strict";
import { after, test } from "node:test";

import { type ModelMessage, generateText, modelMessageSchema, stepCountIs, streamText, tool, wrapLanguageModel } from "ai";
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
