// One session: a strip of its turns with cache hits, cost and compactions, and
// each turn with its messages and the request that it answers.

import { at, get } from "./api.js";
import { brief, blockText, contentText, count, dollars, line, many, percent, short, time, visible } from "./format.js";
import { exportSession } from "./export.js";
import { Badge, Empty, Fact, List, Loaded, Loading, Split, Text, html, note, setQuery, to, useEffect, useKeys, useLoad, useMemo, useRef, useState } from "./parts.js";

const PAGE = 200;

/** Loads the turns around any number, in pages, by the ids that the cost knows. */
class Turns {
  constructor(label, total, changed) {
    Object.assign(this, { label, total, changed, rows: new Map(), compactions: new Map(), loading: new Set(), ids: new Map() });
  }

  /** Notes the ids of turns that are not loaded. */
  learn(cost) {
    for (const turn of cost.turns) if (turn.kind === "turn") this.ids.set(turn.number, turn.turn_id);
  }

  /** Loads turn `number`, and those before it. */
  async load(number) {
    const end = Math.min(this.total, Math.ceil(number / PAGE) * PAGE);
    if (this.rows.has(number) || this.loading.has(end) || number < 1) return;
    this.loading.add(end);
    try {
      // The turn behind the page is where it ends; without its id, the pages
      // from the latest turn on lead there.
      let before = end < this.total ? this.ids.get(end + 1) ?? this.rows.get(end + 1)?.id : null;
      let from = end;
      if (end < this.total && !before) { before = this.oldest?.id ?? null; from = (this.oldest?.depth ?? this.total + 1) - 1; }
      do {
        const limit = Math.min(1000, Math.max(PAGE, from - end + PAGE));
        const page = await get(at`/v1/sessions/${this.label}/history?limit=` + limit + (before ? `&before=${before}` : ""));
        for (const turn of page.turns) {
          if (turn.kind === "normal") { this.rows.set(turn.depth, turn); if (!this.oldest || turn.depth < this.oldest.depth) this.oldest = turn; }
          else this.compactions.set(turn.depth, turn);
        }
        before = page.next;
        from -= limit;
      } while (before && from >= number);
      this.changed();
    } catch (error) { note(error.message); } finally { this.loading.delete(end); }
  }
}

export function Session({ parts: [label, chosen], query }) {
  const [, redraw] = useState(0);
  const loaded = useLoad(async (signal) => {
    const session = await get(at`/v1/sessions/${label}`, signal);
    const turns = new Turns(label, session.turns, () => redraw((n) => n + 1));
    const [requests] = await Promise.all([
      get(`/v1/snapshots?session=${encodeURIComponent(session.label)}&limit=1000`, signal),
      turns.load(session.turns),
    ]);
    return { session, requests, turns };
  }, [label]);
  // The cost reads every turn of the session; the latest turns need not wait for it.
  const cost = useLoad((signal) => get(at`/v1/sessions/${label}/cost`, signal), [label]);
  useEffect(() => { if (loaded.value && cost.value) loaded.value.turns.learn(cost.value); }, [loaded.value, cost.value]);
  if (loaded.error?.status === 404)
    return html`<${Empty} title="No such session"><p>No session has the label “${visible(label)}”. <a href=${to("requests", { session: label })}>See requests with this label</a>, which were assembled without a session.</p><//>`;
  return html`<${Loaded} of=${loaded} lines=${10}>${(value) => html`<${SessionView} ...${value} cost=${cost.value ?? NO_COST} isCounting=${!cost.value && !cost.error} costError=${cost.error} countAgain=${cost.reload} query=${query} chosen=${chosen} />`}<//>`;
}

const NO_COST = { turns: [], total: { input_tokens: 0, output_tokens: 0, cached_input_tokens: 0 }, dollars: null, dollars_saved: 0, unpriced: [] };

