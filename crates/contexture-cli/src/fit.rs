//! `contexture fit`: makes a provider's request fit into a number of tokens.

use contexture::{FitOptions, Root};
use contexture_terminal::report;

use crate::args::FitArgs;
use crate::{output, store};

pub(crate) fn run(args: &FitArgs) -> anyhow::Result<()> {
    let root = Root::open(&args.root)?;
    let mut engine = store::engine_of(&root)?;
    if args.session.is_some() {
        let place = store::find(&root, engine.config(), args.db.as_deref())?;
        engine = engine.with_store(place.open()?);
    }
    let body = output::read_bytes(&args.file)?;
    let options = FitOptions {
        session: args.session.clone(),
        from: args.from.clone(),
        to: args.to,
        model: args.model.clone(),
        max_tokens: args.max_tokens,
        reserve_response: args.reserve_response,
        fail_on_cache_break: args.fail_on_cache_break,
        now: args.now,
    };
    let fitted = engine.fit(&root, &body, &options)?;
    match args.explain {
        true => output::say(&report::table(&fitted.assembled, output::width())),
        false => {
            let warnings = &fitted.assembled.report.warnings;
            warnings.iter().for_each(output::warn);
        }
    }
    match fitted.is_changed {
        true => {
            let mut fitted = fitted.body;
            fitted.truncate(fitted.trim_end().len());
            fitted.push('\n');
            output::bytes(fitted.as_bytes())
        }
        false => output::bytes(&body),
    }
}
