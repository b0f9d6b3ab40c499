//! `contexture session`: records, shows, forks and compacts conversations.
//!
//! Also holds the table and text helpers that other commands use to print
//! results ([`show`], [`table`], [`short`]).

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use contexture::compaction::Attempt;
use contexture::core::grouped;
use contexture::store::{
    Block, NewSession, Session, SessionChange, SessionStatus, StopReason, Trigger, Turn, TurnKind,
    TurnStatus, Walk,
};
use contexture::{CompactRequest, Engine, Error, Recording, Root, SessionCost, native};
use serde_json::{Value, json};

use crate::args::{SessionArgs, SessionCommand, StoreOptions};
use crate::face::CommandLine;
use crate::{output, pins, progress, store, upkeep};

pub(crate) fn run(args: &SessionArgs) -> anyhow::Result<()> {
    let options = &args.options;
    // Input is read before a store is touched.
    if let SessionCommand::Record { label, file, from } = &args.command {
        let name = file.display().to_string();
        let body = output::read_text(file)?;
        let recording = Recording::read(&name, body.as_bytes(), from.as_deref())?;
        let engine = store::engine(options, false)?;
        let turn = engine.turn_of(label, recording)?;
        let recorded = engine.record(label, &turn, options.now)?;
        let again = if recorded.replayed {
            " (already recorded)"
        } else {
            ""
        };
        let told = format!(
            "recorded turn {} of {label}: {}{again}",
            recorded.depth, recorded.id
        );
        return show(options, &recorded, &told);
    }
    if let SessionCommand::Pin(args) = &args.command {
        return pins::pin(args, options);
    }
    let new = new_session(&args.command);
    if let Some(new) = &new {
        new.check().map_err(Error::from)?;
        if let Some(persona) = &new.persona {
            let root = Root::open(&options.root)?;
            Engine::for_root(&root)?.check_persona(&root, persona)?;
        }
    }
    let engine = store::engine(options, new.is_some())?;
    match &args.command {
        SessionCommand::New { label, .. } => {
            let root = Root::open(&options.root)?;
            let session = engine.create_session(&root, &new.unwrap_or_default(), options.now)?;
            show(options, &session, &format!("created session {label}"))
        }
        SessionCommand::List => list(&engine, options),
        SessionCommand::Show { label } => {
            let session = engine.store()?.session(label).map_err(Error::from)?;
            show(options, &session, &describe(&engine, &session)?)
        }
        SessionCommand::Record { .. } | SessionCommand::Pin(_) => Ok(()),
        SessionCommand::Pins { label, revisions } => {
            pins::list(&engine, options, label, revisions.as_deref())
        }
        SessionCommand::Unpin { label, name } => {
            let pin = engine.unpin(label, name, options.now)?;
            show(
                options,
                &pin,
                &format!("removed pin {name} of session {label}"),
            )
        }
        SessionCommand::History { label, limit, all } => {
            let limit = if *all { usize::MAX } else { *limit };
            let turns = engine.history(label, limit)?;
            if options.json {
                return output::text(&format!("{:#}\n", json!(turns)));
            }
            let total = engine.store()?.session(label).map_err(Error::from)?.turns;
            output::text(&history(&turns, total))
        }
        SessionCommand::Fork { label, new, at } => {
            let at = match at {
                Some(at) => Some(turn_at(&engine, label, at)?),
                None => None,
            };
            let session = engine.fork(label, new, at.as_deref(), options.now)?;
            let told = match session.turns {
                0 => format!(
                    "forked {label} as session {new}, which is empty: {label} has no \
                              turns yet"
                ),
                turns => format!("forked {label} as session {new}, after turn {turns}"),
            };
            show(options, &session, &told)
        }
        SessionCommand::Compact {
            label,
            focus,
            overflow,
            model,
            max_tokens,
        } => {
            let request = CompactRequest {
                focus: focus.clone(),
                model: model.clone(),
                max_tokens: *max_tokens,
                now: options.now,
            };
            let compacted = progress::with_spinner("summarising", || match overflow {
                true => {
                    let compacted = engine.recover_overflow(label, &request)?;
                    Ok(Attempt::Compacted(Box::new(compacted)))
                }
                false => engine.compact(label, &request),
            })?;
            let compacted = match compacted {
                Attempt::Compacted(compacted) => compacted,
                Attempt::Nothing(why) => {
                    let told = format!("nothing was summarised: {why}");
                    return show(options, &serde_json::Value::Null, &told);
                }
            };
            for warning in &compacted.warnings {
                output::say(&format!(
                    "warning: {}",
                    output::visible(&warning.phrase(&CommandLine))
                ));
            }
            let told = format!(
                "summarised {}: {} tokens became {} ({}):\n\n{}\n\nUndo it with `contexture \
                 session uncompact {label}`.",
                output::many(compacted.steps as u64, "step"),
                grouped(compacted.tokens_before),
                grouped(compacted.tokens_after),
                compacted.summariser,
                compacted.summary
            );
            show(options, &compacted, &told)
        }
        SessionCommand::Delete { label } => {
            let deleted = engine.store()?.delete_session(label).map_err(Error::from)?;
            let told = format!("deleted {}", upkeep::counted(&deleted));
            show(options, &deleted, &told)?;
            upkeep::tell_pending(&deleted);
            Ok(())
        }
        SessionCommand::Uncompact { label } => {
            let undone = engine.uncompact(label, options.now)?;
            let now = match undone.standing {
                Some(summary) => format!(
                    "the earlier summary {} is in use again; run uncompact again to undo that too",
                    summary.short()
                ),
                None => "requests contain all turns again, as far as they fit".to_owned(),
            };
            let told = format!("undid summary {}: {now}", undone.undone.short());
            show(options, &undone, &told)
        }
        SessionCommand::Cost { label } => {
            let cost = engine.cost(label)?;
            if options.json {
                return output::text(&format!("{:#}\n", json!(cost)));
            }
            output::text(&costs(&cost))
        }
        SessionCommand::Alias { label, alias } => {
            let change = SessionChange {
                alias: Some(alias.clone()),
                ..SessionChange::default()
            };
            let session = engine.store()?.change_session(label, &change);
            let session = session.map_err(Error::from)?;
            show(
                options,
                &session,
                &format!("added alias {alias} to session {}", session.label),
            )
        }
        SessionCommand::Close { label, failed } => {
            let status = match failed {
                true => SessionStatus::Failed,
                false => SessionStatus::Completed,
            };
            let change = SessionChange {
                status: Some(status),
                ..SessionChange::default()
            };
            let session = engine.store()?.change_session(label, &change);
            let session = session.map_err(Error::from)?;
            show(
                options,
                &session,
                &format!("session {label} is {}", status.name()),
            )
        }
    }
}