function SessionView({ session, cost, isCounting, costError, countAgain, requests, turns, query }) {
  const [selected, setSelected] = useState(() => (query.turn ? Math.max(0, session.turns - Number(query.turn)) : -1));
  const [open, setOpen] = useState(Boolean(query.turn));
  const [jump, setJump] = useState(undefined);
  const byNumber = useMemo(() => new Map(cost.turns.filter((turn) => turn.kind === "turn").map((turn) => [turn.number, turn])), [cost]);
  const request = useRef(null);
  request.current ??= new Map([...requests.snapshots].reverse().map((one) => [one.parent_turn ?? "", one]));
  const number = session.turns - selected;
  const select = (i, show = true) => { setSelected(i); if (show) setOpen(true); setQuery({ turn: session.turns - i }); };
  const waiting = request.current.get(session.head ?? "");
  const most = useMemo(() => cost.turns.reduce((max, turn) => Math.max(max, turn.input_tokens + turn.output_tokens), 1), [cost]);
  const turn = turns.rows.get(number);
  const answered = turn && requestOf(turn, request.current);
  // A fork has the requests of its shared turns in the other session.
  const before = turns.rows.get(number - 1);
  const previous = answered && (before?.request_hash ? { hash: before.request_hash } : previousOf(requests.snapshots, answered));
  useKeys("Session", [
    ["Enter r", "open the request of the selected turn", () => { if (answered) location.hash = to("request", answered.hash); }],
    ["e", "export the session as one HTML file", () => exportSession(session, cost)],
  ]);
  useEffect(() => { if (selected >= 0) turns.load(number); }, [selected]);
  const row = (i) => {
    const n = session.turns - i, usage = byNumber.get(n), one = turns.rows.get(n), compaction = turns.compactions.get(n);
    return html`<div class="cells turn">
      <span class="index">${n}</span>
      <span class="grow">${one ? html`<b>${line(summary(one), 140) || "empty"}</b><small>${line(reply(one), 140)}</small>` : html`<i class="bone bone-1"></i>`}</span>
      ${compaction && html`<${Badge} kind="accent" title="History was summarised after this turn">compacted<//>`}
      ${usage ? html`<${UsageBar} usage=${usage} most=${most} />
        <span class="number money">${dollars(usage.dollars)}<small>${short(usage.input_tokens)} in</small></span>`
        : html`<span class="number money muted">–<small>${isCounting ? "…" : costError ? "unknown" : "no usage"}</small></span>`}
    </div>`;
  };
  const list = session.turns === 0
    ? html`<${Empty} title="No turns yet">Turns appear here when they are recorded.<//>`
    : html`<${List} id="turns" label="Turns, newest first" size=${session.turns} height=${48} selected=${selected} top=${jump} onSelect=${select}
        onOpen=${() => { if (answered) location.hash = to("request", answered.hash); }} row=${row}
        onRange=${(first, last) => { for (let i = first; i < last; i += PAGE / 2) turns.load(session.turns - i); turns.load(session.turns - Math.max(first, last - 1)); }} />`;
  return html`<div class="page">
    <div class="head"><h1>${visible(session.label)}</h1>
      ${session.status !== "active" && html`<${Badge}>${session.status}<//>`}
      <span class="grow muted">${session.task && line(session.task)}</span>
      <a class="button" href=${to("requests", { session: session.label })}>${many(requests.snapshots.length, "request")}${requests.next ? "+" : ""}</a>
      <button type="button" onClick=${() => exportSession(session, cost)}>Export</button></div>
    <dl class="facts">
      <${Fact} name="Turns">${count(session.turns)}<//>
      ${isCounting ? html`<${Fact} name="Cost"><i class="bone"></i><//>` : costError ? html`<${Fact} name="Cost">unknown<//>` : html`<${Fact} name="Cost" title=${cost.unpriced.length ? `no prices for ${cost.unpriced.join(", ")}` : ""}>${dollars(cost.dollars)}${cost.dollars_saved > 0 && html` <small>${dollars(cost.dollars_saved)} saved by the cache</small>`}<//>
      <${Fact} name="Cache hits">${percent(cost.total.cached_input_tokens, cost.total.input_tokens)}<//>
      <${Fact} name="Input">${short(cost.total.input_tokens)}<//>
      <${Fact} name="Output">${short(cost.total.output_tokens)}<//>`}
      ${session.parent_session && html`<${Fact} name="Forked from"><a href=${to("session", session.parent_session)}>${visible(session.parent_session)}</a><//>`}
      <${Fact} name="Updated">${time(session.updated_at)}<//>
    </dl>
    ${costError && html`<p class="banner warn" role="alert">The cost and the cache hits could not be loaded: ${visible(costError.message)}. <button type="button" onClick=${countAgain}>Retry</button></p>`}
    ${waiting && html`<p class="banner">The latest request has no answer yet: <a href=${to("request", waiting.hash)}>${brief(waiting.hash)}</a>, ${count(waiting.tokens)} tokens for ${visible(waiting.model)}.</p>`}
    ${cost.turns.length > 1 && html`<${Strip} cost=${cost} compactions=${turns.compactions} total=${session.turns} selected=${number}
      pick=${(n) => { const i = session.turns - n; setJump(Math.max(0, i - 3)); select(i); }} />`}
    <${Split} list=${list} open=${open && selected >= 0} close=${() => setOpen(false)} title="Turn"
      detail=${selected < 0 ? html`<${Empty} title="Select a turn">See what was said, and open the request that the model answered.<//>`
        : html`<${TurnDetail} number=${number} turn=${turn} usage=${byNumber.get(number)} request=${answered} compaction=${turns.compactions.get(number)} previous=${previous} />`} />
  </div>`;
}

/** Returns the request that a turn answers: the recorded one, or the one after its parent. */
function requestOf(turn, byParent) {
  if (turn.request_hash) return { hash: turn.request_hash };
  return byParent.get(turn.parent ?? "");
}

/** Returns the request before one, in the same session. */
function previousOf(snapshots, one) {
  const i = snapshots.findIndex((other) => other.hash === one?.hash);
  return i >= 0 ? snapshots[i + 1] : undefined;
}

function summary(turn) {
  const user = turn.messages.find((message) => message.role === "user");
  return contentText((user ?? turn.messages[0])?.content);
}

function reply(turn) {
  const all = turn.messages.filter((message) => message.role === "assistant");
  return contentText(all[all.length - 1]?.content);
}

/** The tokens of a turn: read from the cache, new, and output. */
function UsageBar({ usage, most }) {
  const width = (tokens) => ({ width: (100 * tokens) / most + "%" });
  const fresh = Math.max(0, usage.input_tokens - usage.cached_input_tokens);
  return html`<span class="usage wide-only" role="img" aria-label=${`${count(usage.cached_input_tokens)} cached, ${count(fresh)} new input, ${count(usage.output_tokens)} output tokens`}>
    <i class="cached" style=${width(usage.cached_input_tokens)}></i><i class="fresh" style=${width(fresh)}></i><i class="output" style=${width(usage.output_tokens)}></i></span>`;
}

/** Returns the width of a turn in the strip. A few turns do not fill it. */
const stepOf = (width, total) => Math.min(width / Math.max(1, total), 26);

/** All turns at once: the height is the input, the dark part came from the cache. */
function Strip({ cost, total, selected, compactions, pick }) {
  const canvas = useRef();
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const observer = new ResizeObserver(() => setWidth(canvas.current?.clientWidth ?? 0));
    observer.observe(canvas.current);
    const media = matchMedia("(prefers-color-scheme: dark)");
    const again = () => setWidth((n) => n + 0.001);
    media.addEventListener("change", again);
    return () => { observer.disconnect(); media.removeEventListener("change", again); };
  }, []);
  useEffect(() => {
    const element = canvas.current, scale = devicePixelRatio || 1, height = element.clientHeight;
    if (!width) return;
    element.width = Math.round(width * scale);
    element.height = height * scale;
    const draw = element.getContext("2d"), style = getComputedStyle(element);
    const colour = (name) => style.getPropertyValue(name).trim();
    draw.scale(scale, scale);
    const most = cost.turns.reduce((max, turn) => Math.max(max, turn.input_tokens), 1);
    const step = stepOf(width, total), room = height - 4;
    // Many turns share a pixel: the tallest of them is drawn.
    const columns = new Map();
    for (const turn of cost.turns) {
      const x = Math.floor((turn.number - 1) * step);
      if (turn.kind === "compaction") { columns.set("c" + x, { x, compaction: true }); continue; }
      const old = columns.get(x);
      if (!old || old.input < turn.input_tokens) columns.set(x, { x, input: turn.input_tokens, cached: turn.cached_input_tokens });
    }
    for (const number of compactions.keys()) columns.set("c" + number, { x: Math.floor((number - 1) * step), compaction: true });
    const bar = Math.max(1, Math.floor(step) - (step > 3 ? 1 : 0));
    const chosen = selected >= 1 && selected <= total ? (selected - 1) * step : null;
    if (chosen !== null) {
      draw.fillStyle = colour("--mark");
      draw.fillRect(Math.floor(chosen) - 1, 0, Math.min(bar, 24) + 2, height);
    }
    for (const { x, input, cached, compaction } of columns.values()) {
      if (compaction) { draw.fillStyle = colour("--ink-2"); draw.fillRect(Math.min(x + step, width - 2), 0, 2, height); continue; }
      const h = Math.max(1, (room * input) / most), c = (room * cached) / most;
      draw.fillStyle = colour("--accent-3");
      draw.fillRect(x, height - h, Math.min(bar, 24), h);
      draw.fillStyle = colour("--accent");
      draw.fillRect(x, height - c, Math.min(bar, 24), c);
    }
    if (chosen !== null) {
      draw.fillStyle = colour("--ink");
      draw.fillRect(Math.floor(chosen) - 1, 0, Math.max(3, Math.min(bar, 24) + 2), 3);
    }
  }, [cost, width, selected, total, compactions.size]);
  const click = (event) => {
    const box = canvas.current.getBoundingClientRect();
    pick(Math.max(1, Math.min(total, Math.floor((event.clientX - box.left) / stepOf(box.width, total)) + 1)));
  };
  return html`<figure class="strip"><canvas ref=${canvas} role="img" aria-label="Input tokens of every turn; the dark part came from the cache" onClick=${click}></canvas>
    <figcaption><i class="cached"></i>from the cache <i class="fresh"></i>new input <i class="line"></i>compaction</figcaption></figure>`;
}

function TurnDetail({ number, turn, usage, request, compaction, previous }) {
  if (!turn) return html`<${Loading} lines=${6} />`;
  return html`<article>
    <header class="sub"><h2>Turn ${count(number)}</h2><span class="muted">${time(turn.created_at)}</span>
      <span class="grow"></span>
      ${request ? html`<a class="button primary" href=${to("request", request.hash)}>See what the model saw</a>` : html`<span class="muted">no request is stored</span>`}
      ${request && previous && html`<a class="button" href=${to("diff", previous.hash, request.hash)}>Compare with the request before</a>`}
    </header>
    <dl class="facts small">
      ${turn.model && html`<${Fact} name="Model">${visible(turn.model)}<//>`}
      ${turn.stop_reason && html`<${Fact} name="Stopped">${visible(turn.stop_reason)}<//>`}
      ${usage && html`<${Fact} name="Input">${count(usage.input_tokens)}<//>
      <${Fact} name="Cached">${count(usage.cached_input_tokens)} <small>${percent(usage.cached_input_tokens, usage.input_tokens)}</small><//>
      <${Fact} name="Written to the cache">${count(usage.cache_write_tokens)}<//>
      <${Fact} name="Output">${count(usage.output_tokens)}<//>
      <${Fact} name="Cost">${dollars(usage.dollars)}<//>`}
    </dl>
    ${turn.messages.map((message, i) => html`<${Message} key=${i} message=${message} />`)}
    ${compaction && html`<section class="message compaction"><h3>Compacted after this turn <${Badge} kind="accent">${visible(compaction.compaction?.trigger ?? "summary")}<//></h3>
      <${Text} value=${compaction.compaction?.summary ?? contentText(compaction.messages[0]?.content)} /></section>`}
  </article>`;
}

function Message({ message }) {
  const blocks = Array.isArray(message.content) ? message.content : [{ type: "text", text: contentText(message.content) }];
  return html`<section class=${"message role-" + message.role}><h3>${visible(message.role)}${message.source && html` <small>${visible(message.source)}</small>`}</h3>
    ${blocks.map((block, i) => html`<div key=${i} class="block">
      ${block.type !== "text" && html`<${Badge}>${visible(block.type.replace("_", " "))}${block.name && html`: ${visible(block.name)}`}${block.is_error && " · failed"}<//>`}
      <${Text} value=${blockText(block)} /></div>`)}
  </section>`;
}
