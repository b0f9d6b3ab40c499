// Calls of the server's API. The key is kept for this tab only.

const meta = (name) => document.querySelector(`meta[name="contexture-${name}"]`)?.content ?? "";

export const readOnly = meta("access") === "read-only";
export const version = meta("version");

const KEY = "contexture-key";

export const key = {
  get: () => sessionStorage.getItem(KEY) ?? "",
  set: (value) => sessionStorage.setItem(KEY, value),
  forget: () => sessionStorage.removeItem(KEY),
};

// `contexture inspect` puts the key after `#`, which no server ever sees.
const given = /^#key=([^&]+)(?:&to=(.*))?$/.exec(location.hash);
if (given) {
  key.set(decodeURIComponent(given[1]));
  history.replaceState(null, "", location.pathname + "#" + decodeURIComponent(given[2] ?? "/"));
}

/** An error that the server answered with, or that kept a call from it. */
export class Problem extends Error {
  constructor(status, error) {
    super(error.message);
    this.status = status;
    this.code = error.code;
    this.hint = error.hint;
    this.field = error.field;
  }
}

const listeners = new Set();

/** Calls `listener` when a call needs another key. */
export const onKeyNeeded = (listener) => { listeners.add(listener); return () => listeners.delete(listener); };

async function call(method, path, body, signal) {
  const headers = {};
  if (key.get()) headers.authorization = `Bearer ${key.get()}`;
  if (body !== undefined) headers["content-type"] = "application/json";
  let response;
  try {
    response = await fetch(path, {
      method, headers, signal, credentials: "omit", cache: "no-store",
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, { code: "unreachable", message: "the server does not answer", hint: "check that it still runs, then retry" });
  }
  const text = await response.text();
  let value;
  try { value = text === "" ? null : JSON.parse(text); } catch { value = null; }
  if (response.ok) return value;
  const problem = new Problem(response.status, value?.error ?? { code: "unknown", message: `the server answered with status ${response.status}` });
  if (response.status === 401) listeners.forEach((listener) => listener(problem));
  throw problem;
}

export const get = (path, signal) => call("GET", path, undefined, signal);
export const post = (path, body, signal) => call("POST", path, body ?? {}, signal);
export const patch = (path, body) => call("PATCH", path, body);
export const remove = (path) => call("DELETE", path);

/** Posts a body and calls `line` with each value of an answer of JSON lines, as they come. */
export async function stream(path, body, line, signal) {
  const headers = { "content-type": "application/json" };
  if (key.get()) headers.authorization = `Bearer ${key.get()}`;
  let response;
  try {
    response = await fetch(path, { method: "POST", headers, signal, credentials: "omit", cache: "no-store", body: JSON.stringify(body) });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, { code: "unreachable", message: "the server does not answer", hint: "check that it still runs, then retry" });
  }
  if (!response.ok) {
    const value = await response.json().catch(() => null);
    throw new Problem(response.status, value?.error ?? { code: "unknown", message: `the server answered with status ${response.status}` });
  }
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    lines.filter(Boolean).forEach((text) => line(JSON.parse(text)));
  }
}

/** Returns a path with escaped parts: at`/v1/sessions/${label}`. */
export const at = (parts, ...values) =>
  parts.reduce((path, part, i) => path + encodeURIComponent(values[i - 1]) + part);
