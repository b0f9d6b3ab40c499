//! `contexture serve` and `contexture mcp`: serve over HTTP, and over standard
//! input and output.

use std::io::IsTerminal as _;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use contexture::config::{Config, FILE, ServerConfig};
use contexture::trust::{self, Settings, Trust, TrustFile};
use contexture::{Advice, Error, Operation, Root};
use contexture_server::{Metrics, Reloader, Server, Service, ToolList};

use crate::args::{ListedTools, McpArgs, ServeArgs, StoreOptions};
use crate::{output, store};

/// The number of threads besides those for requests, model calls and streams,
/// which have one each: a few for background work.
const MORE_THREADS: usize = 16;

pub(crate) fn serve(args: &ServeArgs) -> anyhow::Result<()> {
    let mut service = service(&StoreOptions::from(&args.options), true)?;
    if let Some(addr) = &args.addr {
        service.config.server.addr = addr.clone();
        let (read, addr) = (service.read_settings, addr.clone());
        service.read_settings = Arc::new(move || {
            let mut config = read()?;
            config.server.addr.clone_from(&addr);
            Ok(config)
        });
    }
    contexture_server::log(&service.config.server.log);
    allow_connections(service.config.server.max_connections);
    let runtime = runtime_for(&service.config.server)?;
    let served = runtime.block_on(async {
        let stop = stop_signal(args.stop_with_stdin)?;
        let mut hang_up = HangUp::new()?;
        let server = Server::bind(service).await?;
        print_address(server.address(), server.needs_key());
        let reloader = server.reloader();
        let stop = async {
            tokio::select! {
                () = stop => {}
                () = hang_up.reload_until_terminal_is_closed(&reloader) => {}
            }
        };
        server.run(stop).await;
        Ok(())
    });
    // Work that is still running has exceeded its time to finish.
    runtime.shutdown_background();
    served
}

pub(crate) fn mcp(args: &McpArgs) -> anyhow::Result<()> {
    let service = service(&StoreOptions::from(&args.options), true)?;
    let tools = match args.tools {
        ListedTools::Core => ToolList::Core,
        ListedTools::All => ToolList::All,
    };
    // Standard output belongs to the protocol.
    runtime(MORE_THREADS)?
        .block_on(contexture_server::mcp_stdio(service, tools))
        .map_err(Into::into)
}

/// Returns the parts of a server. With `make`, the store is created if it does
/// not exist.
pub(crate) fn service(options: &StoreOptions, make: bool) -> anyhow::Result<Service> {
    let config = settings(&options.root)?.config;
    let root = options.root.clone();
    let (stores, back_up) = store::for_server(options, make)?;
    Ok(Service {
        root: options.root.clone(),
        config,
        stores,
        metrics: Arc::new(Metrics::default()),
        now: options.now,
        mark_key: store::mark_key(),
        private: store::private_files(options)?,
        back_up,
        read_settings: Arc::new(move || reload_settings(&root)),
    })
}

const BACKUPS: &str = "server.backup_directory";

/// Reads the settings of a root, and those of the environment. Fails if backups
/// would be written through a link that no one trusted.
fn settings(root: &Path) -> Result<Settings, Error> {
    // Opening the store warns about what is inactive.
    let root = Root::open(root)?;
    let mut settings = Settings::read(&root, &TrustFile::of_user())?;
    let backups = settings.config.server.backup_directory.clone();
    let variables = std::env::vars_os().filter_map(|(name, value)| {
        // A variable that is not UTF-8 is not one of ours.
        Some((name.into_string().ok()?, value.into_string().ok()?))
    });
    settings.config.server = settings.config.server.with_environment(variables)?;
    let server = &settings.config.server;
    let is_set = server.backup_directory != backups;
    let is_active = (settings.active.iter()).any(|one| one.setting == BACKUPS);
    if server.backup_interval_minutes > 0
        && !is_set
        && !is_active
        && let Some(link) = root.link_out(&backups)
    {
        let link = output::visible(&root.path().join(link).display().to_string());
        let message = format!("{BACKUPS}: {link} is a symbolic link that leads out of the root");
        return Err(Error::input(message)
            .at(BACKUPS)
            .advise("set another directory, or remove the link"));
    }
    Ok(settings)
}

/// Reads the settings while a server runs. Fails if settings would become inactive
/// because the file has changed since it was trusted.
fn reload_settings(root: &Path) -> Result<Config, Error> {
    let settings = settings(root)?;
    match settings.trust {
        Trust::Changed => Err(Error::input(format!(
            "{FILE} changed since you trusted it: {} would become inactive",
            trust::names(&settings.inactive)
        ))
        .advise(Advice::call(Operation::TrustSettings))),
        _ => Ok(settings.config),
    }
}

