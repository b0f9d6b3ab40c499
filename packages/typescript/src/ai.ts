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
import { ApiError, FrameworkVersionError } from "./errors.js";

const NO_RESULT = "(no result: the call was interrupted)";
const SUMMARY = "[Previous conversation summary]";
const ATTACHED = "[attached ";
/** The marks that the server leaves where it masked a secret or cut a text. */
const MARK = /\[secret masked: [^\]\n]*\]|\n?\[\.\.\. [^\n]*? \.\.\.\]\n?/;
/** The most sessions that are tried for a conversation that does not continue its session. */
const MAX_SESSIONS = 9;

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

export interface StepSettings extends FitSettings {
  /** The tools of the call, so that they are counted: a step does not have them. Default: none. */
  tools?: Readonly<Record<string, unknown>>;
}

interface Part {
  type: string;
  text?: string;
  toolCallId?: string;
  toolName?: string;
  input?: unknown;
  output?: unknown;
  providerExecuted?: boolean;
  approvalId?: string;
  mediaType?: string;
  image?: unknown;
  data?: unknown;
}

interface Message {
  role: "system" | "user" | "assistant" | "tool";
  content: string | readonly Part[];
}

interface Piece {
  type: string;
  text?: string;
  [name: string]: unknown;
}

interface ToolCall {
  id: string;
  type: "function";
  function: { name: string; arguments: string };
}

interface ChatMessage {
  role: string;
  content: string | null | Piece[];
  tool_call_id?: string;
  tool_calls?: ToolCall[];
}

/** A message, or one result of a message with tool results, and its form in OpenAI's Chat API. */
interface Unit {
  chat: ChatMessage;
  message?: Message;
  result?: Part;
  toolName?: string;
  callId?: string;
  /** What the unit was before it was changed, or what a summary replaces. */
  origin?: Unit[];
}

interface Tool {
  name?: string;
  description?: string;
  inputSchema?: unknown;
}

/** What fitted messages stand for, as long as they exist. */
const originals = new WeakMap<Message, Unit[]>();
/** The sessions that took the place of others. */
const moved = new WeakMap<FitSettings, Map<string, string>>();

interface CallParameters {
  prompt: readonly unknown[];
  tools?: readonly unknown[];
  responseFormat?: { type: string; schema?: unknown };
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
      const tools = (call.params.tools ?? []).map((tool) => chatTool(tool as Tool));
      const schema = call.params.responseFormat?.schema;
      // Providers add the schema of the output to the prompt, as they do with tools.
      if (schema !== undefined) tools.push(chatTool({ name: "output", inputSchema: schema }));
      const prompt = await fitted(call.params.prompt as Message[], call.model.modelId, settings, tools);
      return { ...call.params, prompt };
    },
  };
}

/**
 * Returns a function for `prepareStep` that fits the messages of each step. The AI SDK sends the
 * messages that it returns in later steps, too: the function remembers the whole messages and fits
 * those, so that a summary is never made of a summary.
 *
 * A step has no tool definitions. Give the tools of the call as `tools`, so that they are counted.
 */
export function prepareStep(settings: StepSettings = {}) {
  let counted: Promise<unknown[]> | undefined;
  return async <Step extends { messages: unknown[]; model: unknown }>(
    step: Step,
  ): Promise<{ messages: Step["messages"] }> => {
    const model = typeof step.model === "string" ? step.model : (step.model as { modelId?: string }).modelId;
    counted ??= definitions(settings.tools ?? {});
    const messages = await fitted(step.messages as Message[], model, settings, await counted, instructions(step));
    return { messages: messages as Step["messages"] };
  };
}

