// The same request at another budget or for another model, with the difference
// marked. Nothing is stored.

import { at, get, post } from "./api.js";
import { count, line, many, short, titleOf, visible } from "./format.js";
import { Badge, DiffText, Empty, Failure, List, Split, Text, WindowBar, byLayer, html, setQuery, useEffect, useMemo, useRef, useState } from "./parts.js";

let models;

export function Refit({ report, layers, used, query }) {
  const { snapshot } = report;
  // Null: as recorded. The window of an imported request is that of its model.
  const [chosen, setChosen] = useState(Number(query.max) || null);
  const [model, setModel] = useState(query.model ?? snapshot.model);
  const [reserve, setReserve] = useState(query.reserve === undefined ? null : Number(query.reserve) || 0);
  const [answer, setAnswer] = useState(null);
  const [found, setFound] = useState(null);
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(true);
  const [known, setKnown] = useState([]);
  const verified = useRef(null);
  useEffect(() => { (models ??= get("/v1/models")).then((list) => setKnown(list.models), () => (models = undefined)); }, []);
  useEffect(() => {
    const abort = new AbortController();
    setBusy(true);
    setQuery({ max: chosen ?? "", model: model === snapshot.model ? "" : model, reserve: reserve ?? "" });
    const run = async () => {
      const body = { verify: verified.current === null };
      const window = chosen ?? (report.has_inputs ? report.budget?.max : null);
      if (window) body.max_tokens = window;
      if (model !== snapshot.model) body.model = model;
      // The recorded reserve may be more than a small window holds.
      if (reserve !== null) body.reserve_response = reserve;
      else if (report.has_inputs && report.budget?.reserved && report.budget.reserved < window / 2) body.reserve_response = report.budget.reserved;
      const began = performance.now();
      const result = await post(at`/v1/snapshots/${snapshot.hash}/refit`, body, abort.signal);
      if (abort.signal.aborted) return;
      verified.current ??= result.reproduced ?? undefined;
      if (window === null && !body.model) setFound(result.report.budget.max);
      setAnswer({ ...result, took: performance.now() - began });
      setError(null);
      setBusy(false);
    };
    const timer = setTimeout(() => run().catch((problem) => { if (!abort.signal.aborted) { setError(problem); setBusy(false); } }), answer ? 60 : 0);
    return () => { clearTimeout(timer); abort.abort(); };
  }, [chosen, model, reserve]);
  const windowOf = (name) => known.find((one) => one.name === name)?.window;
  const recorded = report.budget?.max ?? found ?? windowOf(snapshot.model) ?? Math.ceil((used + (report.max_output ?? 0)) / 1000) * 1000;
  // The sources are fitted to the recorded window, also for another model.
  const isRecorded = model === snapshot.model || report.has_inputs;
  const max = chosen ?? (isRecorded ? recorded : answer?.report.budget.max ?? recorded);
  const setMax = (tokens) => setChosen(tokens === recorded && isRecorded ? null : tokens);
  const window = windowOf(model);
  const reserved = reserve ?? answer?.report.budget.reserved ?? report.budget?.reserved ?? 0;
  const top = Math.max(recorded * 2, window ?? 0, used * 2, 2000);
  const nowLayers = useMemo(() => (answer ? byLayer(answer.blocks) : []), [answer]);
  // Both bars have the same scale, so that their lengths can be compared.
  const scale = Math.max(recorded, used, answer?.report.budget.max ?? 0);
  const changeModel = (event) => {
    const name = event.target.value.trim();
    if (name) setModel(name);
  };
  return html`<div class="refit">
    <div class="controls">
      <label class="slider"><span>Window <output>${count(max)} tokens</output></span>
        <input type="range" min="0" max="1000" value=${toSlider(max, top)} onInput=${(event) => setMax(fromSlider(event.target.value, top))} aria-valuetext=${`${count(max)} tokens`} /></label>
      <label><span>Exact</span><input type="number" min="100" step="100" value=${max} onChange=${(event) => setMax(Math.max(1, Number(event.target.value) || recorded))} /></label>
      <label><span>Reserved for the answer</span><input type="number" min="0" step="100" value=${reserved} onChange=${(event) => setReserve(event.target.value === "" ? null : Math.max(0, Number(event.target.value) || 0))} /></label>
      <label><span>Model</span><input list="models" value=${model} onChange=${changeModel} spellcheck="false" />
        <datalist id="models">${known.map((one) => html`<option key=${one.name} value=${one.name}>${short(one.window)} tokens</option>`)}</datalist></label>
      ${window && window !== max && html`<button type="button" onClick=${() => setMax(window)}>Whole window of the model (${short(window)})</button>`}
      ${(chosen !== null || reserve !== null || model !== snapshot.model) && html`<button type="button" onClick=${() => { setChosen(null); setReserve(null); setModel(snapshot.model); }}>As recorded</button>`}
    </div>
    <div class="pair">
      <h3>Recorded: ${visible(snapshot.model)}, ${count(recorded)} tokens</h3>
      <${WindowBar} label="Recorded" scale=${scale} layers=${layers} max=${recorded} reserved=${report.budget?.reserved ?? 0} used=${used} />
      <h3>Now: ${visible(answer?.model ?? model)}, ${count(answer?.report.budget.max ?? max)} tokens ${busy && html`<small role="status">computing…</small>`}</h3>
      ${answer ? html`<${WindowBar} label="Now" scale=${scale} layers=${nowLayers} max=${answer.report.budget.max} reserved=${answer.report.budget.reserved} used=${answer.report.budget.used} />` : !error && html`<div class="bone bone-0"></div>`}
    </div>
    ${error ? html`<${Failure} error=${error} />` : answer && html`<${Changes} answer=${answer} report=${report} wanted=${query.keep} reproduced=${verified.current} />`}
  </div>`;
}

