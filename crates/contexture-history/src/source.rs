//! The source `history`: reads the session and compacts it when the request
//! would be too long.

use std::sync::Arc;

use contexture_core::{Assembly, Code, Fit, Marker, Role, Tokens, UnofferedRange};
use contexture_engine::assembled::{bare, sent_name};
use contexture_engine::snapshot::Saved;
use contexture_engine::source::{Account, Facts, Scope};
use contexture_engine::{
    Advice, Ask, Concept, EngineBuilder, Error, Offer, Operation, Outcome, Parameter,
    ParameterKind, Source, StaleResults, Warning,
};
use contexture_store::{Session, Trigger, TurnId};

use crate::compaction::{Attempt, Compacted, Flight, Plan};
use crate::history::{Clearing, History, Reader, ResultLimits, SUMMARY_NAME, Target, TurnCache};
use crate::messages::MessagesSource;
use crate::pins::{PinsShown, PinsSource, SHOWN};
use crate::session::Sessions;

/// An answer that may have fewer tokens than this is likely to be cut off.
const LITTLE_ROOM: Tokens = 512;

/// The text before a window that does not hold all of the history.
pub(crate) const LEFT_OUT: &str =
    "[Earlier steps of this conversation are left out of this request.]";

/// The maximum number of attempts to compact while other writers change the
/// session.
const MOST_COMPACTIONS: usize = 4;

/// Registers the sources `history`, `messages` and `pins`.
pub fn register(builder: EngineBuilder) -> EngineBuilder {
    builder
        .source(HistorySource)
        .source(MessagesSource)
        .source(PinsSource)
}

/// Offers the tail of a conversation: the latest summary, and the turns after
/// it.
struct HistorySource;

/// The state of one request's history during assembly.
#[derive(Default)]
struct Progress {
    // The session as it was read last; compaction moves its head.
    session: Option<Arc<Session>>,
    // Whether the summary of older turns is left out because it does not fit.
    without_summary: bool,
    // Whether the user's latest message is always kept, even if messages around
    // it are left out.
    pins_question: bool,
    // Whether pinning the message did not help.
    question_failed: bool,
    // The blocks of the user's latest message.
    question: Vec<Arc<str>>,
    turns_since_summary: u64,
    // Stale tool results, and whether all of them are cleared.
    stale: Option<StaleResults>,
    clears_stale: bool,
    // The oldest turn that was read, and the turn of the summary.
    made_of: Vec<TurnId>,
    compactions: usize,
    compacted: Option<Compacted>,
    is_settled: bool,
    // Whether the provider resumes the latest turn when it is sent back.
    is_paused: bool,
}

/// The reason why history must be summarised, and the tokens to reach.
struct CompactionNeed {
    trigger: Trigger,
    // The tokens of everything but history.
    fixed: Tokens,
    // The tokens available to the request, if history has a limit of its own.
    room: Tokens,
    // The percentage of the available tokens to reduce the request to.
    target: Option<f64>,
}

impl Source for HistorySource {
    fn name(&self) -> &str {
        "history"
    }

    fn parameters(&self) -> &[Parameter] {
        const PARAMETERS: &[Parameter] = &[Parameter::new(
            "session",
            ParameterKind::Text,
            "The session's label or alias. Default: the request's.",
        )];
        PARAMETERS
    }

    fn concept(&self) -> Concept {
        Concept::History
    }

    fn is_immediate(&self) -> bool {
        true
    }

    fn needs_store(&self, scope: &Scope<'_>) -> bool {
        scope.session_label().is_some()
    }

    fn resolve(&self, scope: &Scope<'_>, facts: &mut Facts) -> Result<(), Error> {
        facts.is_agent = true;
        match scope.session()? {
            Some(session) => {
                // An alias is resolved to its session.
                facts.label.get_or_insert_with(|| session.label.clone());
                facts.parent_turn = facts.parent_turn.or(session.head);
                // The recorded message is read from the saved request.
                facts.records_current = scope.engine.config().snapshots.keep;
                scope.state::<Progress>()?.lock().session = Some(session);
            }
            None => scope.warn(
                Warning::new(
                    "no_session",
                    "no session is named, so the request has no history",
                )
                .advise(Advice::set("session")),
            ),
        }
        Ok(())
    }