/** Returns the instructions of a step, which are not part of its messages. */
function instructions(step: object): string {
  const named = step as { instructions?: unknown; initialInstructions?: unknown; system?: unknown };
  const found = named.instructions ?? named.initialInstructions ?? named.system;
  const all = Array.isArray(found) ? found : [found];
  const texts = all.map((one: unknown) => (typeof one === "string" ? one : (one as { content?: unknown } | undefined)?.content));
  return texts.filter((text) => typeof text === "string").join("\n\n");
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
  tools: unknown[] = [],
  more = "",
): Promise<Message[]> {
  if (waits(messages)) return [...messages];
  const start = messages.findIndex((message) => message.role !== "system");
  const front = messages.slice(0, start < 0 ? messages.length : start);
  const known = messages.slice(front.length).flatMap((message) => originals.get(message) ?? units(message));
  // A summary of unknown messages stays in front: summarised again, it would look like the user's
  // words. It is counted with the system prompt.
  const summaries = known.slice(0, Math.max(0, known.findIndex((unit, at) => at === known.length - 1 || !isSummary(unit.chat))));
  const given = known.slice(summaries.length);
  const system = [more, ...front.map(text), ...summaries.map(({ chat }) => textOf(chat))].filter(Boolean).join("\n\n");
  const all = unique(paired(given));
  const send = async (session: string | undefined, sent: Unit[]) =>
    (settings.client ?? defaultClient(session === undefined)).fit({
      request: {
        model: settings.model ?? modelId?.split("/").pop() ?? "gpt-5",
        messages: [...(system ? [{ role: "system", content: system }] : []), ...sent.map((unit) => unit.chat)],
        ...(tools.length ? { tools } : {}),
      },
      from: "openai-chat",
      max_tokens: settings.maxTokens,
      session,
      reserve_response: settings.reserveResponse,
      report: settings.onReport !== undefined,
    });
  const { answer, sent } = await sendUntilAccepted(send, all, settings);
  if (answer.report) settings.onReport?.(answer.report, answer.changed);
  const isWhole = all.length === messages.slice(front.length).flatMap(units).length && all.every((unit, at) => unit.message === given[at]?.message);
  if (!answer.changed && isWhole && !messages.some((message) => originals.has(message))) return [...messages];
  let kept = (answer.request as { messages: ChatMessage[] }).messages;
  if (system && kept[0]?.role === "system") kept = kept.slice(1);
  const approvals = new Map(
    messages.flatMap(parts).flatMap((part) => (part.type === "tool-approval-response" ? [[part.approvalId, part] as const] : [])),
  );
  return [...front, ...joined([...summaries, ...restored(kept, sent, all)], approvals)];
}

/** Sends a request, again with less if the server says what to change. */
async function sendUntilAccepted<Answer>(
  send: (session: string | undefined, sent: Unit[]) => Promise<Answer>,
  all: Unit[],
  settings: FitSettings,
): Promise<{ answer: Answer; sent: Unit[] }> {
  const named = settings.session;
  const known = moved.get(settings) ?? new Map<string, string>();
  moved.set(settings, known);
  let session = named === undefined ? undefined : (known.get(named) ?? named);
  let number = session === named ? 1 : Number(session?.split("~").pop());
  let rejected: ApiError | undefined;
  let sent = all;
  for (;;) {
    try {
      const answer = await send(session, sent);
      if (named !== undefined && rejected) {
        if (session !== undefined) known.set(named, session);
        process.emitWarning(
          `the conversation does not continue session ${named} and is ${session ? `recorded in session ${session}` : "not recorded"} [${rejected.message}]`,
          "ContextureSessionWarning",
        );
      }
      return { answer, sent };
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (error.code === "over_budget" && sent === all) {
        // If the size of an image cannot be read, the most is counted for it.
        sent = all.map((unit) => ({ ...unit, chat: withoutImages(unit.chat) }));
        if (all.every((unit, at) => unit.chat === sent[at]?.chat)) throw error;
        continue;
      }
      const isRejected = (error.status === 409 || error.status === 422) && error.code !== "over_budget";
      if (named === undefined || session === undefined || !isRejected) throw error;
      // The model must still get an answer, and the rest of the conversation be recorded.
      number += 1;
      rejected = error;
      session = error.status === 409 && number <= MAX_SESSIONS ? `${named}~${number}` : undefined;
    }
  }
}

/** Returns true if the last calls wait for a person's approval: they have no result on purpose. */
function waits(messages: readonly Message[]): boolean {
  const latest = messages.slice(messages.map(({ role }) => role).lastIndexOf("user") + 1).flatMap(parts);
  const done = new Set(latest.filter(({ type }) => type === "tool-result").map((part) => part.toolCallId));
  return latest.some((part) => part.type === "tool-approval-request" && !done.has(part.toolCallId));
}

function parts(message: Message): readonly Part[] {
  return typeof message.content === "string" ? [{ type: "text", text: message.content }] : message.content;
}

