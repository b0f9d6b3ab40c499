// Memory: a query, what it finds with the parts of each score, and what was left
// out and why; the records by kind, session and source; entities and relations.

import { at, get, post, readOnly } from "./api.js";
import { Change } from "./change.js";
import { bytes, count, line, many, visible } from "./format.js";
import { Graph } from "./graph.js";
import { Records } from "./records.js";
import { Scores } from "./request.js";
import { Badge, Empty, Fact, List, Loaded, Split, Tabs, Text, html, setQuery, to, useEffect, useKeys, useLoad, useRef, useState } from "./parts.js";

const TABS = { query: Query, records: Records, graph: Graph };

export function Memory({ parts: [tab = "query"], query }) {
  const view = TABS[tab] ? tab : "query";
  return html`<div class="page">
    <div class="head"><h1>Memory</h1></div>
    <${Tabs} label="Memory" current=${view} tabs=${[["query", "Query", to("memory")], ["records", "Records", to("memory", "records")], ["graph", "Entities", to("memory", "graph")]]} />
    <${TABS[view]} query=${query} />
  </div>`;
}

function Query({ query }) {
  const [wanted, setWanted] = useState(query.q ?? "");
  const [most, setMost] = useState(Number(query.max) || 2000);
  const [session, setSession] = useState(query.session ?? "");
  const [asked, setAsked] = useState(null);
  const stats = useLoad((signal) => get("/v1/memory/stats", signal), []);
  const found = useLoad(async (signal) => {
    if (asked === null) return null;
    const body = { query: asked.wanted, max_tokens: asked.most };
    if (asked.session) body.session_id = asked.session;
    return post("/v1/memory/recall", body, signal);
  }, [asked]);
  const ask = (event) => {
    event?.preventDefault();
    setQuery({ q: wanted, max: most === 2000 ? "" : most, session });
    setAsked({ wanted, most, session });
  };
  // An address asks by itself: at first, and when it is changed by hand.
  useEffect(() => {
    if (query.q === undefined) return;
    const next = { wanted: query.q, most: Number(query.max) || 2000, session: query.session ?? "" };
    if (asked && Object.keys(next).every((name) => next[name] === asked[name])) return;
    setWanted(next.wanted);
    setMost(next.most);
    setSession(next.session);
    setAsked(next);
  }, [query.q, query.max, query.session]);
  const box = useRef();
  useKeys("Memory", [["/", "write a query", () => box.current.focus()]]);
  return html`
    <form class="ask" onSubmit=${ask}>
      <label class="grow"><span>Query</span><input ref=${box} type="search" value=${wanted} placeholder="What would the model look for?" onInput=${(event) => setWanted(event.target.value)} /></label>
      <label><span>Tokens</span><input type="number" min="1" value=${most} onInput=${(event) => setMost(Math.max(1, Number(event.target.value) || 1))} /></label>
      <label class="wide-only"><span>Current session</span><input value=${session} placeholder="none" onInput=${(event) => setSession(event.target.value)} /></label>
      <button type="submit" class="primary">Recall</button>
    </form>
    ${asked === null || (found.value === null && !found.error)
      ? html`<${Loaded} of=${stats}>${(value) => html`<${Overview} stats=${value} />`}<//>`
      : html`<${Loaded} of=${found}>${(value) => html`<${Found} context=${value} again=${() => { setAsked({ ...asked }); stats.reload(); }} query=${query} />`}<//>`}`;
}

const PLURALS = { entity: "entities" };

function Overview({ stats }) {
  const kinds = Object.entries(stats.kinds).map(([name, { live, ended, archived, hold }]) =>
    ({ name: PLURALS[name] ?? name + "s", stored: live + ended + archived, current: hold }));
  const total = kinds.reduce((sum, kind) => sum + kind.stored, 0);
  if (total === 0)
    return html`<${Empty} title="Memory is empty"><p>Records appear here when they are stored:</p><pre>contexture memory record --text notes.md</pre><//>`;
  return html`<dl class="facts">
      ${kinds.map(({ name, stored, current }) => html`<${Fact} key=${name} name=${name}>${count(stored)}${current !== stored && html` <small>${count(current)} current</small>`}<//>`)}
      <${Fact} name="Sessions">${count(stats.sessions)}<//>
      <${Fact} name="Sources">${count(stats.sources)}<//>
      <${Fact} name="Size">${bytes(stats.bytes)}<//>
      ${stats.embedder && html`<${Fact} name="Embedder">${visible(stats.embedder.name ?? stats.embedder.model ?? JSON.stringify(stats.embedder))}<//>`}
    </dl>
    <${Empty} title="Ask memory something">A query returns the records that a request would contain, each with the parts of its score.<//>`;
}

