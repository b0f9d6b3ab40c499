// The records of memory by kind, session and source, a page at a time.

import { readOnly } from "./api.js";
import { Change, textOf } from "./change.js";
import { line, visible } from "./format.js";
import { loaded, usePages } from "./sessions.js";
import { Badge, Empty, List, Loaded, Split, Text, html, setQuery, useKeys, useMemo, useState } from "./parts.js";

const KINDS = ["event", "chunk", "entity", "relation", "pattern", "task"];

export function Records({ query }) {
  const [kind, setKind] = useState(KINDS.includes(query.kind) ? query.kind : "");
  const [session, setSession] = useState(query.session ?? "");
  const [source, setSource] = useState(query.source ?? "");
  const [asked, setAsked] = useState({ kind, session, source });
  const filter = (change) => {
    const next = { ...asked, ...change };
    setAsked(next);
    setQuery(next);
  };
  const path = useMemo(() => {
    const given = Object.entries(asked).filter(([, value]) => value.trim() !== "");
    const text = new URLSearchParams(given).toString();
    return "/v1/memory/list" + (text && "?" + text);
  }, [asked]);
  const pages = usePages(path, "records", "after");
  const submit = (event) => { event.preventDefault(); filter({ session, source }); };
  return html`
    <form class="ask" onSubmit=${submit}>
      <label><span>Kind</span><select value=${kind} onChange=${(event) => { setKind(event.target.value); filter({ kind: event.target.value }); }}>
        <option value="">all</option>${KINDS.map((name) => html`<option key=${name} value=${name}>${name}</option>`)}</select></label>
      <label class="grow"><span>Session</span><input value=${session} placeholder="any" onInput=${(event) => setSession(event.target.value)} /></label>
      <label class="grow"><span>Source</span><input value=${source} placeholder="any" onInput=${(event) => setSource(event.target.value)} /></label>
      <button type="submit" class="primary">Filter</button>
    </form>
    <${Loaded} of=${pages}>${(records) => html`<${Found} key=${path} records=${records} number=${loaded(pages, records.length, "record")} again=${pages.reload} />`}<//>`;
}

function Found({ records, number, again }) {
  const [selected, setSelected] = useState(0);
  const [open, setOpen] = useState(false);
  const [form, setForm] = useState(null);
  const record = records[selected];
  const change = (name) => () => { if (record) setForm(name); };
  useKeys("Records", readOnly ? [] : [
    ["s", "supersede the selected record", change("supersede")],
    ["d", "forget the selected record", change("forget")],
  ]);
  if (records.length === 0)
    return html`<${Empty} title="No records">No record matches this kind, session and source.<//>`;
  return html`
    <p class="verdict">${number}, in the order they were first recorded</p>
    <${Split} open=${open} close=${() => setOpen(false)} title="Record"
      list=${html`<${List} id="records" label="Records" size=${records.length} height=${48} selected=${selected} onSelect=${(i) => { setSelected(i); setOpen(true); }}
        rowClass=${(i) => (records[i].valid_to ? "out" : "")} row=${(i) => {
          const one = records[i];
          const where = [one.session_id, one.source].filter(Boolean).map((name) => line(name, 40));
          return html`<div class="cells"><span class="grow"><b>${line(textOf(one), 120) || "empty"}</b>
            <small>${[one.kind, line(one.id, 60), ...where].join(" · ")}</small></span>
            ${one.valid_to && html`<${Badge} kind="warn">superseded<//>`}</div>`;
        }} />`}
      detail=${record && html`<article>
        <header class="sub"><h2>${visible(record.id)}</h2><span class="grow"></span>
          ${!readOnly && html`<button type="button" onClick=${() => setForm("supersede")}>Supersede…</button><button type="button" class="danger" onClick=${() => setForm("forget")}>Forget…</button>`}</header>
        <${Text} value=${textOf(record)} />
        <h3>Record</h3><${Text} value=${JSON.stringify(record, null, 2)} />
      </article>`} />
    ${form && html`<${Change} what=${form} row=${{ source: record.id, kind: record.kind }} close=${() => setForm(null)} again=${again} />`}`;
}
