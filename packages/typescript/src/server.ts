/** A local server: a `contexture serve` process that ends with this process. */

import { type ChildProcess, spawn } from "node:child_process";
import type { Socket } from "node:net";

import { findBinary } from "./binary.js";
import { ServerStartError } from "./errors.js";

export interface LocalServerOptions {
  /** The directory of the project. Default: the current directory. */
  root?: string;
  /** The store. Default: a file in the root. */
  db?: string;
  /** The port. Default: a free one. */
  port?: number;
  /** The command. Default: the installed one. */
  binary?: string;
  /** The longest time until the server listens, in milliseconds. Default: 30,000. */
  startTimeoutMs?: number;
}

/**
 * A `contexture serve` process on a free port of this machine. It stops with {@link stop}, and when
 * this process ends, even if it is killed: the server watches its standard input.
 */
export class LocalServer {
  readonly #options: LocalServerOptions;
  #child: ChildProcess | undefined;
  #starting: Promise<string> | undefined;

  constructor(options: LocalServerOptions = {}) {
    this.#options = options;
  }

  /** Returns the address of the server. Starts the server if it does not run. */
  url(): Promise<string> {
    if (this.#starting && (!this.#child || this.isRunning)) return this.#starting;
    this.#child = undefined;
    const starting = this.#start();
    this.#starting = starting;
    starting.catch(() => {
      if (this.#starting === starting) this.#starting = undefined;
    });
    return starting;
  }

  /** Whether the process runs. */
  get isRunning(): boolean {
    return this.#child !== undefined && this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /** The id of the process, if it runs. */
  get pid(): number | undefined {
    return this.isRunning ? this.#child?.pid : undefined;
  }

  /** Waits until the process has ended. Returns false if it still runs after `ms`. */
  async hasEnded(ms: number): Promise<boolean> {
    const child = this.#child;
    if (!child || !this.isRunning) return true;
    return new Promise((resolve) => {
      const timer = setTimeout(() => resolve(false), ms);
      child.once("exit", () => {
        clearTimeout(timer);
        resolve(true);
      });
    });
  }

  /** Stops the server after it has completed the accepted requests. */
  async stop(): Promise<void> {
    await this.#starting?.catch(() => undefined);
    const child = this.#child;
    this.#child = undefined;
    this.#starting = undefined;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(() => child.kill("SIGKILL"), 10_000);
      child.once("exit", () => {
        clearTimeout(timer);
        resolve();
      });
      child.ref();
      child.stdin?.end();
    });
  }

  async #start(): Promise<string> {
    // A relative root, because the name of the current directory may not be UTF-8: the server has
    // the same directory, and a string could not hold its name.
    const { root = ".", db, port = 0, binary = findBinary() } = this.#options;
    const args = ["serve", "--stop-with-stdin", "--addr", `127.0.0.1:${port}`, "--root", root];
    if (db !== undefined) args.push("--db", db);
    // The log is only read when the server fails.
    const env = { CONTEXTURE_SERVER_LOG: "error", ...process.env };
    // Ctrl-C at a terminal is for this process, which may still need the server: the server has a
    // group of its own. On Windows that would open a window.
    const detached = process.platform !== "win32";
    const child = spawn(binary, args, { stdio: ["pipe", "ignore", "pipe"], env, detached });
    this.#child = child;
    // A write to a server that has ended is no error of ours.
    child.stdin?.on("error", () => undefined);
    return new Promise<string>((resolve, reject) => {
      let printed = "";
      const timer = setTimeout(() => child.kill("SIGKILL"), this.#options.startTimeoutMs ?? 30_000);
      const fail = (why: string) => {
        clearTimeout(timer);
        reject(new ServerStartError(`\`contexture serve\` did not start: ${why.trim() || "it printed nothing"}`));
      };
      child.once("error", (error) => fail(error.message));
      child.once("close", () => fail(printed));
      child.stderr?.on("data", (data: Buffer) => {
        printed = (printed + data.toString("utf8")).slice(-4000);
        const address = /^serving on (http:\/\/\S+)/m.exec(printed)?.[1];
        if (!address) return;
        clearTimeout(timer);
        // The server does not keep this process from ending.
        child.unref();
        (child.stdin as Socket | null)?.unref?.();
        (child.stderr as Socket | null)?.unref?.();
        resolve(address);
      });
    });
  }
}