/// Returns the id of the turn that `--at` selects. A number that is too short
/// for the first digits of an id is the number of a turn.
pub(crate) fn turn_at(engine: &Engine, label: &str, at: &str) -> anyhow::Result<String> {
    let Some(number) = at.parse::<u64>().ok().filter(|_| at.len() < 4) else {
        return Ok(at.to_owned());
    };
    let store = engine.store()?;
    let session = store.session(label).map_err(Error::from)?;
    let everything = Walk {
        counter: "",
        tokens: u64::MAX,
        at_least: 0,
        through: None,
    };
    let path = match session.head {
        Some(head) => store.walk(head, &everything).map_err(Error::from)?,
        None => Vec::new(),
    };
    let mut turns = path.iter().filter(|turn| turn.kind == TurnKind::Normal);
    match turns.find(|turn| turn.depth == number) {
        Some(turn) => Ok(turn.id.to_string()),
        None => Err(output::Advice {
            message: format!(
                "session `{}` has no turn {number}; it has {}",
                output::visible(label),
                output::many(session.turns, "turn")
            ),
            hint: format!(
                "`contexture session history {}` shows the turns",
                output::visible(label)
            ),
        }
        .into()),
    }
}

/// Returns the session that is to be made, if one is.
fn new_session(command: &SessionCommand) -> Option<NewSession> {
    let SessionCommand::New {
        label,
        aliases,
        persona,
        task,
        parent,
    } = command
    else {
        return None;
    };
    Some(NewSession {
        label: label.clone(),
        aliases: aliases.clone(),
        head: None,
        persona: persona.clone(),
        parent_session: parent.clone(),
        task: task.clone(),
    })
}

/// Prints JSON with `--json`, and the text otherwise.
pub(crate) fn show(
    options: &StoreOptions,
    value: &impl serde::Serialize,
    told: &str,
) -> anyhow::Result<()> {
    match options.json {
        true => output::text(&format!("{:#}\n", json!(value))),
        false => output::text(&format!("{told}\n")),
    }
}

