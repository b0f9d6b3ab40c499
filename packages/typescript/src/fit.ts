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
 */
export async function fit<Request extends object>(request: Request, options: FitOptions = {}): Promise<Request> {
  const answer = await (options.client ?? defaultClient()).fit({
    request: request as Record<string, unknown>,
    max_tokens: options.maxTokens,
    session: options.session,
    model: options.model,
    reserve_response: options.reserveResponse,
    report: false,
  });
  return answer.changed ? (answer.request as Request) : request;
}
