//! Listens for connections, limits their number, and stops gracefully.
//!
//! A server with an address that other machines can reach refuses to start
//! without an API key. On a stop signal it finishes the calls that it accepted.

use std::collections::HashMap;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::http::Request;
use contexture::config::Config;
use contexture::core::cache;
use contexture::core::guard::MarkKey;
use contexture::memory::index_memory;
use contexture::store::Tenants as Stores;
use contexture::{Advice, Error, Timestamp};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tower::Service as _;
use tracing::{info, warn};

use crate::app::App;
use crate::auth::Keys;
use crate::gate::{self, Peer};
use crate::linger::Linger;
use crate::metrics::Metrics;
use crate::reload::{ReadSettings, Reloader};
use crate::router;
use crate::schedule::{BackUp, Schedule};
use crate::tenant::Tenants;

/// The parts that a server is made from.
pub struct Service {
    /// The root directory of the project.
    pub root: PathBuf,
    /// The settings.
    pub config: Config,
    /// The stores of all tenants.
    pub stores: Arc<dyn Stores>,
    /// The metrics that the server updates.
    pub metrics: Arc<Metrics>,
    /// A fixed time for reproducible output. Default: the system clock.
    pub now: Option<Timestamp>,
    /// The secret that boundary marks are derived from, in place of each
    /// tenant's own: for repeatable output.
    pub mark_key: Option<MarkKey>,
    /// Files and directories that no tenant can read, such as the store's.
    pub private: Vec<PathBuf>,
    /// How scheduled backups are made. `None` if the store has none.
    pub back_up: Option<BackUp>,
    /// Reads the settings again, while the server runs.
    pub read_settings: ReadSettings,
}

impl Service {
    fn backup_directory(&self) -> PathBuf {
        self.root.join(&self.config.server.backup_directory)
    }

    pub(crate) fn app(self) -> Result<App, Error> {
        self.app_for(None)
    }

    /// Returns the app. With a key, it is read-only and accepts only that key.
    fn app_for(mut self, key: Option<String>) -> Result<App, Error> {
        self.private.push(self.backup_directory());
        cache::set_limit(self.config.server.cache_bytes);
        index_memory::set_limit(self.config.server.index_bytes);
        let read_only = key.is_some();
        let mut keys = Keys::new(Arc::clone(&self.stores), &self.config.server)?;
        if let Some(key) = key {
            keys = keys.accept_only(key);
        }
        let metrics = Arc::clone(&self.metrics);
        self.stores.watch(Arc::new(move |waited, time| {
            metrics.store_waited(waited, time)
        }));
        let tenants = Tenants::new(
            self.stores,
            &self.root,
            self.config.clone(),
            Arc::clone(&self.metrics),
            self.now,
            self.mark_key,
            &self.private,
        );
        tenants.check_roots()?;
        // Errors in the root or its settings are reported at the start.
        tenants.get("")?;
        let app = App::new(
            self.config.server,
            tenants,
            keys,
            self.metrics,
            &contexture_api::api(),
            read_only,
            self.read_settings,
        );
        if !read_only {
            app.fill_in_vectors();
            app.listen_to_store();
            app.start_sharing_counts();
        }
        Ok(app)
    }
}

/// A server that listens and does not answer yet.
pub struct Server {
    app: App,
    router: Router,
    listener: TcpListener,
    address: SocketAddr,
    // `None` for a server that only reads.
    schedule: Option<Schedule>,
}

impl Server {
    /// Listens on the address in the settings.
    ///
    /// Fails if other machines can reach the address and no API key exists.
    pub async fn bind(service: Service) -> Result<Self, Error> {
        Self::bind_for(service, None).await
    }

    /// Listens like [`bind`](Self::bind), read-only: rejects every operation
    /// that writes, and accepts only calls with `key`.
    pub async fn bind_read_only(service: Service, key: String) -> Result<Self, Error> {
        Self::bind_for(service, Some(key)).await
    }

