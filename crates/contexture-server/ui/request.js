// One request: the window by layer, every block, and every candidate that was
// left out with what would have kept it.

import { at, get, post } from "./api.js";
import { brief, bytes, count, line, many, percent, short, time, titleOf, visible } from "./format.js";
import { exportRequest } from "./export.js";
import { Refit } from "./refit.js";
import { Badge, Copy, Empty, Fact, List, Loaded, Search, Split, Tabs, Text, WindowBar, byLayer, html, setQuery, to, useEffect, useKeys, useLoad, useMemo, useState } from "./parts.js";

export function Request({ parts: [hash, tab = "blocks"], query }) {
  const loaded = useLoad((signal) => get(at`/v1/snapshots/${hash}/report`, signal), [hash]);
  return html`<${Loaded} of=${loaded} lines=${10}>${(report) => html`<${RequestView} report=${report} tab=${tab} query=${query} />`}<//>`;
}

const nameOf = (row) => row.path ?? row.id;

/** Returns why a block is in the request, in words. */
export function why(block) {
  if (block.row?.reason) return block.row.reason;
  return "fits whole";
}

/** Returns how many more tokens would have kept a candidate, if its reason says so. */
export function missing(row) {
  const found = /([\d,]+) more (?:tokens )?would have kept it/.exec(row.reason);
  return found ? Number(found[1].replaceAll(",", "")) : null;
}

