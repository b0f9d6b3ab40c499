/**
 * The AI SDK: fit each model call of `generateText`, `streamText` and agents.
 *
 * ```ts
 * const model = wrapLanguageModel({ model: openai("gpt-5.6"), middleware: contextureMiddleware() });
 * ```
 *
 * The types are structural, so that this module needs no package of the AI SDK.
 */

import { type Client, type Schemas, defaultClient } from "./client.js";
import { FrameworkVersionError } from "./errors.js";

const NO_RESULT = "(no result: the call was interrupted)";

export interface FitSettings {
  /** The size of the window, response included. Default: the model's. */
  maxTokens?: number;
  /** The model whose window and tokenizer count. Default: the model that is called. */
  model?: string;
  /** The session that keeps summaries from call to call, for the provider's cache. */
  session?: string;
  /** The tokens to keep free for the response. */
  reserveResponse?: number;
  /** The client to use. Default: the client of this process. */
  client?: Client;
  /** Called with the report of each fitted request. */
  onReport?: (report: Schemas["Report"], changed: boolean) => void;
}

interface Part {
  type: string;
  text?: string;
  toolCallId?: string;
  toolName?: string;
  input?: unknown;
  output?: unknown;
  providerExecuted?: boolean;
}

interface Message {
  role: "system" | "user" | "assistant" | "tool";
  content: string | readonly Part[];
}

interface ChatMessage {
  role: string;
  content: string | null;
  tool_call_id?: string;
  tool_calls?: { id: string; type: "function"; function: { name: string; arguments: string } }[];
}

/** A message, or one result of a message with tool results, and its form in OpenAI's Chat API. */
interface Unit {
  chat: ChatMessage;
  message?: Message;
  result?: Part;
  toolName?: string;
}

interface CallParameters {
  prompt: readonly unknown[];
  tools?: readonly unknown[];
}

/**
 * Returns a middleware for `wrapLanguageModel` that fits the prompt of each call into the context
 * window. Tool calls and results stay together; a call without a result gets one that says so.
 */
export function contextureMiddleware(settings: FitSettings = {}) {
  return {
    specificationVersion: "v4" as const,
    async transformParams<Params extends CallParameters>(call: {
      params: Params;
      model: { modelId: string; specificationVersion?: string };
    }): Promise<Params> {
      const { specificationVersion } = call.model;
      if (specificationVersion !== undefined && specificationVersion !== "v4") {
        throw new FrameworkVersionError(
          `contexture-ai/ai needs version 7 or newer of the package \`ai\`: the model has specification ${specificationVersion}, and v4 is needed`,
        );
      }
      const prompt = await fitted(call.params.prompt as Message[], call.model.modelId, settings, call.params.tools);
      return { ...call.params, prompt };
    },
  };
}

/**
 * Returns a function for `prepareStep` that fits the messages of each step. The AI SDK sends the
 * messages that it returns in later steps, too.
 */
export function prepareStep(settings: FitSettings = {}) {
  return async <Step extends { messages: unknown[]; model: unknown }>(
    step: Step,
  ): Promise<{ messages: Step["messages"] }> => {
    const model = typeof step.model === "string" ? step.model : (step.model as { modelId?: string }).modelId;
    const messages = await fitted(step.messages as Message[], model, settings);
    return { messages: messages as Step["messages"] };
  };
}

/** Returns messages of the AI SDK within a number of tokens. */
export async function fitModelMessages<Messages extends readonly unknown[]>(
  messages: Messages,
  settings: FitSettings = {},
): Promise<Messages> {
  return (await fitted(messages as unknown as Message[], undefined, settings)) as unknown as Messages;
}

async function fitted(
  messages: readonly Message[],
  modelId: string | undefined,
  settings: FitSettings,
  tools: readonly unknown[] = [],
): Promise<Message[]> {
  // A call that waits for a person's approval has no result on purpose.
  const waits = messages.some(
    ({ content }) => typeof content !== "string" && content.some(({ type }) => type.startsWith("tool-approval")),
  );
  if (waits) return [...messages];
  const start = messages.findIndex((message) => message.role !== "system");
  const system = messages.slice(0, start < 0 ? messages.length : start);
  const given = messages.slice(system.length).flatMap(units);
  const all = paired(given);
  const name = settings.model ?? modelId?.split("/").pop() ?? "gpt-5";
  const chat = [...system.map((message) => ({ role: "system", content: text(message) })), ...all.map((unit) => unit.chat)];
  const answer = await (settings.client ?? defaultClient()).fit({
    request: {
      model: name,
      messages: chat,
      ...(tools.length ? { tools: tools.map((tool) => ({ type: "function", function: tool })) } : {}),
    },
    from: "openai-chat",
    max_tokens: settings.maxTokens,
    session: settings.session,
    reserve_response: settings.reserveResponse,
    report: settings.onReport !== undefined,
  });
  if (answer.report) settings.onReport?.(answer.report, answer.changed);
  if (!answer.changed && all.length === given.length) return [...messages];
  const kept = (answer.request as { messages: ChatMessage[] }).messages;
  return [...system, ...joined(restored(kept.filter(({ role }) => role !== "system"), all))];
}

