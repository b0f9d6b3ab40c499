//! `contexture session`: records, shows, forks and compacts conversations.
//!
//! Also holds the table and text helpers that other commands use to print
//! results ([`show`], [`table`], [`short`]).

use contexture::compaction::Attempt;
use contexture::core::grouped;
use contexture::store::{
    Deleted, NewSession, RecordList, Session, SessionChange, SessionStatus, TurnKind, Walk,
};
use contexture::{CompactRequest, Engine, Error, Recording, Root, Shown as _};
pub(crate) use contexture_terminal::text::short;
use contexture_terminal::{CommandLine, cost, history, stored};
pub(crate) use contexture_terminal::{plain, table};
use serde_json::json;

use crate::args::{SessionArgs, SessionCommand, StoreOptions};
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
            let session = session.shown();
            show(options, &session, &format!("created session {label}"))
        }
        SessionCommand::List => list(&engine, options),
        SessionCommand::Show { label } => {
            let session = engine.store()?.session(label).map_err(Error::from)?;
            let session = session.shown();
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
            let stored = engine.stored_turns(label)?;
            output::text(&history::text(&turns, total, stored))
        }
        SessionCommand::Fork { label, new, at } => {
            let at = match at {
                Some(at) => Some(turn_at(&engine, label, at)?),
                None => None,
            };
            let session = engine.fork(label, new, at.as_deref(), options.now)?.shown();
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
            let lost: String = (compacted.lost.iter())
                .map(|lost| format!("  {}\n", output::visible(&short(lost, 100))))
                .collect();
            let lost = match lost.as_str() {
                "" => lost,
                _ => format!("\nNot in the summary:\n{lost}"),
            };
            let told = format!(
                "summarised {}: {} tokens became {} ({}):\n\n{}\n{lost}\n\
                 `contexture session history {label}` shows the turns that the summary replaces.\n\
                 Undo it with `contexture session uncompact {label}`.",
                output::many(compacted.steps as u64, "step"),
                grouped(compacted.tokens_before),
                grouped(compacted.tokens_after),
                compacted.summariser,
                compacted.summary.trim_end()
            );
            show(options, &compacted, &told)
        }
        SessionCommand::Delete { label, yes } => {
            let session = engine.store()?.session(label).map_err(Error::from)?;
            let turns = output::many(session.turns, "turn");
            if !upkeep::confirm(*yes, &format!("Delete session {label} with {turns}?"))? {
                return Ok(());
            }
            let root = Root::open(&options.root)?;
            let deleted = engine.delete_session(&root, label)?;
            show(options, &deleted, &deletion(&session, &deleted))?;
            upkeep::report_pending(deleted.pending);
            tell_remembered(&engine, &session.label)
        }
        SessionCommand::Trim { label, before, yes } => {
            let session = engine.store()?.session(label).map_err(Error::from)?;
            let turn = turn_at(&engine, label, before)?;
            let turn = engine.find_turn(&session, &turn)?;
            let question = format!(
                "Delete the turns of session {} before turn {}, and all its snapshots?",
                output::visible(&session.label),
                turn.short()
            );
            if !upkeep::confirm(*yes, &question)? {
                return Ok(());
            }
            let deleted = engine.store()?.delete_turns_before(&session.label, turn);
            let deleted = deleted.map_err(Error::from)?;
            let told = match deleted.deleted.is_empty() {
                true => format!("there are no turns before turn {}", turn.short()),
                false => format!(
                    "deleted before turn {} of session {}: {}",
                    turn.short(),
                    output::visible(&session.label),
                    stored::counted(&deleted)
                ),
            };
            show(options, &deleted, &told)?;
            upkeep::report_pending(deleted.pending);
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
            output::text(&cost::text(&cost))
        }
        SessionCommand::Alias { label, alias } => {
            let change = SessionChange {
                alias: Some(alias.clone()),
                ..SessionChange::default()
            };
            let session = engine.store()?.change_session(label, &change);
            let session = session.map_err(Error::from)?.shown();
            show(
                options,
                &session,
                &format!("added alias {alias} to session {}", session.label),
            )
        }
        SessionCommand::Remember { label, remember } => {
            let change = SessionChange {
                remember: Some(*remember),
                ..SessionChange::default()
            };
            let session = engine.store()?.change_session(label, &change);
            let session = session.map_err(Error::from)?.shown();
            let become_events = match remember {
                true => "become",
                false => "do not become",
            };
            let message = format!(
                "turns of session {} {become_events} memory events from now on",
                session.label
            );
            show(options, &session, &message)
        }
        SessionCommand::Close { label, failed } => {
            let status = match failed {
                true => SessionStatus::Failed,
                false => SessionStatus::Completed,
            };
            set_status(&engine, options, label, status)
        }
        SessionCommand::Reopen { label } => {
            set_status(&engine, options, label, SessionStatus::Active)
        }
    }
}

fn set_status(
    engine: &Engine,
    options: &StoreOptions,
    label: &str,
    status: SessionStatus,
) -> anyhow::Result<()> {
    let change = SessionChange {
        status: Some(status),
        ..SessionChange::default()
    };
    let session = engine.store()?.change_session(label, &change);
    let session = session.map_err(Error::from)?.shown();
    let told = format!("session {label} is {}", status.name());
    show(options, &session, &told)
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
        remember,
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
        remember: *remember,
    })
}

/// Returns a description of the deleted data of a session. The ledger counts a
/// summary as a turn; this text does not.
fn deletion(session: &Session, deleted: &Deleted) -> String {
    let mut others = deleted.clone();
    others.deleted.remove("sessions");
    let turns = others.deleted.remove("turns").unwrap_or_default();
    let summaries = turns.saturating_sub(session.turns);
    let mut told = format!(
        "deleted session {}: {}",
        output::visible(&session.label),
        output::many(turns - summaries, "turn")
    );
    if summaries > 0 {
        told.push_str(&format!(
            ", {}",
            output::number(summaries, "summary", "summaries")
        ));
    }
    if !others.deleted.is_empty() {
        told.push_str(&format!(", {}", stored::counted(&others)));
    }
    told
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
    let sessions = sessions.shown();
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
        "remember",
        session.remember.map(|remember| remember.to_string()),
    );
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
    // `line` skips empty values, but names of later moves are empty and must
    // stay.
    Ok(lines.join("\n"))
}

/// Tells the user that memory records of a deleted session are kept, if there are any.
fn tell_remembered(engine: &Engine, label: &str) -> anyhow::Result<()> {
    let of_session = RecordList {
        session: Some(label.to_owned()),
        ..RecordList::default()
    };
    let kept = engine.store()?.list(&of_session, 0, 1);
    if !kept.map_err(Error::from)?.is_empty() {
        output::say(&format!(
            "memory records of the session are kept; delete them with `contexture memory forget \
             --session {}`",
            output::visible(&contexture_terminal::quoted(label))
        ));
    }
    Ok(())
}
