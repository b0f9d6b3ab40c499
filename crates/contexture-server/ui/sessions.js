// The lists of sessions and of requests.

import { at, get } from "./api.js";
import { ago, brief, count, line, many, short, time, visible } from "./format.js";
import { Badge, Empty, List, Loaded, Search, html, setQuery, to, useEffect, useKeys, useLoad, useMemo, useRef, useState } from "./parts.js";

// More rows than these would cost the browser too much memory.
const MOST_ROWS = 200_000;

/** Returns the number of rows in words, and whether there are more. */
export const loaded = (pages, number, one) => (pages.value ? many(number, one) : "") + (pages.more ? ", loading more" : pages.isPart ? `; only ${count(pages.value.length)} are loaded` : "");

/**
 * Loads a list page by page: all of it for search and order, in steps.
 * `isPart` is true if the list has more rows than the page loads.
 */
export function usePages(path, name, cursor) {
  const [state, setState] = useState({});
  const [again, setAgain] = useState(0);
  useEffect(() => {
    const abort = new AbortController();
    const run = async () => {
      let items = [], next = null, shown = 0;
      do {
        const query = new URLSearchParams({ limit: items.length ? 1000 : 100 });
        if (next) query.set(cursor, next);
        const page = await get(`${path}${path.includes("?") ? "&" : "?"}${query}`, abort.signal);
        items.push(...page[name]);
        next = page.next;
        const isPart = Boolean(next) && items.length >= MOST_ROWS;
        // A long list is shown again when it has grown by half: each time costs all of it.
        if (!abort.signal.aborted && (!next || isPart || items.length >= shown * 1.5)) {
          shown = items.length;
          setState({ value: items.slice(), more: Boolean(next) && !isPart, isPart });
        }
        if (isPart) return;
      } while (next && !abort.signal.aborted);
    };
    run().catch((error) => !abort.signal.aborted && setState({ error }));
    return () => abort.abort();
  }, [path, again]);
  return { ...state, reload: () => setAgain((n) => n + 1) };
}

/** Returns what a session is about, and where it comes from. */
function about(session) {
  const parts = [session.task && line(session.task), session.parent_session && `from ${line(session.parent_session, 80)}`, session.aliases.length && `also ${visible(session.aliases.join(", "))}`];
  return parts.filter(Boolean).join(" · ") || "no task";
}

