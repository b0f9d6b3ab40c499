import { generateText, wrapLanguageModel } from "ai";
import { MockLanguageModelV4 } from "ai/test";

import { contextureMiddleware } from "contexture-ai/ai";

const model = wrapLanguageModel({ model: standIn(), middleware: contextureMiddleware({ maxTokens: 8_000 }) });
const history = Array.from({ length: 100 }, () => [
  { role: "user" as const, content: "word ".repeat(200) },
  { role: "assistant" as const, content: "word ".repeat(200) },
]).flat();
const { text } = await generateText({ model, messages: [...history, { role: "user", content: "What now?" }] });
console.log(text);

/** A model that answers without a provider; use `openai("gpt-5.6")` instead. */
function standIn() {
  return new MockLanguageModelV4({
    modelId: "gpt-5.6",
    doGenerate: async ({ prompt }) => ({
      content: [{ type: "text", text: `I was sent ${prompt.length} messages.` }],
      finishReason: { unified: "stop", raw: undefined },
      usage: {
        inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
        outputTokens: { total: 1, text: 1, reasoning: 0 },
      },
      warnings: [],
    }),
  });
}