    async fn bind_for(service: Service, key: Option<String>) -> Result<Self, Error> {
        let wanted = service.config.server.addr.clone();
        let is_read_only = key.is_some();
        let back_up = service.back_up.clone();
        let backup_directory = service.backup_directory();
        let app = service.app_for(key)?;
        let schedule = (!is_read_only).then(|| Schedule {
            app: app.clone(),
            back_up,
            backup_directory,
        });
        let failed = |error: std::io::Error| {
            Error::input(format!("cannot listen on {wanted}: {error}")).advise(Advice::set_to(
                "addr",
                "another address or port, such as 127.0.0.1:8788",
            ))
        };
        let listener = TcpListener::bind(&wanted).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        // Checks the bound address, since a name could resolve differently the
        // next time. No connection was accepted yet.
        if !gate::is_loopback(&address) && !app.keys().required() {
            return Err(Error::input(format!(
                "other machines can reach {wanted}, and no API key exists: anyone could read and \
                 write all data"
            ))
            .advise("create an API key with `contexture key new`")
            .advise(Advice::set_to(
                "addr",
                "a loopback address such as 127.0.0.1:4650",
            )));
        }
        Ok(Self {
            router: router::router(&app),
            app,
            listener,
            address,
            schedule,
        })
    }

    /// Returns the address that the server listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns true if callers need an API key.
    pub fn needs_key(&self) -> bool {
        self.app.keys().required()
    }

    /// Returns what has the server read its settings again.
    pub fn reloader(&self) -> Reloader {
        Reloader(self.app.clone())
    }

    /// Answers requests until `stop` completes, then finishes the accepted ones.
    pub async fn run(mut self, stop: impl Future<Output = ()>) {
        let schedule = self.schedule.take();
        let schedule = schedule.map(|schedule| tokio::spawn(schedule.run()));
        let config = self.app.config();
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(Duration::from_millis(config.header_timeout_ms))
            .max_buf_size(config.max_header_bytes);
        let connections = Arc::new(Semaphore::new(config.max_connections));
        let addresses = Addresses::new(config.max_connections_of_address());
        let graceful = GracefulShutdown::new();
        let mut stop = std::pin::pin!(stop);
        info!(address = %self.address, keys = self.needs_key(), "listening");
        loop {
            // Beyond the limit, connections wait in the system's queue.
            let accepted = async {
                let permit = Arc::clone(&connections).acquire_owned().await;
                (permit, self.listener.accept().await)
            };
            let (permit, accepted) = tokio::select! {
                () = &mut stop => break,
                accepted = accepted => accepted,
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Too many open files, or the client has already disconnected.
                    warn!(%error, "accepting a connection failed");
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    continue;
                }
            };
            let Some(of_address) = addresses.enter(peer.ip()) else {
                self.app.metrics().refused_connections.inc();
                continue;
            };
            // Without Nagle's algorithm, small answers are sent at once.
            let _ = stream.set_nodelay(true);
            let stream = Linger::new(
                stream,
                Duration::from_millis(self.app.config().body_timeout_ms),
            );
            let router = self.router.clone();
            let service = service_fn(move |mut request: Request<Incoming>| {
                request.extensions_mut().insert(Peer(peer));
                // A router is always ready.
                router.clone().call(request)
            });
            let connection = http.serve_connection(TokioIo::new(stream), service);
            let connection = graceful.watch(connection);
            let app = self.app.clone();
            app.metrics().connections.inc();
            tokio::spawn(async move {
                // Ends with an error if the client disconnects or is too slow.
                let _ = connection.await;
                app.metrics().connections.dec();
                drop((permit, of_address));
            });
        }
        info!("stopping");
        if let Some(schedule) = schedule {
            // A run that has begun is in a thread, and is finished.
            schedule.abort();
        }
        drop(self.listener);
        self.app.stop();
        let patience = Duration::from_millis(self.app.config().shutdown_timeout_ms);
        let finished = async {
            graceful.shutdown().await;
            self.app.finished().await;
        };
        match tokio::time::timeout(patience, finished).await {
            Ok(()) => info!("stopped"),
            Err(_) => warn!("stopped after the timeout with unfinished requests"),
        }
        self.app.traces().flush().await;
    }
}

/// The open connections of each address.
#[derive(Clone)]
struct Addresses {
    open: Arc<Mutex<HashMap<IpAddr, usize>>>,
    most: usize,
}

impl Addresses {
    fn new(most: usize) -> Self {
        let open = Arc::default();
        Self { open, most }
    }

    /// Counts a connection until the result is dropped. `None` if the address has
    /// too many.
    fn enter(&self, address: IpAddr) -> Option<OfAddress> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(address).or_default();
        if *count >= self.most {
            return None;
        }
        *count += 1;
        Some(OfAddress {
            addresses: self.clone(),
            address,
        })
    }
}

/// An open connection of an address.
struct OfAddress {
    addresses: Addresses,
    address: IpAddr,
}

impl Drop for OfAddress {
    fn drop(&mut self) {
        let open = self.addresses.open.lock();
        let mut open = open.unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.address);
            }
        }
    }
}