function units(message: Message): Unit[] {
  if (message.role === "tool" && typeof message.content !== "string") {
    return message.content.map((result) => ({
      chat: { role: "tool", tool_call_id: result.toolCallId ?? "", content: resultText(result.output) },
      message,
      result,
    }));
  }
  const chat: ChatMessage = { role: message.role, content: text(message) };
  if (message.role === "assistant" && typeof message.content !== "string") {
    const calls = message.content.filter((part) => part.type === "tool-call" && !part.providerExecuted);
    if (calls.length) {
      chat.content ||= null;
      chat.tool_calls = calls.map(({ toolCallId = "", toolName = "", input }) => ({
        id: toolCallId,
        type: "function",
        function: { name: toolName, arguments: typeof input === "string" ? input : JSON.stringify(input ?? {}) },
      }));
    }
  }
  return [{ chat, message }];
}

function text(message: Message): string {
  if (typeof message.content === "string") return message.content;
  const texts = message.content.map((part) => (part.type === "text" ? part.text : isFile(part) ? `[${part.type}]` : undefined));
  return texts.filter((one) => one !== undefined).join("\n\n");
}

function isFile(part: Part): boolean {
  return part.type === "file" || part.type === "image";
}

function resultText(output: unknown): string {
  const value = (output as { value?: unknown } | undefined)?.value ?? output ?? "";
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** Returns units in which every call has one result, right after it. */
function paired(given: Unit[]): Unit[] {
  const result: Unit[] = [];
  let waiting = new Map<string, string>();
  const close = () => {
    for (const [call, toolName] of waiting) {
      result.push({ chat: { role: "tool", tool_call_id: call, content: NO_RESULT }, toolName });
    }
    waiting = new Map();
  };
  for (const unit of given) {
    if (unit.chat.role === "tool") {
      if (waiting.delete(unit.chat.tool_call_id ?? "")) result.push(unit);
      continue;
    }
    close();
    result.push(unit);
    waiting = new Map(unit.chat.tool_calls?.map((call) => [call.id, call.function.name]));
  }
  close();
  return result;
}

/** Returns the units that fitted messages were made from, and new ones for summaries. */
function restored(kept: ChatMessage[], all: Unit[]): Unit[] {
  let next = 0;
  return kept.flatMap((chat) => {
    const at = position(chat, all, next);
    const unit = all[at];
    if (!unit) return [{ chat }];
    const from = next;
    next = at + 1;
    if (chat.role !== "tool") return withNeighbours(chat, all, from, at);
    if (chat.content?.trim() === unit.chat.content?.trim()) return [unit];
    const output = { type: "text", value: chat.content ?? "" };
    return [unit.result ? { ...unit, result: { ...unit.result, output } } : { ...unit, chat }];
  });
}

/** Returns the index of the message that a fitted message is, or that it ends with. */
function position(chat: ChatMessage, all: Unit[], from: number): number {
  const wanted = key(chat);
  const same = all.findIndex((unit, index) => index >= from && key(unit.chat) === wanted);
  if (same >= 0 || chat.role === "tool" || chat.tool_calls?.length) return same;
  return all.findIndex(({ chat: { role, tool_calls, content } }, index) => {
    return index >= from && role === chat.role && !tool_calls && before(chat.content, content) !== undefined;
  });
}

/** Returns the message at an index, and those before it that were joined with it. */
function withNeighbours(chat: ChatMessage, all: Unit[], from: number, at: number): Unit[] {
  let start = at;
  let rest = before(chat.content, all[at]?.chat.content) ?? "";
  while (rest && start > from) {
    const unit = all[start - 1] as Unit;
    const left = unit.chat.role === chat.role && !unit.chat.tool_calls ? before(rest, unit.chat.content) : undefined;
    if (left === undefined) break;
    rest = left;
    start -= 1;
  }
  const found = all.slice(start, at + 1);
  // A summary that was joined with the first message.
  return rest ? [{ chat: { role: chat.role, content: rest } }, ...found] : found;
}

/** Returns what a text has before its end, if it ends with `end` as a paragraph of its own. */
function before(whole: string | null | undefined, end: string | null | undefined): string | undefined {
  const [text, last] = [whole?.trim() ?? "", end?.trim() ?? ""];
  if (text === last) return "";
  if (!last) return text;
  return text.endsWith(`\n\n${last}`) ? text.slice(0, -last.length).trim() : undefined;
}

/** Returns what a message is recognised by: calls and results by their ids. */
function key(chat: ChatMessage): string {
  if (chat.role === "tool") return `tool ${chat.tool_call_id}`;
  if (chat.tool_calls?.length) return `calls ${chat.tool_calls.map((call) => call.id).join(" ")}`;
  return `${chat.role} ${chat.content?.trim()}`;
}

/** Returns messages made of units. Results that follow each other are one message. */
function joined(all: Unit[]): Message[] {
  const messages: Message[] = [];
  const names = new Map<string, string>();
  for (const unit of all) {
    for (const call of unit.chat.tool_calls ?? []) names.set(call.id, call.function.name);
    if (unit.chat.role !== "tool") {
      messages.push(unit.message ?? newMessage(unit.chat));
      continue;
    }
    const id = unit.chat.tool_call_id ?? "";
    const result = unit.result ?? {
      type: "tool-result",
      toolCallId: id,
      toolName: unit.toolName ?? names.get(id) ?? "unknown",
      output: { type: "text", value: unit.chat.content ?? "" },
    };
    const last = messages.at(-1);
    if (last?.role === "tool" && typeof last.content !== "string") {
      messages[messages.length - 1] = { ...last, content: [...last.content, result] };
    } else {
      messages.push({ ...unit.message, role: "tool", content: [result] });
    }
  }
  return messages;
}

function newMessage(chat: ChatMessage): Message {
  const role = chat.role === "assistant" ? "assistant" : "user";
  return { role, content: [{ type: "text", text: chat.content ?? "" }] };
}