    fn gather(&self, ask: &Ask<'_>) -> Result<Offer, Error> {
        let known = ask.state::<Progress>()?;
        let mut progress = known.lock();
        let Some(session) = progress.session.clone() else {
            return Ok(Offer::default());
        };
        let mut fit = ask.layer.fit.clone();
        let min_recent = match &fit {
            Fit::Path(path) => path.min_recent,
            _ => ask.engine.config().compaction.keep_turns,
        };
        let cache = ask.engine.shared::<TurnCache>();
        let reader = Reader {
            store: ask.engine.ledger()?,
            cache: &cache,
            counts: ask.counts,
            policy: ask.policy,
            target: Target {
                provider: ask.model.provider,
                format: ask.request.format,
            },
            results: ResultLimits::of(ask.engine.config(), ask.budget.window()),
            available: ask.budget.available(),
            min_recent,
            with_summary: !progress.without_summary,
            pins_question: progress.pins_question,
            has_unique_ids: ask.request.given.is_of_session,
        };
        let mut history = reader.read(&session)?;
        let config = ask.engine.config();
        let most = ask.budget.available() as f64 * config.compaction.threshold / 100.0;
        let same_model = |previous: &&Saved| previous.model() == sent_name(ask.model);
        let clearing = Clearing {
            settings: &config.tool_results,
            counts: ask.counts,
            previous: ask.previous.filter(same_model),
            prices: ask.model.prices,
            most: most as Tokens,
            is_forced: progress.clears_stale,
        };
        progress.made_of = (history.heads.first().map(|head| head.id).into_iter())
            .chain(history.latest.as_ref().map(|latest| latest.id))
            .collect();
        progress.stale = clearing.clear(&mut history.items);
        if let Fit::Path(path) = &mut fit
            && let Some(anchor) = &mut path.anchor
        {
            anchor.start = window_start(ask, &history, min_recent);
            // A marker states that steps are omitted, and makes the request
            // begin with the user.
            let mut marker = Marker::new("earlier step", Role::User);
            // The same from request to request, so that the cache stays valid.
            marker.text = Some(LEFT_OUT.into());
            marker.is_required = true;
            path.marker = Some(marker);
            path.unseen = (history.unread > 0).then_some(UnofferedRange {
                at: 0,
                count: history.unread,
            });
        }
        let summarised = history.latest.as_ref().map_or(0, |latest| latest.depth);
        progress.turns_since_summary = session.turns.saturating_sub(summarised);
        progress.question = history.question;
        progress.is_paused = history.is_paused;
        if let Some(call) = history.waiting.first() {
            ask.warn(Warning::new(
                "call_without_result",
                format!(
                    "tool call `{call}` of the latest turn has no result, and the request says \
                     so; record the result first, as a message of role tool"
                ),
            ));
        }
        Ok(Offer {
            items: history.items,
            excluded: history.unsent,
            fit: Some(fit),
            keeps_parts: true,
            ..Offer::default()
        })
    }

    fn revise(&self, ask: &Ask<'_>, outcome: &Outcome<'_>) -> Result<Option<Offer>, Error> {
        let known = ask.state::<Progress>()?;
        if self.has_changed(ask, outcome, &mut known.lock())? {
            return self.gather(ask).map(Some);
        }
        Ok(None)
    }

    fn account(&self, ask: &Ask<'_>, account: &mut Account<'_>) -> Result<(), Error> {
        let known = ask.state::<Progress>()?;
        let mut progress = known.lock();
        if let Some(session) = &progress.session {
            *account.parent_turn = session.head;
            *account.made_of = Some(progress.made_of.clone());
            warn_of_unseen_pins(ask, &session.label)?;
        }
        *account.continues |= progress.is_paused;
        account.report.stale_results = progress.stale;
        if let Some(compacted) = progress.compacted.take() {
            account.details.insert(compacted);
        }
        let spare = ask.budget.window() - account.report.budget.used;
        if spare < LITTLE_ROOM {
            ask.warn(
                Warning::new(
                    "little_room",
                    format!("only {spare} tokens of the window remain for the answer"),
                )
                .advise(Advice::set("reserve_response")),
            );
        }
        Ok(())
    }
}