/// Returns an empty table; `right` are the columns that numbers stand in.
pub(crate) fn table(header: &[&str], right: &[usize]) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(header.iter().copied());
    for &i in right {
        if let Some(column) = table.column_mut(i) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Returns a table without blanks at the ends of its lines.
pub(crate) fn plain(table: &Table) -> String {
    table
        .to_string()
        .lines()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect()
}

fn list(engine: &Engine, options: &StoreOptions) -> anyhow::Result<()> {
    let store = engine.store()?;
    let mut sessions: Vec<Session> = Vec::new();
    loop {
        let after = sessions.last().map(|session| session.label.clone());
        let more = store.sessions(after.as_deref(), 500).map_err(Error::from)?;
        let done = more.len() < 500;
        sessions.extend(more);
        if done {
            break;
        }
    }
    if options.json {
        return output::text(&format!("{:#}\n", json!(sessions)));
    }
    if sessions.is_empty() {
        return output::text("no sessions; create one with `contexture session new LABEL`\n");
    }
    let header = ["session", "turns", "status", "updated", "parent", "task"];
    let mut table = table(&header, &[1]);
    for session in &sessions {
        table.add_row([
            output::visible(&session.label),
            session.turns.to_string(),
            session.status.name().to_owned(),
            format!("{:.0}", session.updated_at),
            output::visible(session.parent_session.as_deref().unwrap_or("")),
            output::visible(&short(session.task.as_deref().unwrap_or(""), 60)),
        ]);
    }
    output::text(&plain(&table))
}

fn describe(engine: &Engine, session: &Session) -> anyhow::Result<String> {
    let mut lines = vec![format!("session   {}", output::visible(&session.label))];
    let mut line = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            lines.push(format!("{name:<9} {}", output::visible(&value)));
        }
    };
    line("aliases", Some(session.aliases.join(", ")));
    line("status", Some(session.status.name().to_owned()));
    line("turns", Some(session.turns.to_string()));
    line("head", session.head.map(|head| head.to_string()));
    line("persona", session.persona.clone());
    line("task", session.task.clone());
    line(
        "from",
        session
            .parent_session
            .as_ref()
            .map(|parent| match session.parent_turn {
                Some(turn) => format!("{parent} at {turn}"),
                None => parent.clone(),
            }),
    );
    line("created", Some(format!("{:.0}", session.created_at)));
    line("updated", Some(format!("{:.0}", session.updated_at)));
    let latest = engine
        .store()?
        .snapshots(Some(&session.label), 1)
        .map_err(Error::from)?;
    line(
        "request",
        latest.first().map(|snapshot| {
            format!(
                "{} ({} tokens, {})",
                &snapshot.hash.to_string()[..12],
                grouped(snapshot.tokens),
                snapshot.model
            )
        }),
    );
    let moves = engine
        .store()?
        .head_moves(&session.label, 5)
        .map_err(Error::from)?;
    for (i, one) in moves.iter().enumerate() {
        let name = if i == 0 { "moves" } else { "" };
        let to = one
            .to
            .map_or_else(|| "the start".to_owned(), |to| to.short());
        line(name, Some(format!("{:.0} {} -> {to}", one.at, one.reason)));
    }
    // `line` skips what is empty, the names of later moves are not.
    Ok(lines.join("\n"))
}

/// How many lines are shown of a summary.
const SUMMARY_LINES: usize = 12;

/// The longest line that is shown of a message.
const LINE: usize = 100;

fn history(turns: &[Turn], total: u64) -> String {
    let mut out = String::new();
    let shown = turns
        .iter()
        .filter(|turn| turn.kind == TurnKind::Normal)
        .count() as u64;
    if shown < total {
        out.push_str(&format!(
            "({} not shown; show all with --all)\n\n",
            output::many(total - shown, "older turn")
        ));
    }
    if total == 0 {
        out.push_str("no turns yet\n");
    }
    for turn in turns {
        if let Some(compaction) = &turn.compaction {
            out.push_str(&format!(
                "--- {} {} ({}, by {}): {} tokens became {} ---\n",
                turn.id.short(),
                match compaction.trigger {
                    Trigger::Undo => "restored summary",
                    _ => "summary",
                },
                compaction.trigger.name(),
                compaction.summariser,
                grouped(compaction.tokens_before),
                grouped(compaction.tokens_after),
            ));
            for line in compaction.summary.lines().take(SUMMARY_LINES) {
                out.push_str(&format!("    {}\n", output::visible(&short(line, LINE))));
            }
            if compaction.summary.lines().count() > SUMMARY_LINES {
                out.push_str("    … (show all with --json)\n");
            }
            out.push('\n');
            continue;
        }
        let status = match turn.turn.effective_status() {
            TurnStatus::Completed => String::new(),
            status => format!(" {status:?}").to_lowercase(),
        };
        let model = turn.turn.model.as_deref().unwrap_or("");
        // A usual end needs no word, and a failure has one.
        let stop = match &turn.turn.stop_reason {
            None | Some(StopReason::EndTurn | StopReason::ToolUse | StopReason::Error) => {
                String::new()
            }
            Some(reason) => format!(" (stopped: {})", reason.as_str()),
        };
        let head = format!(
            "{} {} {:.0} {model}{status}{stop}",
            turn.depth,
            turn.id.short(),
            turn.created_at
        );
        out.push_str(&format!("{}\n", output::visible(head.trim_end())));
        for message in &turn.turn.messages {
            for block in message.blocks() {
                let text = match &*block {
                    Block::Text { text, .. } => text.clone(),
                    Block::ToolCall {
                        name,
                        arguments: Value::String(written),
                        ..
                    } => format!("calls {name} (not JSON) {written}"),
                    Block::ToolCall {
                        name, arguments, ..
                    } => format!("calls {name} {arguments}"),
                    Block::ToolResult {
                        content, is_error, ..
                    } => format!("{}{content}", if *is_error { "failed: " } else { "" }),
                    Block::Thinking { text, .. } if text.trim().is_empty() => {
                        "(thinks; the provider left the text out)".to_owned()
                    }
                    Block::Thinking { text, .. } => format!("(thinks) {text}"),
                    Block::Provider { provider, raw } => {
                        format!("[{provider}] {}", native::shown(raw).0)
                    }
                    other => other
                        .media()
                        .map_or_else(String::new, |media| format!("[{}]", media.media_type)),
                };
                let text = output::visible(&short(&text, LINE));
                out.push_str(&format!("  {:<9} {text}\n", message.role.name()));
            }
        }
        out.push('\n');
    }
    out
}