function RequestView({ report, tab, query }) {
  const { snapshot, blocks, excluded } = report;
  const [layer, setLayer] = useState(query.layer ?? "");
  const [wanted, setWanted] = useState(query.q ?? "");
  const budget = report.budget ?? {};
  const layers = useMemo(() => byLayer(blocks), [report]);
  const used = blocks.reduce((sum, block) => sum + block.tokens, 0);
  // The blocks of an imported request are estimates; its size is what the provider reported.
  const whole = report.has_report || !snapshot.tokens ? used : snapshot.tokens;
  const words = wanted.toLowerCase();
  const matches = (row) => (!layer || row.layer === layer) && (!words || [row.path, row.id, row.layer, row.tool, row.text, row.reason].some((text) => text?.toLowerCase().includes(words)));
  const inside = useMemo(() => blocks.filter(matches), [report, layer, words]);
  const outside = useMemo(() => excluded.filter(matches), [report, layer, words]);
  const shownLayers = useMemo(() => {
    const names = new Set(layers.map((one) => one.name));
    return [...layers, ...[...new Set(excluded.map((row) => row.layer))].filter((name) => !names.has(name)).map((name) => ({ name, tokens: 0, blocks: 0 }))];
  }, [layers, excluded]);
  const choose = (name) => { setLayer(name); setQuery({ layer: name }); };
  const search = (text) => { setWanted(text); setQuery({ q: text }); };
  const here = (name) => to("request", snapshot.hash, name, { q: wanted, layer });
  const left = excluded.reduce((sum, row) => sum + (row.items ?? 1), 0) + report.excluded_omitted;
  const go = (name) => () => { location.hash = here(name); };
  useKeys("Request", [
    ["b", "blocks in the request", go("blocks")],
    ["l", "left-out candidates", go("left-out")],
    ["w", "what if: another budget or model", go("what-if")],
    ["s", "the request as it was sent", go("sent")],
    ["e", "export the request as one HTML file", () => exportRequest(report)],
  ]);
  const found = words || layer;
  return html`<div class="page">
    <div class="head"><h1>Request <code>${brief(snapshot.hash)}</code></h1>
      <span class="grow muted">of <a href=${to("session", snapshot.session)}>${visible(snapshot.session)}</a>, ${time(snapshot.created_at)}</span>
      <button type="button" onClick=${() => exportRequest(report)}>Export</button></div>
    <dl class="facts">
      <${Fact} name="Model">${visible(snapshot.model)}<//>
      <${Fact} name="Tokens">${count(whole)}${whole !== used && html` <small>blocks: about ${count(used)}</small>`}${budget.max ? html` <small>${percent(used, budget.max)} of ${count(budget.max)}</small>` : null}<//>
      <${Fact} name="Blocks">${count(blocks.length)}<//>
      <${Fact} name="Left out">${report.has_report ? count(left) : "unknown"}<//>
      ${report.recipe && html`<${Fact} name="Recipe">${visible(report.recipe)}<//>`}
      <${Fact} name="Counted with">${visible(snapshot.counter)}${report.tokenizer && !report.tokenizer.exact && html` <small>estimate</small>`}<//>
    </dl>
    ${tab !== "what-if" && html`<${WindowBar} layers=${shownLayers} max=${budget.max} reserved=${budget.reserved ?? 0} used=${used} selected=${layer} onSelect=${choose} />`}
    ${report.warnings.length > 0 && html`<details class="banner"><summary>${many(report.warnings.length, "warning")}</summary>
      <ul>${report.warnings.map((warning, i) => html`<li key=${i}><code>${visible(warning.code)}</code> ${visible(warning.message)}</li>`)}</ul></details>`}
    <div class="bar-row">
      <${Tabs} label="Parts of the request" current=${tab} tabs=${[
        ["blocks", html`In the request <b>${count(found ? inside.length : blocks.length)}</b>`, here("blocks")],
        ["left-out", html`Left out <b>${!report.has_report ? "?" : found ? count(outside.length) : count(left)}</b>`, here("left-out")],
        ["what-if", "What if…", here("what-if")],
        ["sent", "As sent", here("sent")],
      ]} />
      ${(tab === "blocks" || tab === "left-out") && html`<${Search} value=${wanted} onInput=${search} label="Search: path, id, text or reason">
        ${found && html`<button type="button" class="quiet" onClick=${() => { search(""); choose(""); }}>Clear</button>`}<//>`}
    </div>
    ${tab === "left-out" ? html`<${LeftOut} report=${report} rows=${outside} found=${found} inside=${inside.length} here=${here} query=${query} />`
      : tab === "what-if" ? html`<${Refit} report=${report} layers=${layers} used=${used} query=${query} />`
      : tab === "sent" ? html`<${Sent} snapshot=${snapshot} query=${query} />`
      : html`<${Blocks} rows=${inside} words=${words} found=${found} outside=${outside.length} here=${here} whole=${used} query=${query} />`}
  </div>`;
}

/** Keeps which row is selected, also in the address. */
export function useSelected(rows, query) {
  const at = query.at === undefined ? -1 : rows.findIndex((row) => row.layer + "/" + row.id === query.at);
  // Where there is room for both, the first row is shown with its details.
  const [selected, set] = useState(at >= 0 ? at : 0);
  const [open, setOpen] = useState(at >= 0);
  useEffect(() => { if (selected >= rows.length) set(0); }, [rows.length]);
  const select = (i) => { set(i); setOpen(true); setQuery({ at: rows[i] && rows[i].layer + "/" + rows[i].id }); };
  return [selected, select, open && selected >= 0, () => setOpen(false)];
}

function Blocks({ rows, words, found, outside, here, whole, query }) {
  const [selected, select, open, close] = useSelected(rows, query);
  const row = rows[selected];
  const largest = useMemo(() => rows.reduce((most, block) => Math.max(most, block.tokens), 1), [rows]);
  if (rows.length === 0)
    return html`<${Empty} title=${found ? "Nothing in the request matches" : "The request is empty"}>
      ${outside > 0 ? html`<p>${many(outside, "left-out candidate")} ${outside === 1 ? "matches" : "match"}: <a class="button primary" href=${here("left-out")}>see why ${outside === 1 ? "it was" : "they were"} left out</a></p>`
        : found && html`<p>No candidate that was left out matches, either: no source offered it for this request.</p>`}<//>`;
  return html`<${Split} open=${open} close=${close} title="Block"
    list=${html`<${List} id="blocks" label="Blocks, in the order they were sent" size=${rows.length} height=${44} selected=${selected} onSelect=${select} row=${(i) => {
      const block = rows[i];
      return html`<div class="cells">
        <span class="grow"><b>${titleOf(block)}</b><small>${visible(block.layer)} · ${block.kind === "text" ? block.role : block.kind.replace("_", " ")}${block.tool ? ` · ${visible(block.tool)}` : ""}</small></span>
        ${block.row?.truncated && html`<${Badge} kind="warn">cut<//>`}
        ${block.row?.code === "pinned" && html`<${Badge}>pinned<//>`}
        <span class="meter wide-only" aria-hidden="true"><i style=${{ width: (100 * block.tokens) / largest + "%" }}></i></span>
        <span class="number">${short(block.tokens)}</span></div>`;
    }} />`}
    detail=${row ? html`<${BlockDetail} block=${row} words=${words} whole=${whole} />` : html`<${Empty} title="Select a block">See its text, why it is in the request, and since when.<//>`} />`;
}

function BlockDetail({ block, words, whole }) {
  const { row, since } = block;
  return html`<article>
    <header class="sub"><h2>${titleOf(block)}</h2><span class="grow"></span><${Copy} text=${block.text ?? ""} /></header>
    <p class="why"><b>In the request:</b> ${visible(why(block))}.${row?.truncated && row.lines_cut ? ` Lines ${count(row.lines_cut.first)}–${count(row.lines_cut.last)} were removed.` : ""}</p>
    <dl class="facts small">
      <${Fact} name="Tokens">${count(block.tokens)} <small>${percent(block.tokens, whole)}${row?.truncated ? ` · ${row.original_estimated ? "about " : ""}${count(row.original_tokens)} whole` : ""}</small><//>
      <${Fact} name="Size">${bytes(block.bytes)}<//>
      <${Fact} name="Layer">${visible(block.layer)}<//>
      <${Fact} name="Sent as">${visible(block.role)}<//>
      <${Fact} name="Trust">${visible(block.trust)}<//>
      ${row?.priority !== undefined && html`<${Fact} name="Priority">${row.priority}${row.base_priority !== undefined && html` <small>${row.base_priority} before hints</small>`}<//>`}
      ${since && html`<${Fact} name="Since">${since.requests === 1 ? "new in this request" : html`<a href=${to("request", since.snapshot)}>${time(since.created_at)}</a> <small>${since.at_least ? "at least " : ""}${many(since.requests, "request")}</small>`}<//>`}
      ${block.id !== block.path && html`<${Fact} name="Id"><code>${visible(block.id)}</code><//>`}
    </dl>
    <${Scores} scores=${row?.scores} total=${row?.score} />
    <${Text} value=${block.text} mark=${words} />
  </article>`;
}

/** The parts of a score, each as a bar. */
export function Scores({ scores, total }) {
  const parts = Object.entries(scores ?? {}).filter(([, value]) => typeof value === "number");
  if (parts.length === 0) return null;
  const most = parts.reduce((max, [, value]) => Math.max(max, Math.abs(value)), 1e-9);
  return html`<table class="scores"><caption>Score${total !== undefined && total !== null ? html` <b>${total.toFixed(3)}</b>` : null}</caption><tbody>
    ${parts.map(([name, value]) => html`<tr key=${name}><th scope="row">${visible(name.replaceAll("_", " "))}</th>
      <td class="meter"><i style=${{ width: (100 * Math.abs(value)) / most + "%" }}></i></td><td class="number">${value.toFixed(3)}</td></tr>`)}</tbody></table>`;
}

function LeftOut({ report, rows, found, inside, here, query }) {
  const [selected, select, open, close] = useSelected(rows, query);
  const row = rows[selected];
  if (!report.has_report)
    return html`<${Empty} title="Left-out candidates are unknown">No report is stored with this request: it was imported, or saved by an earlier version.<//>`;
  if (rows.length === 0)
    return html`<${Empty} title=${found ? "No left-out candidate matches" : "Nothing was left out"}>
      ${found ? (inside > 0 ? html`<p>${many(inside, "block")} in the request ${inside === 1 ? "matches" : "match"}: <a href=${here("blocks")}>see ${inside === 1 ? "it" : "them"}</a></p>` : html`<p>It was not a candidate: no source offered it for this request.</p>`)
        : html`<p>Every candidate is in the request.</p>`}<//>`;
  return html`<${Split} open=${open} close=${close} title="Left-out candidate"
    list=${html`<${List} id="left-out" label="Left-out candidates" size=${rows.length} height=${44} selected=${selected} onSelect=${select} row=${(i) => {
      const one = rows[i], more = missing(one);
      return html`<div class="cells">
        <span class="grow"><b>${line(nameOf(one), 90)}${one.items > 1 ? ` and ${count(one.items - 1)} more` : ""}</b><small>${visible(one.layer)} · ${visible(one.code.replaceAll("_", " "))}</small></span>
        ${more !== null && html`<${Badge} kind="accent" title="This many more tokens would have kept it">+${short(more)}<//>`}
        <span class="number">${one.estimated ? "~" : ""}${short(one.tokens)}</span></div>`;
    }} />`}
    detail=${row ? html`<${LeftOutDetail} row=${row} report=${report} />` : html`<${Empty} title="Select a candidate">See why it was left out, and what would have kept it.<//>`} />`;
}

function LeftOutDetail({ row, report }) {
  const max = report.budget?.max;
  const layer = findLayer(report.budget?.layers ?? {}, row.layer);
  return html`<article>
    <header class="sub"><h2>${visible(nameOf(row))}</h2></header>
    <p class="why"><b>Left out:</b> ${visible(row.reason)}.</p>
    ${max && report.has_inputs && BY_BUDGET.includes(row.code) && html`<${Remedy} row=${row} report=${report} />`}
    <dl class="facts small">
      <${Fact} name="Tokens">${row.estimated ? "about " : ""}${count(row.tokens)}<//>
      <${Fact} name="Layer">${visible(row.layer)}<//>
      <${Fact} name="Reason"><code>${visible(row.code)}</code><//>
      <${Fact} name="Priority">${row.priority}${row.base_priority !== undefined && html` <small>${row.base_priority} before hints</small>`}<//>
      ${row.items > 1 && html`<${Fact} name="Candidates">${count(row.items)}<//>`}
      ${row.through && html`<${Fact} name="Through"><code>${visible(row.through)}</code><//>`}
      ${row.path && row.id !== row.path && html`<${Fact} name="Id"><code>${visible(row.id)}</code><//>`}
    </dl>
    ${layer && html`<h3>Its layer</h3><p class="muted">The layer <code>${visible(row.layer)}</code> could use ${count(layer.allowed)} tokens and used ${count(layer.used)}: ${many(layer.kept, "candidate")} kept, ${count(layer.cut)} cut, ${count(layer.dropped)} dropped.</p>`}
    <${Scores} scores=${row.scores} total=${row.score} />
  </article>`;
}

/** Returns the candidates that one would come before to get its room, and the priority for that. */
export function inItsPlace(row, included) {
  const needed = missing(row) ?? row.tokens;
  const others = included.filter((other) => other.layer === row.layer && other.code !== "pinned" && other.priority > row.priority);
  others.sort((a, b) => a.priority - b.priority);
  const taken = [];
  let tokens = 0;
  for (const other of others) {
    // Candidates of one priority stand or fall together.
    if (taken.length && tokens >= needed && other.priority > taken[taken.length - 1].priority) break;
    taken.push(other);
    tokens += other.tokens;
  }
  return taken.length && tokens >= needed ? { taken, tokens, priority: taken[taken.length - 1].priority } : null;
}

function findLayer(layers, name) {
  for (const [key, layer] of Object.entries(layers)) {
    if (key === name) return layer;
    const inner = findLayer(layer.layers ?? {}, name);
    if (inner) return inner;
  }
}

// The reasons that a larger window can change.
const BY_BUDGET = ["over_budget", "too_large", "below_minimum", "before_window", "cut_from_path", "group_dropped"];

// The reasons that a higher priority can change.
const BY_PRIORITY = ["over_budget", "too_large", "below_minimum"];

/** Returns the smallest window that keeps a candidate, to about one percent, and what a higher priority changes. */
async function findRemedy(report, row, signal) {
  const { max, reserved } = report.budget;
  const included = async (window) => {
    const body = { max_tokens: window, reserve_response: reserved };
    const { report: again } = await post(at`/v1/snapshots/${report.snapshot.hash}/refit`, body, signal);
    return again.included;
  };
  const keeps = async (window) => (await included(window)).find((one) => one.layer === row.layer && one.id === row.id);
  // Only files have a priority that a person gave them.
  const place = row.path && BY_PRIORITY.includes(row.code) ? inItsPlace(row, await included(max)) : null;
  let low = max, high = max, kept;
  for (let i = 0; i < 7 && !kept; i++) { low = high; high *= 2; kept = await keeps(high); }
  if (!kept) return { tried: high, place };
  while (high - low > Math.max(50, high / 100)) {
    const middle = Math.round((low + high) / 20) * 10;
    const found = await keeps(middle);
    if (found) [high, kept] = [middle, found];
    else low = middle;
  }
  return { window: high, cut: kept.truncated, place };
}

const remedies = new Map();

/** What would have kept a candidate: found by assembling the request again. */
function Remedy({ row, report }) {
  const key = report.snapshot.hash + "/" + row.layer + "/" + row.id;
  const [found, setFound] = useState(remedies.get(key));
  useEffect(() => {
    setFound(remedies.get(key));
    if (remedies.has(key)) return;
    const abort = new AbortController();
    const timer = setTimeout(() => findRemedy(report, row, abort.signal).then(
      (value) => { remedies.set(key, value); if (!abort.signal.aborted) setFound(value); },
      (error) => { if (!abort.signal.aborted) setFound({ error }); }), 250);
    return () => { clearTimeout(timer); abort.abort(); };
  }, [key]);
  const { max } = report.budget;
  const link = (window) => to("request", report.snapshot.hash, "what-if", { max: window, keep: row.layer + "/" + row.id });
  return html`<div class="remedy" aria-live="polite"><p><b>What would have kept it:</b>${" "}
    ${!found ? html`<span class="muted" role="status">trying larger windows…</span>`
      : found.window ? html`a window of <b>${count(found.window)} tokens</b> instead of ${count(max)}${found.cut ? ", cut" : ""}. <a class="button primary" href=${link(found.window)}>See that request</a><br /><small>Candidates with a higher priority get additional room first, so this can be more than the file needs.</small>`
      : found.tried ? html`no window up to ${count(found.tried)} tokens.`
      : html`<a href=${link(max * 2)}>try a larger window</a>.`}</p>
    ${found?.place && html`<${HigherPriority} row=${row} report=${report} place=${found.place} />`}</div>`;
}

const MOST_NAMED = 3;

/** What a file that did not fit would come before with a higher priority. */
function HigherPriority({ row, report, place }) {
  const names = place.taken.slice(-MOST_NAMED).reverse().map((one) => html`<a href=${to("request", report.snapshot.hash, "blocks", { at: one.layer + "/" + one.id })}>${line(nameOf(one), 80)}</a> <small>${short(one.tokens)}</small>`);
  const more = place.taken.length - names.length;
  return html`<p><b>Or a higher priority:</b> above ${place.priority} instead of ${row.priority}, it comes before ${names.map((name, i) => [i ? ", " : "", name])}${more > 0 ? ` and ${count(more)} more` : ""}, which use ${count(place.tokens)} tokens.</p>`;
}

const FORMATS = ["text", "anthropic", "openai-chat", "openai-responses", "gemini"];

function Sent({ snapshot, query }) {
  const [format, setFormat] = useState(FORMATS.includes(query.format) ? query.format : "text");
  const loaded = useLoad((signal) => get(at`/v1/snapshots/${snapshot.hash}?format=${format}`, signal), [format]);
  const choose = (event) => { setFormat(event.target.value); setQuery({ format: event.target.value }); };
  return html`<div class="sent">
    <p><label class="line">Format <select value=${format} onChange=${choose}>${FORMATS.map((name) => html`<option key=${name} value=${name}>${name}</option>`)}</select></label></p>
    <${Loaded} of=${loaded}>${({ request }) => {
      const text = typeof request === "string" ? request : JSON.stringify(request, null, 2);
      return html`<p class="muted">${bytes(new Blob([text]).size)} <${Copy} text=${text} /></p><${Text} value=${text} />`;
    }}<//></div>`;
}