/// Returns a runtime with as many threads as a server of these settings needs.
pub(crate) fn runtime_for(limits: &ServerConfig) -> Result<tokio::runtime::Runtime, Error> {
    runtime(limits.max_concurrent + limits.max_model_calls + limits.max_streams() + MORE_THREADS)
}

fn runtime(threads: usize) -> Result<tokio::runtime::Runtime, Error> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(threads)
        .build()
        .map_err(|error| Error::input(format!("cannot start: {error}")))
}

/// The number of open files besides connections: those of the store and files
/// being read.
const MORE_FILES: u64 = 512;

/// Raises the limit on open files to the maximum number of connections. Shells
/// often start with a limit of about a thousand, and allow more.
#[cfg(unix)]
fn allow_connections(connections: usize) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let now = getrlimit(Resource::Nofile);
    let wanted = connections as u64 + MORE_FILES;
    let most = now.maximum.unwrap_or(u64::MAX);
    if now.current.is_none_or(|current| current >= wanted) {
        return;
    }
    let limits = Rlimit {
        current: Some(wanted.min(most)),
        ..now
    };
    // Without this, connections above the limit wait until others close.
    if setrlimit(Resource::Nofile, limits).is_err() || wanted > most {
        output::say(&format!(
            "warning: the system allows {most} open files, too few for `max_connections` = \
             {connections}"
        ));
    }
}

#[cfg(not(unix))]
fn allow_connections(_: usize) {}

/// Prints the address of the server, and whether it requires a key.
fn print_address(address: SocketAddr, needs_key: bool) {
    output::say(&format!(
        "serving on http://{address} (inspector at /, docs at /docs, MCP at /mcp)"
    ));
    output::say(match needs_key {
        true => {
            "authentication is on: clients must send an API key; create one with `contexture \
                 key new`"
        }
        false => {
            "authentication is off: any local process can read and write all data; run \
             `contexture key new` to require an API key"
        }
    });
    if std::io::stderr().is_terminal() {
        output::say("press Ctrl-C to stop");
    }
}

/// Completes when the process gets a stop signal or, with `or_stdin`, when
/// standard input ends. A second signal exits at once.
pub(crate) fn stop_signal(or_stdin: bool) -> Result<impl Future<Output = ()>, Error> {
    let mut signals = Signals::new()?;
    Ok(async move {
        match or_stdin {
            true => tokio::select! {
                () = signals.next() => {}
                () = end_of_stdin() => {}
            },
            false => signals.next().await,
        }
        output::say(
            "stopping after the open requests; press Ctrl-C again, or repeat the signal, \
                     to stop at once",
        );
        tokio::spawn(async move {
            signals.next().await;
            std::process::exit(1);
        });
    })
}

/// Completes when standard input ends. A read of standard input cannot be
/// cancelled, so it has a thread of its own, which ends with the process.
async fn end_of_stdin() {
    let (ended, wait) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        // An input that cannot be read has ended, too.
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        let _ = ended.send(());
    });
    let _ = wait.await;
}

/// The signals that ask a process to stop.
#[cfg(unix)]
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> Result<Self, Error> {
        use tokio::signal::unix::{SignalKind, signal};
        let failed = |error| Error::input(format!("cannot handle signals: {error}"));
        Ok(Self {
            terminate: signal(SignalKind::terminate()).map_err(failed)?,
            interrupt: signal(SignalKind::interrupt()).map_err(failed)?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// SIGHUP, which has a server read its settings again. A terminal that is closed
/// sends it, too: then the server stops.
#[cfg(unix)]
struct HangUp {
    signal: tokio::signal::unix::Signal,
    had_terminal: bool,
}

#[cfg(unix)]
impl HangUp {
    fn new() -> Result<Self, Error> {
        use tokio::signal::unix::{SignalKind, signal};
        let failed = |error| Error::input(format!("cannot handle signals: {error}"));
        Ok(Self {
            signal: signal(SignalKind::hangup()).map_err(failed)?,
            had_terminal: has_terminal(),
        })
    }

    async fn reload_until_terminal_is_closed(&mut self, reloader: &Reloader) {
        while self.signal.recv().await.is_some() {
            if self.had_terminal && !has_terminal() {
                return;
            }
            let reloader = reloader.clone();
            // The log reports the result.
            let _ = tokio::task::spawn_blocking(move || reloader.reload()).await;
        }
        std::future::pending().await
    }
}

/// Returns true if the process has a controlling terminal.
#[cfg(unix)]
fn has_terminal() -> bool {
    std::fs::File::open("/dev/tty").is_ok()
}

#[cfg(not(unix))]
struct HangUp;

#[cfg(not(unix))]
impl HangUp {
    fn new() -> Result<Self, Error> {
        Ok(Self)
    }

    async fn reload_until_terminal_is_closed(&mut self, _: &Reloader) {
        std::future::pending().await
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> Result<Self, Error> {
        Ok(Self)
    }

    async fn next(&mut self) {
        let _ = tokio::signal::ctrl_c().await;
    }
}