// The slider is logarithmic: small windows deserve as much room as large ones.
const LEAST = 500;
const toSlider = (value, top) => Math.round((1000 * Math.log(Math.max(value, LEAST) / LEAST)) / Math.log(top / LEAST));
function fromSlider(position, top) {
  const value = LEAST * (top / LEAST) ** (position / 1000);
  const step = value < 10_000 ? 100 : value < 100_000 ? 500 : 1000;
  return Math.round(value / step) * step;
}

const keyOf = (row) => row.layer + "/" + row.id;

function Changes({ answer, report, wanted, reproduced }) {
  const reasons = useMemo(() => {
    const rows = new Map(answer.report.included.map((row) => [keyOf(row), row]));
    answer.report.excluded.forEach((row) => rows.set(keyOf(row), row));
    return rows;
  }, [answer]);
  const before = useMemo(() => new Map(report.blocks.map((block) => [keyOf(block), block])), [report]);
  const rows = useMemo(() => answer.changes.map((change) => ({
    ...change,
    kind: change.before === null ? "added" : change.now === null ? "removed" : "changed",
    was: before.get(keyOf(change))?.tokens ?? 0,
    reason: reasons.get(keyOf(change))?.reason,
  })), [answer]);
  const [selected, setSelected] = useState(0);
  const [open, setOpen] = useState(false);
  useEffect(() => { setSelected(0); setOpen(false); }, [answer]);
  const number = (kind) => rows.filter((row) => row.kind === kind).length;
  const now = answer.report.budget.used, was = report.blocks.reduce((sum, block) => sum + block.tokens, 0);
  const kept = wanted && answer.blocks.some((block) => keyOf(block) === wanted);
  const row = rows[selected];
  const names = { added: "new", removed: "gone", changed: "changed" };
  return html`<div class="changes">
    <p class="verdict" aria-live="polite">${count(was)} → <b>${count(now)} tokens</b> · <span class="added">${many(number("added"), "block")} new</span> · <span class="removed">${number("removed")} gone</span> · <span class="changed">${number("changed")} changed</span>
      <small class="muted"> · ${Math.round(answer.took)} ms</small></p>
    ${wanted && html`<p class="banner">${kept ? "✓ With this window, the candidate is in the request: " : "With this window, the candidate is still left out: "}<code>${visible(wanted)}</code></p>`}
    ${reproduced === false && html`<p class="banner warn">The sources have changed since this request was assembled: at the recorded budget they give another request. Some of the differences below come from that.</p>`}
    ${answer.basis === "content" && html`<p class="banner">Only the content that was sent is known for this request, so a larger window adds nothing.</p>`}
    ${rows.length === 0 ? html`<${Empty} title="No difference">The request would be the same.<//>`
      : html`<${Split} open=${open} close=${() => setOpen(false)} title="Difference"
        list=${html`<${List} id="changes" label="Blocks that differ" size=${rows.length} height=${44} selected=${selected} onSelect=${(i) => { setSelected(i); setOpen(true); }}
          rowClass=${(i) => rows[i].kind} row=${(i) => html`<div class="cells"><${Badge} kind=${rows[i].kind}>${names[rows[i].kind]}<//>
            <span class="grow"><b>${titleOf(rows[i], rows[i].now ?? rows[i].before)}</b><small>${visible(rows[i].layer)}${rows[i].reason ? ` · ${line(rows[i].reason, 120)}` : ""}</small></span>
            <span class="number">${rows[i].kind === "changed" ? `${short(rows[i].was)} → ${short(rows[i].tokens)}` : short(rows[i].tokens)}</span></div>`} />`}
        detail=${row ? html`<article><header class="sub"><h2>${titleOf(row, row.now ?? row.before)}</h2> <${Badge} kind=${row.kind}>${names[row.kind]}<//></header>
            ${row.reason && html`<p class="why">${visible(row.reason)}.</p>`}
            ${row.kind === "changed" ? html`<${DiffText} before=${row.before} now=${row.now} />` : html`<${Text} value=${row.now ?? row.before} />`}</article>`
          : html`<${Empty} title="Select a block">See how it differs.<//>`} />`}
  </div>`;
}
