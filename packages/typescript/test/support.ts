/** A server for the tests, and long conversations with tools. */

import { existsSync, mkdtempSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

for (const name of ["CONTEXTURE_URL", "CONTEXTURE_API_KEY", "CONTEXTURE_ROOT", "CONTEXTURE_DB"]) delete process.env[name];
if (!process.env.CONTEXTURE_BIN) {
  const built = ["debug", "release"].map((kind) => join(__dirname, "../../../target", kind, "contexture"));
  const found = built.filter((path) => existsSync(path)).sort((a, b) => statSync(b).mtimeMs - statSync(a).mtimeMs);
  if (!found[0]) throw new Error("build the command first: cargo build -p contexture-cli");
  process.env.CONTEXTURE_BIN = found[0];
}

/** Returns an empty directory. */
export const emptyRoot = (): string => mkdtempSync(join(tmpdir(), "contexture-"));

export interface Step {
  user: string[];
  text: string;
  calls: string[];
  results: Map<string, string>;
}

/** Returns a run of an agent, always the same for a seed. */
export function run(seed: number, steps: number): Step[] {
  let state = seed;
  const random = () => {
    state = (state * 1103515245 + 12345) % 2147483648;
    return state / 2147483648;
  };
  return Array.from({ length: steps }, (_, number) => {
    const step: Step = { user: [], text: "", calls: [], results: new Map() };
    if (number === 0 || random() < 0.2) step.user.push(`Request ${number}: fix module ${number % 7}.`);
    if (random() < 0.75) {
      const count = random() < 0.6 ? 1 : 3;
      for (let at = 0; at < count; at += 1) {
        const call = `call_${seed}_${number}_${at}`;
        step.calls.push(call);
        const lines = [1, 5, 40, 300][Math.floor(random() * 4)] ?? 1;
        step.results.set(call, Array.from({ length: lines }, (_, line) => `line ${line}: ${line * number}`).join("\n"));
      }
      // The user interrupted the calls.
      if (random() < 0.08) step.results.delete(step.calls.at(-1) ?? "");
    } else {
      step.text = `Step ${number} is done. `.repeat(4);
    }
    return step;
  });
}