export function Sessions({ query }) {
  const pages = usePages("/v1/sessions", "sessions", "after");
  const [wanted, setWanted] = useState(query.q ?? "");
  const [selected, setSelected] = useState(0);
  const search = (text) => { setWanted(text); setSelected(0); setQuery({ q: text }); };
  const shown = useMemo(() => {
    const words = wanted.toLowerCase();
    const all = (pages.value ?? []).filter((one) => [one.label, one.task, ...one.aliases].some((text) => text?.toLowerCase().includes(words)));
    return all.sort((a, b) => (a.updated_at < b.updated_at ? 1 : -1));
  }, [pages.value, wanted]);
  const open = (i) => { location.hash = to("session", shown[i].label); };
  useKeys("Sessions", [["Enter", "open the selected session", () => shown.length && open(selected)]]);
  return html`<div class="page">
    <div class="head"><h1>Sessions</h1>
      <${Search} value=${wanted} onInput=${search} label="Search sessions" />
      <span class="muted">${loaded(pages, shown.length, "session")}</span></div>
    <${Loaded} of=${pages} lines=${8}>${() => (shown.length === 0
      ? html`<${Empty} title=${wanted ? (pages.more ? "No session matches yet" : "No session matches") : "No sessions yet"}>
          ${wanted ? html`Nothing contains “${visible(wanted)}”${pages.more ? " so far" : pages.isPart ? ` in the ${count(pages.value.length)} sessions that are loaded` : ""}.` : html`<p>A session appears here when it is imported from an agent of this machine, or when a turn is recorded:</p>
          <pre>contexture import
contexture session new support
contexture session record support turn.json</pre><p>Requests without a session are under <a href=${to("requests")}>Requests</a>.</p>`}<//>`
      : html`<${List} id="sessions" label="Sessions" size=${shown.length} height=${52} selected=${selected} onSelect=${setSelected} onOpen=${open} clickOpens row=${(i) => {
          const one = shown[i];
          return html`<div class="cells">
            <span class="grow"><b>${visible(one.label)}</b>
              <small>${about(one)}</small></span>
            ${one.status !== "active" && html`<${Badge}>${one.status}<//>`}
            <span class="number">${count(one.turns)}<small>${one.turns === 1 ? "turn" : "turns"}</small></span>
            <span class="when wide-only" title=${time(one.updated_at)}>${ago(one.updated_at)}</span></div>`;
        }} />`)}<//>
  </div>`;
}

export function Requests({ query }) {
  const session = query.session ?? "";
  const pages = usePages("/v1/snapshots" + (session ? at`?session=${session}` : ""), "snapshots", "before");
  const [wanted, setWanted] = useState(query.q ?? "");
  const [selected, setSelected] = useState(0);
  const [first, setFirst] = useState(null);
  const shown = useMemo(() => {
    const words = wanted.toLowerCase();
    return (pages.value ?? []).filter((one) => [one.session, one.model, one.hash].some((text) => text.toLowerCase().includes(words)));
  }, [pages.value, wanted]);
  const open = (i) => { location.hash = to("request", shown[i].hash); };
  const compare = () => {
    const one = shown[selected];
    if (!one) return;
    if (first && first.hash !== one.hash) location.hash = to("diff", first.hash, one.hash);
    else setFirst(first ? null : one);
  };
  useKeys("Requests", [
    ["Enter", "open the selected request", () => shown.length && open(selected)],
    ["c", "compare: mark a request, then another", compare],
  ]);
  const most = Math.max(1, ...shown.slice(0, 2000).map((one) => one.tokens));
  return html`<div class="page">
    <div class="head"><h1>Requests${session && html` of <a href=${to("session", session)}>${visible(session)}</a>`}</h1>
      <${Search} value=${wanted} onInput=${(text) => { setWanted(text); setSelected(0); setQuery({ q: text }); }} label="Search by session, model or hash" />
      <span class="muted">${loaded(pages, shown.length, "request")}</span>
      <button type="button" onClick=${compare} disabled=${!shown.length}>${first ? `Compare with ${brief(first.hash)}` : "Compare…"}</button></div>
    <${Loaded} of=${pages} lines=${8}>${() => (shown.length === 0
      ? html`<${Empty} title=${wanted ? (pages.more ? "No request matches yet" : "No request matches") : "No requests yet"}>
          ${wanted && pages.isPart && html`<p>Only the latest ${count(pages.value.length)} requests are loaded. Open the session to see its requests.</p>`}
          ${!wanted && html`<p>Every assembled request is stored and appears here:</p><pre>contexture assemble --recipe broker --session support --event "Why?"</pre>`}<//>`
      : html`<${List} id="requests" label="Requests" size=${shown.length} height=${44} selected=${selected} onSelect=${setSelected} onOpen=${open} clickOpens row=${(i) => {
          const one = shown[i];
          return html`<div class="cells">
            <code>${brief(one.hash)}</code>
            <span class="grow">${visible(one.session)} <small class="inline">${visible(one.model)}</small></span>
            ${first?.hash === one.hash && html`<${Badge} kind="accent">compare<//>`}
            <span class="meter wide-only" aria-hidden="true"><i style=${{ width: (100 * one.tokens) / most + "%" }}></i></span>
            <span class="number">${short(one.tokens)}<small>tokens</small></span>
            <span class="when wide-only" title=${time(one.created_at)}>${ago(one.created_at)}</span></div>`;
        }} />`)}<//>
  </div>`;
}
