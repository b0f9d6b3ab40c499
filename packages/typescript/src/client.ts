/**
 * The client: one method per operation of the server's API, named in camel case. Without an address
 * the client starts a local server with the first call.
 */

import { accessSync, constants, existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import type { components, operations } from "./api.js";
import { ApiError, InvalidAnswerError, ServerUnavailableError } from "./errors.js";
import { OPERATIONS } from "./operations.js";
import { LocalServer } from "./server.js";
import { VERSION } from "./version.js";

/** The objects of the API by name, such as `Schemas["Message"]`. */
export type Schemas = components["schemas"];

type Id = keyof operations & keyof typeof OPERATIONS;
type Camel<Name extends string> = Name extends `${infer First}_${infer Rest}`
  ? `${First}${Capitalize<Camel<Rest>>}`
  : Name;
type Path<Op> = Op extends { parameters: { path: infer Found } } ? Found : unknown;
type Given<Found> = [NonNullable<Found>] extends [never] ? unknown : NonNullable<Found>;
type Query<Op> = Op extends { parameters: { query?: infer Found } } ? Given<Found> : unknown;
type Body<Op> = Op extends { requestBody: { content: { "application/json": infer Found } } }
  ? Found
  : Op extends { requestBody?: { content: { "application/json": infer Found } } }
    ? Partial<Found>
    : unknown;
// A field of the body that has the name of a parameter is given inside `body`.
type Merged<Named, Sent> = keyof Named & (Sent extends unknown ? keyof Sent : never) extends never
  ? Named & Sent
  : Named & { body: Sent };

/** The arguments of an operation: its parameters and the fields of its body. */
export type Input<Name extends Id> = Merged<
  Path<operations[Name]> & Query<operations[Name]>,
  Body<operations[Name]>
>;

type Success<Op> = Op extends { responses: infer All }
  ? All extends { 200: { content: { "application/json": infer Found } } }
    ? Found
    : All extends { 201: { content: { "application/json": infer Found } } }
      ? Found
      : never
  : never;
/** The answer of an operation. */
export type Output<Name extends Id> = Success<operations[Name]>;

type IsStream<Name extends Id> = (typeof OPERATIONS)[Name]["is_stream"];
type IsRequired<Name extends Id> = object extends Input<Name> ? false : true;
type Method<Name extends Id> = IsStream<Name> extends true
  ? (input: Input<Name>) => AsyncGenerator<Record<string, unknown>, void, undefined>
  : IsRequired<Name> extends true
    ? (input: Input<Name>, options?: CallOptions) => Promise<Output<Name>>
    : (input?: Input<Name>, options?: CallOptions) => Promise<Output<Name>>;
type Methods = { [Name in Id as Camel<Name>]: Method<Name> };

export interface CallOptions {
  /** Cancels the call. */
  signal?: AbortSignal;
}

export interface ClientOptions {
  /** The address of a server. Default: `CONTEXTURE_URL`; without it, a local server is started. */
  url?: string;
  /** The API key of the server. Default: `CONTEXTURE_API_KEY`. */
  apiKey?: string;
  /** The directory of the local server. Default: the current directory. */
  root?: string;
  /** The store of the local server. Default: a file in the root. */
  db?: string;
  /** A local server that is shared. It is not stopped by {@link Client.close}. */
  server?: LocalServer;
  /** The longest time of a call in milliseconds. Default: 60,000. */
  timeoutMs?: number;
  /** The function that sends calls. Default: `fetch`. */
  fetch?: typeof globalThis.fetch;
}

// eslint-disable-next-line @typescript-eslint/no-unsafe-declaration-merging
export interface Client extends Methods {}

/**
 * A client of a Contexture server.
 *
 * ```ts
 * const client = new Client();
 * await client.recordText({ source: "notes", text: "The dog is called Rufus." });
 * console.log((await client.recall({ query: "the dog's name", max_tokens: 500 })).content);
 * ```
 */
export class Client {
  /** The local server, or undefined if the client calls a server that was named. */
  readonly server: LocalServer | undefined;
  readonly #url: string | undefined;
  readonly #options: ClientOptions;
  #seen: string | null = null;

  constructor(options: ClientOptions = {}) {
    const local = options.root ?? options.db ?? options.server;
    if (options.url && local !== undefined) {
      throw new TypeError("url cannot be combined with root, db or server");
    }
    const url = options.url ?? (local === undefined ? process.env.CONTEXTURE_URL : undefined);
    this.#options = options;
    this.#url = url?.replace(/\/+$/, "") || undefined;
    this.server = this.#url ? undefined : (options.server ?? new LocalServer(options));
  }

  /** Stops the local server. The client can be used again. */
  async close(): Promise<void> {
    if (this.server && !this.#options.server) await this.server.stop();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** @internal */
  async _call(id: Id, input: Record<string, unknown>, options: CallOptions = {}): Promise<unknown> {
    const response = await this.#send(id, input, options.signal, true);
    const text = await response.text().catch((error: unknown) => this.#failed(error, options.signal));
    try {
      return JSON.parse(text);
    } catch (error) {
      const note = this.#note() ?? "is this address a Contexture server?";
      throw new InvalidAnswerError(`the answer is not JSON [${note}]`, { cause: error });
    }
  }

  /** @internal */
  async *_stream(id: Id, input: Record<string, unknown>): AsyncGenerator<Record<string, unknown>, void, undefined> {
    const stop = new AbortController();
    const response = await this.#send(id, input, stop.signal, false);
    const decoder = new TextDecoder();
    let rest = "";
    try {
      for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
        rest += decoder.decode(chunk, { stream: true });
        const lines = rest.split("\n");
        rest = lines.pop() ?? "";
        for (const line of lines) {
          const data = line.startsWith("data:") ? line.slice(5) : line.startsWith("{") ? line : "";
          if (data) yield JSON.parse(data) as Record<string, unknown>;
        }
      }
    } catch (error) {
      await this.#failed(error);
    } finally {
      stop.abort();
    }
  }

  async #send(id: Id, input: Record<string, unknown>, signal: AbortSignal | undefined, isTimed: boolean): Promise<Response> {
    const operation = OPERATIONS[id];
    const left = { ...input };
    const take = (name: string) => {
      const value = left[name];
      delete left[name];
      return value;
    };
    const path = operation.path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(take(name))));
    const query = new URLSearchParams();
    for (const name of operation.in_query) {
      const value = take(name);
      if (value !== undefined) query.set(name, String(value));
    }
    const headers: Record<string, string> = { "user-agent": `contexture-ai-node/${VERSION}` };
    const key = this.#options.apiKey ?? process.env.CONTEXTURE_API_KEY;
    if (key) headers.authorization = `Bearer ${key}`;
    const init: RequestInit = { method: operation.method, headers };
    if (operation.has_body) {
      headers["content-type"] = "application/json";
      init.body = JSON.stringify("body" in left ? left.body : left);
    }
    const limit = isTimed ? AbortSignal.timeout(this.#options.timeoutMs ?? 60_000) : undefined;
    const signals = [signal, limit].filter((one) => one !== undefined);
    if (signals.length) init.signal = AbortSignal.any(signals);
    const base = this.#url ?? (await (this.server as LocalServer).url());
    const send = this.#options.fetch ?? globalThis.fetch;
    const asked = query.size ? `?${query}` : "";
    const response = await send(base + path + asked, init).catch((error: unknown) => this.#failed(error, signal));
    this.#look(response);
    if (response.ok) return response;
    const text = await response.text();
    let body: { code: string; message: string };
    try {
      body = (JSON.parse(text) as { error: { code: string; message: string } }).error;
      if (!body.code) throw new TypeError("no code");
    } catch {
      body = { code: "unknown", message: text.slice(0, 200) || response.statusText };
    }
    const isUnknown = ["no_such_path", "no_such_method", "invalid_field"].includes(body.code);
    const note = isUnknown ? this.#note() : undefined;
    throw new ApiError(response.status, body, response.headers.get("x-request-id"), note);
  }

  /** Throws what a call without an answer means. */
  async #failed(error: unknown, signal?: AbortSignal): Promise<never> {
    if (signal?.aborted) throw error;
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
    const reason = cause instanceof Error ? cause.message : String(cause);
    // A process that was killed closes its connections before it counts as ended.
    const message = this.server && (await this.server.hasEnded(500))
      ? `the local server ended during the call (${reason}): the next call starts it again`
      : `no answer from ${this.#url ?? "the local server"}: ${reason}${this.server ? proxyHint() : ""}`;
    throw new ServerUnavailableError(message, { cause: error });
  }

  #look(response: Response): void {
    const version = response.headers.get("contexture-version");
    if (!version || version === this.#seen) return;
    this.#seen = version;
    const note = this.#note();
    if (note) process.emitWarning(note, "ContextureVersionWarning");
  }

  #note(): string | undefined {
    if (!this.#seen || series(this.#seen) === series(VERSION)) return undefined;
    return `the server has version ${this.#seen} and contexture-ai has version ${VERSION}: install the same version of both`;
  }
}

/**
 * Returns what to do if Node sends the calls of `fetch` to a proxy, which cannot reach this machine.
 * Node reads the environment when it starts, so that the client cannot change it.
 */
function proxyHint(): string {
  const { NODE_USE_ENV_PROXY, HTTP_PROXY, http_proxy } = process.env;
  if (!NODE_USE_ENV_PROXY || !(HTTP_PROXY ?? http_proxy)) return "";
  return " [NODE_USE_ENV_PROXY sends calls to a proxy: set NO_PROXY=127.0.0.1,localhost]";
}

/** Returns the part of a version that says what is compatible: 0.2 of 0.2.7, 1 of 1.4.0. */
function series(version: string): string {
  const parts = version.split(".");
  return parts.slice(0, parts[0] === "0" ? 2 : 1).join(".");
}

for (const [id, operation] of Object.entries(OPERATIONS) as [Id, { is_stream: boolean }][]) {
  const name = id.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
  const method = operation.is_stream
    ? function (this: Client, input: Record<string, unknown> = {}) {
        return this._stream(id, input);
      }
    : function (this: Client, input: Record<string, unknown> = {}, options?: CallOptions) {
        return this._call(id, input, options);
      };
  Object.defineProperty(Client.prototype, name, { value: method, writable: true, configurable: true });
}

let shared: Client | undefined;
let temporary: Client | undefined;

/**
 * Returns the client of this process, which starts a local server unless one is named. A call that
 * stores nothing (`isStateless`) works in a directory that cannot be written, too.
 */
export function defaultClient(isStateless = false): Client {
  if (!shared && isStateless && !process.env.CONTEXTURE_URL && !canStore()) return temporaryClient();
  shared ??= new Client();
  return shared;
}

/** Returns true if the store of the current directory can be written, or be created. */
function canStore(): boolean {
  try {
    accessSync(existsSync(".contexture") ? ".contexture" : ".", constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

/** Returns a client whose store is in a temporary directory, which is removed when this process ends. */
function temporaryClient(): Client {
  if (!temporary) {
    const root = mkdtempSync(join(tmpdir(), "contexture-"));
    process.once("exit", () => rmSync(root, { recursive: true, force: true }));
    temporary = new Client({ root });
  }
  return temporary;
}
