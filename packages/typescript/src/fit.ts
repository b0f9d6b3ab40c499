/** Makes requests for the plain clients of providers fit. */

import { type Client, defaultClient } from "./client.js";

export interface FitOptions {
  /** The size of the window, response included. Default: the model's. */
  maxTokens?: number;
  /** The session that keeps the conversation, so that the provider's cache stays valid. */
  session?: string;
  /** The model whose window and tokenizer count. Default: the request's. */
  model?: string;
  /** The tokens to keep free for the response. */
  reserveResponse?: number;
  /** The client to use. Default: the client of this process. */
  client?: Client;
}

/**
 * Returns a provider's request within its context window. `request` is the body of a call to
 * OpenAI's Chat or Responses API, Anthropic's Messages API or Gemini. A request that fits is
 * returned unchanged.
 *
 * The arguments of Gemini's client are accepted, too: `contents` can be a text, and the instructions
 * and tools in `config` are counted.
 */
export async function fit<Request extends object>(request: Request, options: FitOptions = {}): Promise<Request> {
  const given = request as Record<string, unknown>;
  const body = "contents" in given ? geminiBody(given) : given;
  const answer = await (options.client ?? defaultClient(options.session === undefined)).fit({
    request: body,
    max_tokens: options.maxTokens,
    session: options.session,
    model: options.model,
    reserve_response: options.reserveResponse,
    report: false,
  });
  if (!answer.changed) return request;
  const fitted = answer.request as Record<string, unknown>;
  // Only the conversation changes, and the instructions if they have secrets.
  const names = body === given ? Object.keys(fitted) : Object.keys(fitted).filter((name) => name in given);
  return { ...(body === given ? {} : given), ...Object.fromEntries(names.map((name) => [name, fitted[name]])) } as Request;
}

/** Returns the body of a request to Gemini, from that body or the arguments of Gemini's client. */
function geminiBody({ config, ...body }: Record<string, unknown>): Record<string, unknown> {
  const { systemInstruction, tools } = (config ?? {}) as { systemInstruction?: unknown; tools?: unknown };
  return {
    ...body,
    contents: contents(body.contents),
    ...(systemInstruction === undefined ? {} : { systemInstruction: { parts: partsOf(systemInstruction) } }),
    ...(Array.isArray(tools) ? { tools } : {}),
  };
}

/** Returns the parts of an instruction: a text, a content, a part, or a list of texts and parts. */
function partsOf(given: unknown): unknown[] {
  const { parts } = (given ?? {}) as { parts?: unknown };
  const all = Array.isArray(given) ? given : Array.isArray(parts) ? parts : [given];
  return all.map((one) => (typeof one === "string" ? { text: one } : one));
}

/** Returns Gemini's contents as a list of objects. A text is a message of the user. */
function contents(given: unknown): unknown[] {
  const all = Array.isArray(given) ? given : [given];
  return all.map((one) => (typeof one === "string" ? { role: "user", parts: [{ text: one }] } : one));
}
