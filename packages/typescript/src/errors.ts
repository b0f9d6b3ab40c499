/** The errors of this package. All are instances of {@link ContextureError}. */

/** What a caller can do about an error, as data. */
export type Advice = { do: string } & Record<string, unknown>;

/** The base class of all errors of this package. */
export class ContextureError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** The server rejected a call. `code` is stable; `message` is for people. */
export class ApiError extends ContextureError {
  readonly status: number;
  readonly code: string;
  readonly field: string | null;
  readonly hint: string | null;
  readonly advice: Advice[];
  readonly requestId: string | null;

  constructor(
    status: number,
    body: { code: string; message: string; field?: string | null; hint?: string | null; advice?: Advice[] },
    requestId: string | null = null,
    note?: string,
  ) {
    let text = body.field ? `${body.field}: ${body.message}` : body.message;
    if (body.hint) text += ` (hint: ${body.hint})`;
    if (note) text += ` [${note}]`;
    super(`${status} ${body.code}: ${text}`);
    this.status = status;
    this.code = body.code;
    this.field = body.field ?? null;
    this.hint = body.hint ?? null;
    this.advice = body.advice ?? [];
    this.requestId = requestId;
  }
}

/** The server cannot be reached, or it ended during a call. */
export class ServerUnavailableError extends ContextureError {}

/** The local server did not start. The message contains what it printed. */
export class ServerStartError extends ContextureError {}

/** The `contexture` command is not installed, or not available for this platform. */
export class BinaryNotFoundError extends ContextureError {}

/** The answer does not match the API that this package was made for. */
export class InvalidAnswerError extends ContextureError {}

/** A framework that an adapter needs is too old. */
export class FrameworkVersionError extends ContextureError {}
