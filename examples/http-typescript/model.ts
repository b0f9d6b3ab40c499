// What answers: OpenAI's API, or a stand-in that is no model at all.

export const MODEL = "gpt-5.6";

export interface Call {
  id: string;
  type: "function";
  function: { name: string; arguments: string };
}

export interface ChatMessage {
  role: "system" | "user" | "assistant" | "tool";
  content: string | { type: "text"; text: string }[] | null;
  tool_calls?: Call[];
  tool_call_id?: string;
}

/** A request of OpenAI's Chat Completions, as far as it is looked at here. */
export interface ChatRequest {
  model: string;
  messages: ChatMessage[];
  tools?: unknown[];
}

export type ChatAnswer = {
  id: string;
  object: "chat.completion";
  model: string;
  choices: { index: number; message: ChatMessage; finish_reason: "stop" | "length" | "tool_calls" }[];
  usage: { prompt_tokens: number; completion_tokens: number; prompt_tokens_details?: { cached_tokens?: number } };
};

/** The text of a message, which can be a list of parts. */
export function textOf(content: ChatMessage["content"]): string {
  return typeof content === "string" ? content : (content ?? []).map((part) => part.text).join("\n\n");
}

export type Model = (request: ChatRequest) => Promise<ChatAnswer>;

/** OpenAI's API. */
export function openAi(key: string): Model {
  return async (request) => {
    const answer = await fetch("https://api.openai.com/v1/chat/completions", {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify(request),
    });
    if (!answer.ok) throw new Error(`OpenAI: ${answer.status} ${await answer.text()}`);
    return (await answer.json()) as ChatAnswer;
  };
}

const RULES: [RegExp, string, string][] = [
  [/What does (.+) cost/, "price_of", "what"],
  [/[Oo]rder (.+) for/, "order", "what"],
  [/remember that (.+)\./, "remember", "fact"],
];

/**
 * Not a model. It answers with a tool's result, with what is remembered, or with what was asked first, takes four
 * characters for a token, and has in its cache what the request before began with.
 */
export function standIn(): Model {
  let before = "";
  let calls = 0;
  return async (request) => {
    check(request.messages);
    // The cache knows texts; marks and the shape of a message do not count.
    const texts = request.messages.map(({ content, ...message }) => [message, textOf(content)]);
    const sent = JSON.stringify([request.tools, texts]);
    let shared = 0;
    while (shared < sent.length && sent[shared] === before[shared]) shared++;
    before = sent;
    const message = reply(request.messages, () => `call_${++calls}`);
    const usage = {
      prompt_tokens: Math.floor(sent.length / 4),
      completion_tokens: 30,
      prompt_tokens_details: { cached_tokens: Math.floor(shared / 4) },
    };
    const finish_reason = message.tool_calls ? ("tool_calls" as const) : ("stop" as const);
    const choices = [{ index: 0, message, finish_reason }];
    return { id: `chatcmpl-${sent.length}`, object: "chat.completion", model: MODEL, choices, usage };
  };
}

/** Throws where the API would refuse: every call is answered right behind it. */
function check(messages: ChatMessage[]): void {
  let open: string[] = [];
  for (const message of messages) {
    if (message.role === "tool") {
      if (open.shift() !== message.tool_call_id) throw new Error("a result without its call");
      continue;
    }
    if (open.length > 0) throw new Error("a call without its result");
    open = (message.tool_calls ?? []).map((call) => call.id);
  }
}

function reply(messages: ChatMessage[], nextId: () => string): ChatMessage {
  // What is recalled comes after the question, or after a tool's result.
  const last = messages.filter(({ content }) => !textOf(content).startsWith("<context-")).at(-1);
  const text = textOf(last?.content ?? null);
  if (last?.role === "tool") return { role: "assistant", content: text };
  const question = text.split("<context-")[0] ?? "";
  for (const [pattern, name, argument] of RULES) {
    const found = pattern.exec(question);
    if (!found) continue;
    const call = { name, arguments: JSON.stringify({ [argument]: found[1] }) };
    return { role: "assistant", content: "One moment.", tool_calls: [{ id: nextId(), type: "function", function: call }] };
  }
  const remembered = /path="memory">[^]*?\]\s*\n(.+?)\n<\/context-\d+>/.exec(text);
  const first = textOf(messages.find((message) => message.role === "user")?.content ?? null);
  return { role: "assistant", content: remembered ? `I remember: ${remembered[1]}` : `You asked first: ${first}` };
}
