// Entities and relations: a list of entities, and a small graph around the one
// that is selected.

import { count, line, many, visible } from "./format.js";
import { usePages } from "./sessions.js";
import { Badge, Empty, List, Loaded, Search, Split, html, setQuery, to, useEffect, useMemo, useState } from "./parts.js";

// More neighbours than these could not be read in a small picture.
const MOST_AROUND = 20;

const typeOf = (record) => record.type;

/** Returns the entities, each with its relations, those with most relations first. */
function connect(entities, relations) {
  const byId = new Map(entities.map((entity) => [entity.id, { entity, relations: [] }]));
  for (const relation of relations) {
    byId.get(relation.source_id)?.relations.push(relation);
    if (relation.target_id !== relation.source_id) byId.get(relation.target_id)?.relations.push(relation);
  }
  const all = [...byId.values()].sort((a, b) =>
    b.relations.length - a.relations.length || (b.entity.mentions ?? 0) - (a.entity.mentions ?? 0) || (a.entity.name < b.entity.name ? -1 : 1));
  return { byId, all };
}

export function Graph({ query }) {
  const entities = usePages("/v1/memory/list?kind=entity&extracted=true", "records", "after");
  const relations = usePages("/v1/memory/list?kind=relation&extracted=true", "records", "after");
  const both = entities.error ? entities : relations.error ? relations
    : { value: entities.value && relations.value && [entities.value, relations.value] };
  return html`<${Loaded} of=${both}>${([some, others]) => html`<${Entities} entities=${some} relations=${others} query=${query} />`}<//>`;
}

