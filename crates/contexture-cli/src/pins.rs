//! `contexture session pin`, `pins` and `unpin`: texts that stay in every
//! request of a session.

use contexture::store::SessionPin;
use contexture::{Engine, PinRequest};
use serde_json::json;

use crate::args::{PinArgs, StoreOptions};
use crate::session::{plain, short, show, table, turn_at};
use crate::{output, store};

/// The most characters of a text in the list.
const LONGEST: usize = 60;

/// Pins what the arguments name.
pub(crate) fn pin(args: &PinArgs, options: &StoreOptions) -> anyhow::Result<()> {
    // Input is read before a store is touched.
    let mut request = PinRequest {
        name: args.name.clone(),
        text: args.text.clone(),
        ..PinRequest::default()
    };
    if let Some(file) = &args.file {
        request.text = Some(output::read_text(file)?);
        let is_stdin = file.as_os_str() == "-";
        request.origin = (!is_stdin).then(|| format!("file {}", file.display()));
    }
    let engine = store::engine(options, false)?;
    if let Some(turn) = &args.turn {
        request.turn = Some(turn_at(&engine, &args.label, turn)?);
    }
    let pin = engine.pin(&args.label, &request, options.now)?;
    let told = match pin.revision {
        1 => format!("pinned {} to session {}", pin.name, args.label),
        number => format!(
            "replaced pin {} of session {}: revision {number}",
            pin.name, args.label
        ),
    };
    show(options, &pin, &told)
}

/// Lists the pins of a session, or the revisions of one.
pub(crate) fn list(
    engine: &Engine,
    options: &StoreOptions,
    label: &str,
    name: Option<&str>,
) -> anyhow::Result<()> {
    let pins = match name {
        Some(name) => engine.pin_revisions(label, name)?,
        None => engine.pins(label)?,
    };
    if options.json {
        return output::text(&format!("{:#}\n", json!(pins)));
    }
    if pins.is_empty() {
        return output::text(&format!("session {label} has no pins\n"));
    }
    let mut rows = table(&["pin", "revision", "created", "from", "text"], &[1]);
    for pin in &pins {
        rows.add_row([
            output::visible(&pin.name),
            pin.revision.to_string(),
            format!("{:.0}", pin.created_at),
            output::visible(pin.origin.as_deref().unwrap_or_default()),
            shown(pin),
        ]);
    }
    output::text(&plain(&rows))
}

fn shown(pin: &SessionPin) -> String {
    match &pin.text {
        Some(text) => output::visible(&short(text, LONGEST)),
        None => "(removed)".to_owned(),
    }
}
