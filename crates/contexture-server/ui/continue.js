// Continues a tree with the configured model: n samples, shown while they are
// written, each a new node.

import { at, stream } from "./api.js";
import { isCut, many, visible } from "./format.js";
import { Badge, Dialog, Text, html, useEffect, useRef, useState } from "./parts.js";

const MOST_SAMPLES = 16;

export function Continue({ document, place, close, done }) {
  const agents = (document.agents ?? []).filter((one) => one.type === "model");
  const [agent, setAgent] = useState(agents[0]?.id ?? "");
  const [samples, setSamples] = useState(3);
  const [texts, setTexts] = useState(null);
  const [error, setError] = useState(null);
  const abort = useRef(new AbortController());
  // Closing the dialog ends the call: the server adds no sample that is not complete.
  useEffect(() => () => abort.current.abort(), []);
  const run = async (event) => {
    event.preventDefault();
    setError(null);
    let now = Array.from({ length: samples }, () => ({ text: "", state: "writing" }));
    let first = null;
    const change = (i, part) => { now = now.map((one, k) => (k === i ? { ...one, ...part } : one)); setTexts(now); };
    setTexts(now);
    try {
      const body = { head: place.shown.id, samples, ...(agent && { agent }) };
      await stream(at`/v1/trees/${document.tree.id}/continuations`, body, (one) => {
        if (one.event === "text") change(one.sample, { text: now[one.sample].text + one.text });
        else if (one.event === "node") { first ??= one.node.id; change(one.sample, { state: "added", stop: one.stop_reason }); }
        else change(one.sample, { state: "failed", message: one.message });
      }, abort.current.signal);
      await done(first, now.filter((one) => one.state === "added").length);
      // A sample that is not whole is shown before the dialog is closed.
      if (now.every((one) => one.state === "added" && !isCut(one.stop))) close();
    } catch (problem) {
      if (problem.name === "AbortError") return;
      setTexts(null);
      setError(problem);
    }
  };
  const isBusy = texts?.some((one) => one.state === "writing") && !error;
  return html`<${Dialog} title="Continue with a model" close=${close} wide>
    <form onSubmit=${run}>
      <div class="controls">
        <label><span>Samples</span><input type="number" min="1" max=${MOST_SAMPLES} value=${samples} disabled=${isBusy} onInput=${(event) => setSamples(Math.min(MOST_SAMPLES, Math.max(1, Number(event.target.value) || 1)))} /></label>
        ${agents.length > 0 && html`<label><span>Agent</span><select value=${agent} disabled=${isBusy} onChange=${(event) => setAgent(event.target.value)}><option value="">none</option>${agents.map((one) => html`<option key=${one.id} value=${one.id}>${visible(one.id)}</option>`)}</select></label>`}
        <button type="submit" class="primary" disabled=${isBusy}>${isBusy ? "Writing…" : "Continue"}</button>
      </div>
      ${error && html`<p class="wrong" role="alert">${visible(error.message)}${error.hint && html`<br />${visible(error.hint)}`}</p>`}
    </form>
    ${texts && html`<div class="columns" role="status" aria-label=${many(texts.length, "sample")}>${texts.map((one, i) => html`<section key=${i}><h3>Sample ${i + 1} <${Badge} kind=${one.state === "failed" ? "warn" : ""}>${one.state}<//>${isCut(one.stop) && html` <${Badge} kind="warn" title="The answer has reached its limit of tokens">cut: ${visible(one.stop)}<//>`}</h3>
      ${one.message && html`<p class="wrong">${visible(one.message)}</p>`}<${Text} value=${one.text} /></section>`)}</div>`}
  <//>`;
}