function units(message: Message): Unit[] {
  if (message.role === "tool" && typeof message.content !== "string") {
    return message.content.flatMap((result) =>
      result.type === "tool-result"
        ? [{ chat: { role: "tool", tool_call_id: result.toolCallId ?? "", content: resultContent(result.output) }, message, result }]
        : [],
    );
  }
  if (message.role === "user" && typeof message.content !== "string") {
    return [{ chat: { role: "user", content: message.content.map(piece) }, message }];
  }
  const chat: ChatMessage = { role: message.role, content: text(message) };
  if (message.role === "assistant") {
    const calls = parts(message).filter((part) => part.type === "tool-call" && !part.providerExecuted);
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
  return parts(message)
    .flatMap((part) => (part.type === "text" ? [part.text ?? ""] : []))
    .join("\n\n");
}

/** Returns a part of a message in the form of OpenAI's Chat API, so that it is counted. */
function piece(part: Part): Piece {
  if (part.type === "text") return { type: "text", text: part.text ?? "" };
  const type = part.mediaType ?? (part.type.startsWith("image") ? "image/png" : "");
  const url = address(part.image ?? part.data ?? (part as { url?: unknown }).url, type);
  if (url !== undefined && type.startsWith("image/")) return { type: "image_url", image_url: { url } };
  if (url?.startsWith("data:") && type === "application/pdf") return { type: "file", file: { filename: "file.pdf", file_data: url } };
  return { type: "text", text: `${ATTACHED}${part.type}]` };
}

/** Returns the address of data, which has many forms. */
function address(data: unknown, mediaType: string): string | undefined {
  if (data instanceof URL) return data.href;
  if (typeof data === "string") return /^(https?|data):/.test(data) ? data : `data:${mediaType};base64,${data}`;
  if (data instanceof Uint8Array) return `data:${mediaType};base64,${Buffer.from(data).toString("base64")}`;
  if (data instanceof ArrayBuffer) return address(new Uint8Array(data), mediaType);
  const named = data as { url?: unknown; data?: unknown } | undefined | null;
  return named?.url !== undefined || named?.data !== undefined ? address(named.url ?? named.data, mediaType) : undefined;
}

/** Returns the tools of a call in the form of OpenAI's Chat API, so that they are counted. */
async function definitions(tools: Readonly<Record<string, unknown>>): Promise<unknown[]> {
  const all = Object.entries(tools) as [string, Record<string, unknown>][];
  if (!all.length) return [];
  // Who has a step has this package. It reads the schemas of several libraries.
  const { asSchema } = await import("ai");
  return Promise.all(
    all.map(async ([name, { type, id, args, description, inputSchema }]) => {
      if (String(type).startsWith("provider")) return chatTool({ name, id, args } as Tool);
      const { jsonSchema } = asSchema(inputSchema as Parameters<typeof asSchema>[0]);
      return chatTool({ name, description: typeof description === "string" ? description : "", inputSchema: await jsonSchema });
    }),
  );
}

function chatTool(tool: Tool): unknown {
  const { name = "tool", description, inputSchema } = tool;
  if (inputSchema === undefined) return { type: "function", function: { name, description: JSON.stringify(tool) } };
  return { type: "function", function: { name, description: description ?? "", parameters: inputSchema } };
}

function resultContent(output: unknown): string | Piece[] {
  const { type, value, reason } = (output ?? {}) as { type?: string; value?: unknown; reason?: string };
  if (type === "content" && Array.isArray(value)) return (value as Part[]).map(piece);
  if (type === "execution-denied") return reason ?? "(execution denied)";
  const found = value ?? output ?? "";
  return typeof found === "string" ? found : JSON.stringify(found);
}

/** Returns a result with another text. Errors stay errors, and images stay, unless they were cut. */
function changedOutput(output: unknown, chat: ChatMessage): unknown {
  const { type, value } = (output ?? {}) as { type?: string; value?: unknown };
  if (type === "content" && Array.isArray(value) && Array.isArray(chat.content)) {
    return { ...(output as object), value: withTexts(value as Part[], chat) };
  }
  return { type: type?.startsWith("error") ? "error-text" : "text", value: textOf(chat) };
}

/**
 * Returns units in which every call has one result, right after it. A result that comes later is
 * moved to its call; a call without one gets a result that says so.
 */
function paired(given: Unit[]): Unit[] {
  const results = new Map<number, Unit[]>();
  // Ids can be repeated: a result belongs to the latest call with its id that has none.
  const waiting = new Map<string, number[]>();
  given.forEach(({ chat }, at) => {
    for (const call of chat.tool_calls ?? []) waiting.set(call.id, [...(waiting.get(call.id) ?? []), at]);
    if (chat.role !== "tool") return;
    const call = waiting.get(chat.tool_call_id ?? "")?.pop();
    if (call !== undefined) results.set(call, [...(results.get(call) ?? []), given[at] as Unit]);
  });
  return given.flatMap((unit, at) => {
    if (unit.chat.role === "tool") return [];
    const found = results.get(at) ?? [];
    const left = found.map(({ chat }) => chat.tool_call_id);
    const missing = (unit.chat.tool_calls ?? []).filter(({ id }) => {
      const known = left.indexOf(id);
      if (known >= 0) left.splice(known, 1);
      return known < 0;
    });
    const none = missing.map((call) => ({
      chat: { role: "tool", tool_call_id: call.id, content: NO_RESULT },
      toolName: call.function.name,
      callId: call.id,
    }));
    return [unit, ...found, ...none];
  });
}

/**
 * Returns units with call ids that are unique: several providers count their calls from zero in
 * each answer. The second call with an id gets `~2`, and so on.
 */
function unique(all: Unit[]): Unit[] {
  const counts = new Map<string, number>();
  const waiting = new Map<string, string[]>();
  return all.map((unit) => {
    const { chat } = unit;
    if (chat.role === "tool") {
      const name = waiting.get(chat.tool_call_id ?? "")?.shift();
      return { ...unit, chat: { ...chat, tool_call_id: name ?? chat.tool_call_id } };
    }
    if (!chat.tool_calls) return unit;
    const calls = chat.tool_calls.map((call) => {
      const count = (counts.get(call.id) ?? 0) + 1;
      counts.set(call.id, count);
      const id = count === 1 ? call.id : `${call.id}~${count}`;
      waiting.set(call.id, [...(waiting.get(call.id) ?? []), id]);
      return { ...call, id };
    });
    return { ...unit, chat: { ...chat, tool_calls: calls } };
  });
}

/**
 * Returns the units that fitted messages were made from, and new ones for summaries. Messages are
 * aligned from the end, because the server replaces the beginning.
 */
function restored(kept: ChatMessage[], sent: Unit[], all: Unit[]): Unit[] {
  const chats = sent.map((unit) => unit.chat);
  const result: Unit[] = [];
  let done = 0;
  let summary: Unit | undefined;
  for (const { chat, at } of aligned(kept, chats)) {
    const unit = at === undefined ? undefined : all[at];
    if (at === undefined || !unit) {
      summary = { chat, origin: [] };
      result.push(summary);
      continue;
    }
    // Messages that are gone are in the summary before this one.
    if (summary) summary.origin?.push(...all.slice(done, at).flatMap(originOf));
    summary = undefined;
    done = at + 1;
    result.push(isSame(chat, chats[at] as ChatMessage) ? { ...unit, origin: originOf(unit) } : changed(unit, chat));
  }
  return result;
}

/** Returns what a unit is without its unique ids, for the next fit. */
function originOf(unit: Unit): Unit[] {
  if (unit.origin) return unit.origin;
  if (!unit.message) return [];
  if (unit.result) return units({ role: "tool", content: [unit.result] }).map((one) => ({ ...one, message: unit.message as Message }));
  return units(unit.message);
}

/** Returns a unit with another text and other arguments. */
function changed(unit: Unit, chat: ChatMessage): Unit {
  const origin = originOf(unit);
  if (unit.result) return { ...unit, chat, origin, result: { ...unit.result, output: changedOutput(unit.result.output, chat) } };
  if (!unit.message) return { ...unit, chat, origin };
  const calls = [...(chat.tool_calls ?? [])];
  const content = withTexts(parts(unit.message), chat).map((part) => {
    if (part.type !== "tool-call" || part.providerExecuted) return part;
    const call = calls.shift();
    if (!call) return part;
    return { ...part, input: typeof part.input === "string" ? call.function.arguments : argumentsOf(call) };
  });
  const isText = typeof unit.message.content === "string";
  return { chat, origin, message: { ...unit.message, content: isText ? textOf(chat) : content } };
}

/** Returns parts with the texts of a fitted message. The other parts are kept. */
function withTexts(given: readonly Part[], chat: ChatMessage): Part[] {
  let texts = pieces(chat).flatMap((one) => (isText(one) && !one.text.startsWith(ATTACHED) ? [one.text] : []));
  const count = given.filter((part) => part.type === "text" && part.text?.trim()).length;
  // If the texts cannot be told apart, the first has all of them.
  if (texts.length !== count) texts = [texts.join("\n\n")];
  return given.flatMap((part) => {
    if (part.type !== "text") return [part];
    const shown = part.text?.trim() ? texts.shift() : undefined;
    return shown ? [{ ...part, text: shown }] : [];
  });
}

interface Aligned {
  chat: ChatMessage;
  at: number | undefined;
}

function aligned(kept: ChatMessage[], known: ChatMessage[]): Aligned[] {
  const anchors = new Map(known.flatMap((chat, at) => (anchor(chat) ? [[anchor(chat), at] as const] : [])));
  // A text comes after the calls and results that are before it.
  let low = 0;
  const lowest = kept.map((chat) => {
    const before = low;
    low = (anchors.get(anchor(chat)) ?? low - 1) + 1;
    return before;
  });
  let end = known.length;
  const result: Aligned[] = [];
  for (let index = kept.length - 1; index >= 0; index -= 1) {
    const chat = kept[index] as ChatMessage;
    const first = lowest[index] ?? 0;
    let found: Aligned[];
    if (anchor(chat)) {
      const at = anchors.get(anchor(chat));
      found = at === undefined || chat.role === "tool" ? [] : separated(chat, known, first, at);
      if (!found.length) found = [{ chat, at }];
    } else {
      found = find(chat, known, first, end);
    }
    result.unshift(...found);
    end = Math.min(end, ...found.flatMap(({ at }) => (at === undefined ? [] : [at])));
  }
  return result;
}

/** Returns what a call or a result is recognised by. */
function anchor(chat: ChatMessage): string {
  if (chat.role === "tool") return `result ${chat.tool_call_id}`;
  return chat.tool_calls?.length ? `call ${chat.tool_calls[0]?.id}` : "";
}

/** Returns the parts of a fitted text, each with the index of the message that it is. */
function find(chat: ChatMessage, known: ChatMessage[], low: number, end: number): Aligned[] {
  const all: number[] = [];
  for (let at = end - 1; at >= low; at -= 1) if (isLike(chat, known[at] as ChatMessage)) all.push(at);
  // The messages that are kept follow each other, so that the nearest is the most likely.
  const same = all.filter((at) => isSame(chat, known[at] as ChatMessage));
  for (const at of [...all.slice(0, 1), ...same, ...all]) {
    const found = separated(chat, known, low, at);
    if (found.length) return found;
  }
  return [{ chat, at: undefined }];
}

/** Returns a fitted text that ends with a message, and what comes before it, or nothing. */
function separated(chat: ChatMessage, known: ChatMessage[], low: number, from: number): Aligned[] {
  const first = known[from] as ChatMessage;
  if (isSame(chat, first)) return [{ chat, at: from }];
  const result: Aligned[] = [];
  let rest = pieces(chat);
  let at = from;
  if (anchor(first) && !pieces(first).length) {
    // A call without a text, which was joined with the text before it.
    result.push({ chat: { ...chat, content: null }, at });
    at -= 1;
  }
  while (rest.length && at >= low && (!result.length || isLike(chat, known[at] as ChatMessage))) {
    const message = known[at] as ChatMessage;
    const found = split(rest, pieces(message));
    if (!found) break;
    rest = found.rest;
    const { tool_calls, ...plain } = chat;
    const content = Array.isArray(message.content) ? found.end : found.end.map((one) => one.text).join("\n\n");
    result.unshift({ chat: { ...(result.length || !tool_calls ? plain : chat), content }, at });
    at -= 1;
  }
  if (result.length && rest.length) {
    const content = rest.every(isText) ? rest.map((one) => one.text).join("\n\n") : rest;
    result.unshift({ chat: { role: chat.role, content }, at: undefined });
  }
  return result;
}

/** Separates pieces that end with those of a message. Returns undefined if they do not. */
function split(have: Piece[], want: Piece[]): { rest: Piece[]; end: Piece[] } | undefined {
  if (!want.length) return undefined;
  const rest = [...have];
  const end: Piece[] = [];
  for (let index = want.length - 1; index >= 0; index -= 1) {
    const wanted = want[index] as Piece;
    let last = rest.pop();
    if (!last) return undefined;
    if (isText(wanted) && isText(last)) {
      if (!isTextOf(last.text, wanted.text)) {
        const found = index === 0 ? paragraphs(last.text, wanted.text) : undefined;
        if (!found) return undefined;
        rest.push({ ...last, text: found[0] });
        last = { ...last, text: found[1] };
      }
    } else if (JSON.stringify(last) !== JSON.stringify(wanted)) {
      return undefined;
    }
    end.unshift(last);
  }
  return { rest, end };
}

/** Separates a text from its last paragraphs, if those are `end`. */
function paragraphs(whole: string, end: string): [string, string] | undefined {
  const all = whole.trim().split("\n\n");
  const count = end.trim().split("\n\n").length;
  const last = all.slice(-count).join("\n\n");
  if (all.length <= count || !isTextOf(last, end)) return undefined;
  return [all.slice(0, -count).join("\n\n").trim(), last];
}

/** Returns true if a text is another one, perhaps with secrets masked or parts cut. */
function isTextOf(shown: string, given: string): boolean {
  const [text, whole] = [shown.trim(), given.trim()];
  if (text === whole) return true;
  const all = text.split(MARK);
  const [first = "", last = ""] = [all[0], all.at(-1)];
  if (all.length === 1 || !whole.startsWith(first) || !whole.endsWith(last)) return false;
  let start = first.length;
  for (const one of all.slice(1, -1)) {
    const at = whole.indexOf(one, start);
    if (at < 0) return false;
    start = at + one.length;
  }
  return start <= whole.length - last.length;
}

function isSame(chat: ChatMessage, known: ChatMessage): boolean {
  const plain = (one: ChatMessage) =>
    JSON.stringify([
      pieces(one).map((part) => (isText(part) ? part.text.trim() : part)),
      (one.tool_calls ?? []).map((call) => [call.function.name, argumentsOf(call)]),
    ]);
  return plain(chat) === plain(known);
}

function argumentsOf(call: ToolCall): unknown {
  try {
    return JSON.parse(call.function.arguments || "{}");
  } catch {
    return call.function.arguments;
  }
}

function isLike(chat: ChatMessage, known: ChatMessage): boolean {
  return chat.role === known.role && !anchor(known);
}

function isText(one: Piece): one is Piece & { text: string } {
  return one.type === "text";
}

/** Returns the content of a message as pieces. Empty texts are left out. */
function pieces({ content }: ChatMessage): Piece[] {
  const all = Array.isArray(content) ? content : [{ type: "text", text: content ?? "" }];
  return all.filter((one) => !isText(one) || one.text.trim());
}

function textOf(chat: ChatMessage): string {
  return pieces(chat)
    .flatMap((one) => (isText(one) ? [one.text] : []))
    .join("\n\n");
}

function isSummary(chat: ChatMessage): boolean {
  return chat.role === "user" && textOf(chat).startsWith(SUMMARY);
}

/** Returns a message in which a text takes the place of each image. */
function withoutImages(chat: ChatMessage): ChatMessage {
  if (!Array.isArray(chat.content) || !chat.content.some((one) => one.type === "image_url")) return chat;
  const content = chat.content.map((one) => (one.type === "image_url" ? { type: "text", text: `${ATTACHED}image]` } : one));
  return { ...chat, content };
}

/** Returns messages made of units. Results that follow each other are one message. */
function joined(all: Unit[], approvals: ReadonlyMap<string | undefined, Part>): Message[] {
  const messages: Message[] = [];
  let answered: Part[] = [];
  for (const unit of all) {
    if (unit.chat.role !== "tool") {
      const message = unit.message ?? newMessage(unit.chat);
      messages.push(message);
      const origin = unit.origin ?? [];
      if (!unit.message || origin[0]?.message !== message) originals.set(message, origin);
      answered = parts(message).flatMap((part) =>
        part.type === "tool-approval-request" ? [approvals.get(part.approvalId) ?? []].flat() : [],
      );
      continue;
    }
    const result = unit.result ?? {
      type: "tool-result",
      toolCallId: unit.callId ?? unit.chat.tool_call_id ?? "",
      toolName: unit.toolName ?? "unknown",
      output: { type: "text", value: textOf(unit.chat) },
    };
    const last = messages.at(-1);
    const isNext = last?.role === "tool" && typeof last.content !== "string";
    const before = isNext ? last.content : answered;
    const message: Message = { ...unit.message, role: "tool", content: [...(before as readonly Part[]), result] };
    originals.set(message, [...((isNext && originals.get(last)) || []), ...(unit.origin ?? [])]);
    if (isNext) messages[messages.length - 1] = message;
    else messages.push(message);
  }
  return messages;
}

function newMessage(chat: ChatMessage): Message {
  const role = chat.role === "assistant" || chat.role === "system" ? chat.role : "user";
  return role === "system" ? { role, content: textOf(chat) } : { role, content: [{ type: "text", text: textOf(chat) }] };
}