/// Warns if the session has pins and no layer of the request shows them.
fn warn_of_unseen_pins(ask: &Ask<'_>, label: &str) -> Result<(), Error> {
    if ask.peek::<PinsShown>(SHOWN).is_some() || ask.engine.ledger()?.pins(label)?.is_empty() {
        return Ok(());
    }
    ask.warn(
        Warning::new(
            "pins_not_sent",
            format!(
                "session `{label}` has pins, but recipe `{}` has no layer for them",
                ask.recipe.name
            ),
        )
        .advise("add a layer with `source: pins` and `place: history` before the history"),
    );
    Ok(())
}

/// Returns the start of the window over history if it must stay the same as in
/// the previous request: for the same model, whose cache is used, if there are
/// not more tokens available than before, and while the window contains the
/// latest turns.
fn window_start(ask: &Ask<'_>, history: &History, min_recent: usize) -> Option<Arc<str>> {
    let previous = ask.previous?;
    let room = ask.budget.window() - ask.budget.reserve_response();
    if previous.model() != sent_name(ask.model) || previous.available() < room {
        return None;
    }
    let before = || previous.history(&ask.layer.name);
    let (first, _) = before().next()?;
    let stood = Some(&**first).filter(|id| id.starts_with(SUMMARY_NAME));
    if stood != history.summary_name() {
        return None;
    }
    // A summary and a question that is kept in any case have no group.
    let start = before().find(|(_, group)| group.is_some());
    let start = Arc::clone(start?.0);
    history.holds_latest(&start, min_recent).then_some(start)
}

impl HistorySource {
    /// Decides what to do about an outcome. Returns true when history is to be
    /// read again.
    fn has_changed(
        &self,
        ask: &Ask<'_>,
        outcome: &Outcome<'_>,
        progress: &mut Progress,
    ) -> Result<bool, Error> {
        let Some(assembly) = outcome.assembly() else {
            if progress.pins_question {
                (progress.pins_question, progress.question_failed) = (false, true);
                return Ok(true);
            }
            // A summary that was made for a larger window can be dropped: a
            // smaller one can be made of it.
            let over = outcome.error().is_some_and(|error| error.is_over_budget());
            let may = over && progress.session.is_some() && !progress.without_summary;
            progress.without_summary |= may;
            return Ok(may);
        };
        if self.compacts(ask, outcome, assembly, progress)? {
            return Ok(true);
        }
        // Without a summary, the user's latest message must not be lost.
        let mut dropped = assembly.report.excluded.iter();
        let is_question = |id: &str| progress.question.iter().any(|block| **block == *id);
        let lacks_question =
            dropped.any(|row| *row.layer == *ask.layer.name && is_question(&row.id));
        if lacks_question && !progress.pins_question && !progress.question_failed {
            progress.pins_question = true;
            return Ok(true);
        }
        Ok(false)
    }

    /// Summarises history if the request needs that. Returns true when history
    /// is to be read again.
    fn compacts(
        &self,
        ask: &Ask<'_>,
        outcome: &Outcome<'_>,
        assembly: &Assembly,
        progress: &mut Progress,
    ) -> Result<bool, Error> {
        if ask.is_preview() || progress.is_settled || progress.compactions >= MOST_COMPACTIONS {
            return Ok(false);
        }
        let Some(need) = needs_compaction(ask, outcome, progress) else {
            progress.is_settled = true;
            return Ok(false);
        };
        // Stale results are cleared before anything is summarised, if that frees
        // enough for more than the next requests.
        let enough = ask.budget.available() / 4;
        let is_worth = |stale: StaleResults| stale.cleared < stale.stale && stale.tokens >= enough;
        if need.trigger == Trigger::ContextLimit
            && !progress.clears_stale
            && progress.stale.is_some_and(is_worth)
        {
            progress.clears_stale = true;
            return Ok(true);
        }
        progress.compactions += 1;
        let system = bare(&assembly.layout.system, assembly.layout.mark);
        if !self.compact(ask, &need, &system, progress)? {
            progress.is_settled = true;
            return Ok(false);
        }
        (progress.without_summary, progress.pins_question) = (false, false);
        progress.question_failed = false;
        progress.is_settled = progress.compacted.is_some();
        Ok(true)
    }

