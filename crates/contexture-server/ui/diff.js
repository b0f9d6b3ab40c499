// Two requests: how much of the later one a cache can serve, the first byte that
// differs, and every block that differs.

import { get } from "./api.js";
import { brief, count, many, percent, short, time, titleOf, visible } from "./format.js";
import { Badge, DiffText, Empty, Fact, List, Loaded, Split, Text, html, to, useKeys, useLoad, useState } from "./parts.js";

export function Diff({ parts: [a, b] }) {
  const loaded = useLoad(async (signal) => {
    const pair = `a=${encodeURIComponent(a)}&b=${encodeURIComponent(b)}`;
    const part = (hash) => get(`/v1/snapshots/${encodeURIComponent(hash)}?format=json`, signal);
    const [diff, before, now] = await Promise.all([get(`/v1/snapshots/diff?${pair}`, signal), part(a), part(b)]);
    return { diff, before, now };
  }, [a, b]);
  return html`<${Loaded} of=${loaded}>${(value) => html`<${DiffView} ...${value} />`}<//>`;
}

function DiffView({ diff, before, now }) {
  const { cache, changes } = diff;
  const first = cache.first_difference;
  const rows = changes.map((change) => ({ ...change, kind: change.before === null ? "added" : change.now === null ? "removed" : "changed" }));
  const isFirst = (row) => first && row.layer === first.layer && row.id === first.item;
  const [selected, setSelected] = useState(() => Math.max(0, rows.findIndex(isFirst)));
  const [open, setOpen] = useState(false);
  const row = rows[selected];
  const swap = () => { location.hash = to("diff", now.snapshot.hash, before.snapshot.hash); };
  useKeys("Comparison", [
    ["f", "select the first difference", () => setSelected(rows.findIndex(isFirst))],
    ["x", "swap the requests", swap],
  ]);
  const names = { added: "new", removed: "gone", changed: "changed" };
  return html`<div class="page">
    <div class="head"><h1>Comparison</h1><span class="grow muted">
      <a href=${to("request", before.snapshot.hash)}><code>${brief(before.snapshot.hash)}</code></a> ${time(before.snapshot.created_at)} →${" "}
      <a href=${to("request", now.snapshot.hash)}><code>${brief(now.snapshot.hash)}</code></a> ${time(now.snapshot.created_at)}</span>
      <button type="button" onClick=${swap}>Swap</button></div>
    <dl class="facts">
      <${Fact} name="Shared beginning">${count(cache.shared_tokens)} tokens <small>${percent(cache.shared_tokens, now.snapshot.tokens)} of the later request</small><//>
      <${Fact} name="First differing byte">${first ? count(first.byte) : "none"}<//>
      ${first && html`<${Fact} name="In">${visible(first.layer)} / <code>${visible(first.item)}</code><//>`}
      <${Fact} name="Tokens">${count(before.snapshot.tokens)} → ${count(now.snapshot.tokens)}<//>
      ${before.snapshot.model !== now.snapshot.model && html`<${Fact} name="Model">${visible(before.snapshot.model)} → ${visible(now.snapshot.model)}<//>`}
    </dl>
    <div class="window"><div class="bar shared" role="img" aria-label=${`${percent(cache.shared_tokens, now.snapshot.tokens)} of the later request is shared`}>
      <span class="tint-0" style=${{ flexGrow: cache.shared_tokens, flexBasis: 0 }}></span><span class="free" style=${{ flexGrow: Math.max(0, now.snapshot.tokens - cache.shared_tokens), flexBasis: 0 }}></span></div></div>
    ${rows.length === 0 ? html`<${Empty} title=${first ? "The blocks are the same" : "The requests are the same"}>${first && html`They differ in their order or in settings, from byte ${count(first.byte)} on.`}<//>`
      : html`<p class="verdict">${many(rows.length, "block")} differ${rows.length === 1 ? "s" : ""}.</p>
      <${Split} open=${open} close=${() => setOpen(false)} title="Difference"
        list=${html`<${List} id="differences" label="Blocks that differ" size=${rows.length} height=${44} selected=${selected} onSelect=${(i) => { setSelected(i); setOpen(true); }}
          rowClass=${(i) => rows[i].kind} row=${(i) => html`<div class="cells"><${Badge} kind=${rows[i].kind}>${names[rows[i].kind]}<//>
            <span class="grow"><b>${titleOf(rows[i], rows[i].now ?? rows[i].before)}</b><small>${visible(rows[i].layer)}</small></span>
            ${isFirst(rows[i]) && html`<${Badge} kind="accent">first<//>`}<span class="number">${short(rows[i].tokens)}</span></div>`} />`}
        detail=${row ? html`<article><header class="sub"><h2>${titleOf(row, row.now ?? row.before)}</h2> <${Badge} kind=${row.kind}>${names[row.kind]}<//></header>
            ${isFirst(row) && html`<p class="why"><b>First difference:</b> byte ${count(first.byte)} of the text form. A cache serves everything before it.</p>`}
            ${row.kind === "changed" ? html`<${DiffText} before=${row.before} now=${row.now} />` : html`<${Text} value=${row.now ?? row.before} />`}</article>`
          : html`<${Empty} title="Select a block">See how it differs.<//>`} />`}
  </div>`;
}