function Found({ context, again, query }) {
  const rows = [
    ...context.components.map((one) => ({ ...one, isIn: true })).sort((a, b) => b.relevance_score - a.relevance_score),
    ...(context.excluded ?? []).map((one) => ({ ...one, isIn: false })),
  ];
  const [selected, setSelected] = useState(rows.length ? 0 : -1);
  const [open, setOpen] = useState(false);
  const [form, setForm] = useState(null);
  const row = rows[selected];
  const change = (name) => () => { if (!readOnly && row?.source) setForm(name); };
  useKeys("Results", readOnly ? [] : [
    ["s", "supersede the selected record", change("supersede")],
    ["d", "forget the selected record", change("forget")],
  ]);
  if (rows.length === 0)
    return html`<${Empty} title="Nothing was found">No record helps with this query.<//>`;
  const left = rows.length - context.components.length;
  return html`
    <p class="verdict">${many(context.components.length, "record")} in ${count(context.token_count)} tokens · ${count(left + (context.metadata.unlisted ?? 0))} left out
      ${context.metadata.assembly_time_ms !== undefined && html`<small class="muted"> · ${context.metadata.assembly_time_ms.toFixed(1)} ms</small>`}
      ${context.metadata.signals?.keywords?.length > 0 && html`<small class="muted"> · words: ${visible(context.metadata.signals.keywords.join(", "))}</small>`}</p>
    <${Split} open=${open} close=${() => setOpen(false)} title="Record"
      list=${html`<${List} id="records" label="Records, the best first; left-out ones last" size=${rows.length} height=${48} selected=${selected} onSelect=${(i) => { setSelected(i); setOpen(true); }}
        rowClass=${(i) => (rows[i].isIn ? "" : "out")} row=${(i) => {
          const one = rows[i];
          return html`<div class="cells"><span class="grow"><b>${line(one.content ?? one.source, 120)}</b>
            <small>${one.isIn ? "" : "left out · "}${visible(one.type)}${one.kind ? ` · ${one.kind}` : ""} · ${line(one.source, 60)}</small></span>
            ${one.shown && html`<${Badge} kind="warn">${one.shown}<//>`}
            <span class="number">${one.relevance_score.toFixed(2)}<small>${count(one.tokens)} tok</small></span></div>`;
        }} />`}
      detail=${row && html`<${Detail} row=${row} form=${setForm} />`} />
    ${form && html`<${Change} what=${form} row=${row} close=${() => setForm(null)} again=${again} />`}`;
}

function Detail({ row, form }) {
  const record = useLoad(async (signal) => {
    if (!row.source || (row.isIn && !row.kind)) return null;
    return (await get(at`/v1/memory/records/${row.source}`, signal)).records;
  }, [row.source]);
  return html`<article>
    <header class="sub"><h2>${visible(row.source)}</h2><span class="grow"></span>
      ${!readOnly && html`<button type="button" onClick=${() => form("supersede")}>Supersede…</button><button type="button" class="danger" onClick=${() => form("forget")}>Forget…</button>`}</header>
    ${row.isIn ? html`<p class="why"><b>Returned</b> by the channel ${visible(row.type)}${row.shown ? `, as a ${row.shown}: the whole record has ${count(row.original_tokens)} tokens` : ""}.</p>`
      : html`<p class="why"><b>Left out:</b> ${visible(row.reason)}.</p>`}
    <${Scores} scores=${row.scores} total=${row.relevance_score} />
    ${row.content !== undefined && html`<h3>Text</h3><${Text} value=${row.content} />`}
    <${Loaded} of=${record} lines=${3}>${(records) => records && html`<h3>Record</h3>${records.map((one, i) => html`<${Text} key=${i} value=${JSON.stringify(one, null, 2)} />`)}`}<//>
  </article>`;
}
