//! `contexture inspect`: a read-only server with the inspector, for one person
//! on this machine.
//!
//! The address has a key after `#`. It is made for this run, is stored nowhere,
//! and stays in the browser: a browser does not send what follows `#`.
//!
//! Without an argument, the newest sessions of other programs on this machine
//! are imported first, so that there is something to see.

use std::path::Path;
use std::process::{Command, Stdio};

use contexture::store::KeyScope;
use contexture::{Timestamp, key};
use contexture_import::{Environment, Import, Options, Report};
use contexture_server::Server;

use crate::args::{InspectArgs, StoreOptions};
use crate::{output, progress, serve, store};

/// The number of files of each place that are imported: the sessions that a
/// person may still have in mind.
const NEWEST: usize = 50;

/// The first bytes of a SQLite file.
const SQLITE: &[u8] = b"SQLite format 3\0";

pub(crate) fn run(args: &InspectArgs) -> anyhow::Result<()> {
    let mut options = StoreOptions::from(&args.options);
    let session = match args.target.as_deref() {
        Some(target) if is_store(Path::new(target)) => {
            options.db = Some(format!("sqlite:{target}"));
            None
        }
        other => other,
    };
    if let Some(label) = session {
        check_session(&options, label)?;
    }
    if args.target.is_none() && options.db.is_none() && !args.no_import {
        import_newest(&options);
    }
    let mut service = serve::service(&options, false)?;
    service.config.server.addr = "127.0.0.1:0".to_owned();
    // The person at the browser is the only caller.
    service.config.server.rate_per_second = 0;
    let (key, _) = key::generate("", KeyScope::Tenant, None, Timestamp::now())?;
    let key = key.as_str().to_owned();
    let runtime = serve::runtime_for(&service.config.server)?;
    let served = runtime.block_on(async {
        let stop = serve::stop_signal(false)?;
        let server = Server::bind_read_only(service, key.clone()).await?;
        let view = session.map(|label| format!("&to=%2Fsession%2F{}", escaped(&escaped(label))));
        let address = format!(
            "http://{}/#key={key}{}",
            server.address(),
            view.unwrap_or_default()
        );
        output::text(&format!("{address}\n"))?;
        if !args.no_browser && !open(&address) {
            output::say("no browser was found; open the address yourself");
        }
        output::say("read-only; press Ctrl-C to stop");
        server.run(stop).await;
        Ok(())
    });
    runtime.shutdown_background();
    served
}

/// Imports the latest changed sessions of this machine. A failure is reported
/// as a warning, because stored sessions can be shown without the import.
fn import_newest(options: &StoreOptions) {
    let environment = Environment::of_process();
    let found: Vec<_> = contexture_import::formats()
        .iter()
        .filter(|format| format.places(&environment).iter().any(|it| it.exists()))
        .collect();
    // No store is made for nothing.
    if found.is_empty() {
        return;
    }
    let work = || -> anyhow::Result<Report> {
        let engine = store::engine_with(options, true, "contexture import")?;
        let mut import = Import::new(
            engine.store()?,
            Options {
                newest: Some(NEWEST),
                max_message_bytes: engine.config().limits.max_message_bytes,
                now: options.now,
                ..Options::default()
            },
        );
        let mut report = Report::default();
        for format in found {
            let done = import.default_places(*format, &environment);
            report.add(done.map_err(crate::import::error)?);
        }
        Ok(report)
    };
    match progress::with_spinner("importing", work) {
        Ok(report) => {
            for error in report.files.iter().filter_map(|file| file.error.as_ref()) {
                output::say(&format!("warning: {}", output::visible(error)));
            }
            if report.counts.turns > 0 {
                let turns = output::many(report.counts.turns, "turn");
                let files = output::many(report.files.len() as u64, "file");
                output::say(&format!("imported {turns} from {files} of this machine"));
            }
        }
        Err(error) => {
            let error = output::visible(&format!("{error:#}"));
            output::say(&format!("warning: nothing was imported: {error}"));
        }
    }
}

/// Returns true if the path names a SQLite file.
fn is_store(path: &Path) -> bool {
    use std::io::Read as _;
    let mut head = [0; SQLITE.len()];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && head == *SQLITE
}

/// Fails if there is no such session, before a browser opens.
fn check_session(options: &StoreOptions, label: &str) -> anyhow::Result<()> {
    let is_file = Path::new(label).is_file();
    let engine = store::engine(options, false)?;
    match engine.store()?.session(label) {
        Ok(_) => Ok(()),
        Err(_) if is_file => Err(output::Usage(format!(
            "{} is neither a session nor a store",
            output::visible(label)
        ))
        .into()),
        Err(error) => Err(contexture::Error::from(error).into()),
    }
}

/// Returns a text for use in an address.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                escaped.push(char::from(byte));
            }
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

/// Opens an address in the browser. Returns false if there is none.
fn open(address: &str) -> bool {
    let run = |command: &str, args: &[&str]| {
        let mut command = Command::new(command);
        command.args(args).arg(address);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(Stdio::null()).status()
    };
    let done = match std::env::consts::OS {
        "macos" => run("open", &[]),
        "windows" => run("cmd", &["/c", "start", ""]),
        _ => {
            let has_display = ["DISPLAY", "WAYLAND_DISPLAY", "BROWSER"];
            if !has_display
                .iter()
                .any(|name| std::env::var_os(name).is_some())
            {
                return false;
            }
            run("xdg-open", &[])
        }
    };
    done.is_ok_and(|status| status.success())
}