    /// Summarises the older part of a history. Returns false when nothing
    /// changed.
    fn compact(
        &self,
        ask: &Ask<'_>,
        need: &CompactionNeed,
        system: &str,
        progress: &mut Progress,
    ) -> Result<bool, Error> {
        let Some(session) = progress.session.clone() else {
            return Ok(false);
        };
        let Some(head) = session.head else {
            return Ok(false);
        };
        let available = ask.budget.available().min(need.room);
        let cache = ask.engine.shared::<TurnCache>();
        if cache.is_incompressible(head, available) {
            return Ok(false);
        }
        let ledger = ask.engine.ledger()?;
        let flight = Flight::begin(head);
        let now = ledger.session(&session.label)?;
        if now.head != session.head {
            // Another request summarised it meanwhile.
            progress.session = Some(Arc::new(now));
            return Ok(true);
        }
        let plan = Plan {
            session: &session,
            trigger: need.trigger,
            focus: None,
            available,
            fixed: need.fixed,
            target: need.target,
            system,
            now: ask.now,
        };
        let sessions = Sessions::new(ask.engine);
        let attempt = sessions.compactor(ledger, ask.counts).compact(&plan);
        drop(flight);
        match attempt {
            Ok(Attempt::Compacted(compacted)) => {
                for warning in &compacted.warnings {
                    ask.warn(warning.clone());
                }
                ask.warn(told(ask, need, &compacted, &session.label));
                progress.session = Some(Arc::new(ledger.session(&session.label)?));
                progress.compacted = Some(*compacted);
                Ok(true)
            }
            Ok(Attempt::Nothing(_)) => {
                cache.remember_incompressible(head, available);
                Ok(false)
            }
            Err(error) => {
                let now = ledger.session(&session.label)?;
                if now.head != session.head {
                    // Another writer recorded or summarised meanwhile: continue
                    // from there.
                    progress.session = Some(Arc::new(now));
                    return Ok(true);
                }
                // The window still keeps the request within its budget.
                ask.warn(Warning::new(
                    "not_compacted",
                    format!("history could not be summarised: {error}"),
                ));
                Ok(false)
            }
        }
    }
}

/// Returns the reason why history must be summarised before the request is
/// sent, or `None` if it need not be.
fn needs_compaction(
    ask: &Ask<'_>,
    outcome: &Outcome<'_>,
    progress: &Progress,
) -> Option<CompactionNeed> {
    let config = &ask.engine.config().compaction;
    let has_turns = progress.session.as_ref()?.head.is_some();
    if !config.enabled || !ask.layer.compact || !has_turns {
        return None;
    }
    let assembly = outcome.assembly()?;
    let available = ask.budget.available();
    let threshold = (available as f64 * config.threshold / 100.0) as Tokens;
    let is_lack = |code: Code| matches!(code, Code::OVER_BUDGET | Code::BEFORE_WINDOW);
    let mut dropped = assembly.report.excluded.iter();
    let cut_off = dropped.any(|row| *row.layer == *ask.layer.name && is_lack(row.code));
    let unread = outcome.not_offered().any(|row| is_lack(row.code));
    let layer = outcome.layer_budget()?;
    let fixed = assembly.report.budget.used - layer.used;
    let room = fixed + layer.allowed;
    // If the rest alone uses most of the budget, summarising a turn or two at a
    // time would move the prefix with each request and gain nothing.
    let over = assembly.report.budget.used > threshold && layer.used > (available - fixed) / 4;
    if over || cut_off || unread {
        return Some(CompactionNeed {
            trigger: Trigger::ContextLimit,
            fixed,
            room,
            target: Some(config.target_of(available)),
        });
    }
    let due = config
        .every_turns
        .filter(|every| progress.turns_since_summary >= *every);
    due.map(|_| CompactionNeed {
        trigger: Trigger::Periodic,
        fixed,
        room,
        target: None,
    })
}

fn told(ask: &Ask<'_>, need: &CompactionNeed, compacted: &Compacted, label: &str) -> Warning {
    let why = match need.trigger {
        Trigger::Periodic => "it was due (compaction.every_turns)".to_owned(),
        _ => format!(
            "the request would take more than {} % of the budget",
            ask.engine.config().compaction.threshold
        ),
    };
    let steps = match compacted.steps {
        1 => "1 step was".to_owned(),
        steps => format!("{steps} steps were"),
    };
    let message = format!(
        "{steps} summarised, {} tokens became {} ({}): {why}",
        compacted.tokens_before, compacted.tokens_after, compacted.summariser,
    );
    Warning::new("history_compacted", message)
        .advise(Advice::call_on(Operation::UndoCompaction, label))
}