function Entities({ entities, relations, query }) {
  const { byId, all } = useMemo(() => connect(entities, relations), [entities, relations]);
  const [wanted, setWanted] = useState(query.q ?? "");
  const [chosen, setChosen] = useState(query.entity ?? "");
  const [open, setOpen] = useState(Boolean(query.entity));
  // A neighbour in the picture is a link to its own address.
  useEffect(() => { if (query.entity) setChosen(query.entity); }, [query.entity]);
  const rows = useMemo(() => {
    const words = wanted.toLowerCase();
    return all.filter(({ entity }) => [entity.name, ...(entity.aliases ?? [])].some((name) => name.toLowerCase().includes(words)));
  }, [all, wanted]);
  if (entities.length === 0)
    return html`<${Empty} title="No entities">Entities and relations are extracted from recorded texts.<//>`;
  const selected = rows.findIndex(({ entity }) => entity.id === chosen);
  const one = byId.get(chosen) ?? rows[0];
  const select = (i) => { setOpen(true); setChosen(rows[i].entity.id); setQuery({ entity: rows[i].entity.id }); };
  return html`
    <div class="ask"><${Search} value=${wanted} onInput=${(text) => { setWanted(text); setQuery({ q: text }); }} label="Search entities" />
      <span class="muted">${many(rows.length, "entity", "entities")}, ${many(relations.length, "relation")}</span></div>
    ${rows.length === 0 ? html`<${Empty} title="No entity matches">Nothing is called “${visible(wanted)}”.<//>`
      : html`<${Split} open=${open} close=${() => setOpen(false)} title="Entity"
        list=${html`<${List} id="entities" label="Entities" size=${rows.length} height=${44} selected=${selected < 0 ? 0 : selected} onSelect=${select} row=${(i) => {
          const { entity, relations: its } = rows[i];
          return html`<div class="cells"><span class="grow"><b>${line(entity.name, 80)}</b><small>${visible(typeOf(entity))}</small></span>
            <span class="number">${count(its.length)}<small>${its.length === 1 ? "relation" : "relations"}</small></span></div>`;
        }} />`}
        detail=${one && html`<${Entity} one=${one} byId=${byId} />`} />`}`;
}

/** Returns the neighbours of an entity with what connects them, most relations first. */
function neighbours({ entity, relations }, byId) {
  const around = new Map();
  for (const relation of relations) {
    const isFrom = relation.source_id === entity.id;
    const id = isFrom ? relation.target_id : relation.source_id;
    const other = around.get(id) ?? { id, entity: byId.get(id)?.entity, relations: [] };
    other.relations.push({ relation, isFrom });
    around.set(id, other);
  }
  around.delete(entity.id);
  return [...around.values()].sort((a, b) => b.relations.length - a.relations.length || (a.id < b.id ? -1 : 1));
}

const nameOf = (other) => other.entity?.name ?? other.id;

function Entity({ one, byId }) {
  const around = useMemo(() => neighbours(one, byId), [one, byId]);
  const { entity } = one;
  const properties = Object.entries(entity.properties ?? {});
  return html`<article>
    <header class="sub"><h2>${visible(entity.name)}</h2><span class="muted">${visible(typeOf(entity))}${entity.aliases?.length ? `, also ${visible(entity.aliases.join(", "))}` : ""} · mentioned ${many(entity.mentions ?? 0, "time")}</span></header>
    ${around.length === 0 ? html`<p class="muted">No relation of this entity is known.</p>` : html`<${Picture} entity=${entity} around=${around.slice(0, MOST_AROUND)} />`}
    ${around.length > MOST_AROUND && html`<p class="muted">The picture shows ${MOST_AROUND} of ${count(around.length)} neighbours.</p>`}
    ${around.length > 0 && html`<h3>Relations</h3><ul class="links">${around.flatMap((other) => other.relations.map(({ relation, isFrom }) => html`<li key=${relation.id}>
      ${isFrom ? "" : html`<a href=${to("memory", "graph", { entity: other.id })}>${line(nameOf(other), 60)}</a> `}${visible(typeOf(relation))}${isFrom ? html` <a href=${to("memory", "graph", { entity: other.id })}>${line(nameOf(other), 60)}</a>` : ""}
      ${relation.valid_to && html` <${Badge} kind="warn">until ${visible(relation.valid_to)}<//>`}</li>`))}</ul>`}
    ${properties.length > 0 && html`<h3>Properties</h3><ul class="links">${properties.map(([name, value]) => html`<li key=${name}>${visible(name)}: ${visible(typeof value === "string" ? value : JSON.stringify(value))}</li>`)}</ul>`}
    <p><a href=${to("memory", { q: entity.name })}>Recall “${line(entity.name, 60)}”</a></p>
  </article>`;
}

/** The entity in the middle and its neighbours around it. */
function Picture({ entity, around }) {
  // On a narrow screen the picture is narrow, too: its text would be too small otherwise.
  const wide = matchMedia("(max-width: 760px)").matches ? 120 : 250;
  const places = around.map((other, i) => {
    const angle = -Math.PI / 2 + (2 * Math.PI * i) / around.length;
    // Every second one is further out, so that names have room.
    const far = around.length > 8 && i % 2 ? 1 : 0.72;
    return { other, x: wide * far * Math.cos(angle), y: 170 * far * Math.sin(angle) };
  });
  return html`<svg class="graph" viewBox=${`${-wide - 80} -200 ${2 * wide + 160} 400`} role="group" aria-label=${`Relations of ${visible(entity.name)}`}>
    ${places.map(({ other, x, y }) => html`<g key=${other.id} aria-hidden="true">
      <line x1="0" y1="0" x2=${x} y2=${y} class=${other.relations.every(({ relation }) => relation.valid_to) ? "past" : ""} />
      <text class="edge" x=${x * 0.55} y=${y * 0.55 - 4}>${line([...new Set(other.relations.map(({ relation }) => typeOf(relation)))].join(", "), 24)}</text></g>`)}
    ${places.map(({ other, x, y }) => html`<a key=${other.id} href=${to("memory", "graph", { entity: other.id })}>
      <circle cx=${x} cy=${y} r="7" /><text x=${x} y=${y + 22}>${line(nameOf(other), 22)}</text></a>`)}
    <circle class="centre" cx="0" cy="0" r="10" aria-hidden="true" /><text class="centre" x="0" y="28" aria-hidden="true">${line(entity.name, 30)}</text>
  </svg>`;
}