/// Returns the first line of `text`, and no more of it than fits.
pub(crate) fn short(text: &str, most: usize) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    let more = line.chars().count() > most || text.trim().lines().count() > 1;
    let mut short: String = line.chars().take(most).collect();
    if more {
        short.push('…');
    }
    short
}

/// Lists the turns whose requests lost the provider's cache, and those where the
/// provider read much less from it than was expected.
fn breaks(cost: &SessionCost) -> String {
    let mut lines = Vec::new();
    for turn in &cost.turns {
        let Some(cache) = &turn.cache else { continue };
        let cached = turn.usage.cached_input_tokens;
        let reported = format!(
            "the provider read {} of {} tokens from its cache",
            grouped(cached),
            grouped(turn.usage.input_tokens)
        );
        if cache.cause.is_some() {
            let what = output::visible(&cache.describe());
            lines.push(format!("  turn {}: {what}; {reported}\n", turn.number));
        } else if cached < cache.read_tokens / 2 {
            let expected = grouped(cache.read_tokens);
            lines.push(format!(
                "  turn {}: {expected} tokens were expected from the cache; {reported}\n",
                turn.number
            ));
        }
    }
    match lines.is_empty() {
        true => String::new(),
        false => format!(
            "\ncache breaks (${:.4}):\n{}",
            cost.dollars_missed,
            lines.concat()
        ),
    }
}

fn costs(cost: &SessionCost) -> String {
    let money = |dollars: Option<f64>| match dollars {
        Some(dollars) => format!("${dollars:.4}"),
        None => "?".to_owned(),
    };
    let share = |cached: u64, input: u64| match input {
        0 => "-".to_owned(),
        _ => format!("{:.1} %", cached as f64 / input as f64 * 100.0),
    };
    let header = [
        "turn", "model", "input", "cached", "", "written", "output", "cost",
    ];
    let mut table = table(&header, &[0, 2, 3, 4, 5, 6, 7]);
    for turn in &cost.turns {
        let number = match turn.kind {
            "compaction" => "summary".to_owned(),
            _ => turn.number.to_string(),
        };
        table.add_row([
            number,
            output::visible(turn.model.as_deref().unwrap_or("?")),
            grouped(turn.usage.input_tokens),
            grouped(turn.usage.cached_input_tokens),
            share(turn.usage.cached_input_tokens, turn.usage.input_tokens),
            grouped(turn.usage.cache_write_tokens),
            grouped(turn.usage.output_tokens),
            money(turn.dollars),
        ]);
    }
    let total = &cost.total;
    table.add_row([
        "total".to_owned(),
        String::new(),
        grouped(total.input_tokens),
        grouped(total.cached_input_tokens),
        share(total.cached_input_tokens, total.input_tokens),
        grouped(total.cache_write_tokens),
        grouped(total.output_tokens),
        money(Some(cost.dollars)),
    ]);
    let mut out = plain(&table);
    if cost.dollars_saved != 0.0 {
        let change = cost.dollars_saved / cost.dollars_uncached * 100.0;
        let (word, change) = match change < 0.0 {
            true => ("more", -change),
            false => ("less", change),
        };
        out.push_str(&format!(
            "\n{:.1} % {word} than the ${:.4} it would have cost without a cache\n",
            change, cost.dollars_uncached
        ));
    }
    out.push_str(&breaks(cost));
    if cost.unreported > 0 {
        out.push_str(&format!(
            "{} without usage: cost unknown\n",
            output::many(cost.unreported as u64, "turn")
        ));
    }
    for model in &cost.unpriced {
        out.push_str(&format!(
            "no prices for {}; add [models.\"{}\".prices] to contexture.toml\n",
            output::visible(model),
            output::visible(model)
        ));
    }
    out
}
