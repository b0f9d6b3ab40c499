//! Listening: connections, their limits, and stopping.

use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use contexture::config::Config;
use contexture::core::cache;
use contexture::core::guard::MarkKey;
use contexture::store::Tenants as Stores;
use contexture::{Advice, Error, Timestamp};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tracing::{info, warn};

use crate::app::App;
use crate::auth::Keys;
use crate::gate;
use crate::linger::Linger;
use crate::metrics::Metrics;
use crate::router;
use crate::tenant::Tenants;

/// What a server serves.
pub struct Service {
    /// The directory of the project.
    pub root: PathBuf,
    /// Its settings.
    pub config: Config,
    /// Where everything is kept.
    pub stores: Arc<dyn Stores>,
    /// What is measured.
    pub metrics: Arc<Metrics>,
    /// The clock, when it is to stand still: for repeatable output.
    pub now: Option<Timestamp>,
    /// The secret that boundary marks are derived from, in place of each
    /// tenant's own: for repeatable output.
    pub mark_key: Option<MarkKey>,
}

impl Service {
    pub(crate) fn app(self) -> Result<App, Error> {
        cache::set_limit(self.config.server.cache_bytes);
        let keys = Keys::new(Arc::clone(&self.stores), &self.config.server)?;
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
        );
        // What is wrong with the root or its settings is told now.
        tenants.get("")?;
        Ok(App::new(
            self.config.server,
            tenants,
            keys,
            self.metrics,
            &router::api(),
        ))
    }
}

/// A server that listens, and has not begun to answer.
pub struct Server {
    app: App,
    router: Router,
    listener: TcpListener,
    address: SocketAddr,
}

impl Server {
    /// Listens on the address in the settings.
    ///
    /// Fails when others could reach it and it has no keys.
    pub async fn bind(service: Service) -> Result<Self, Error> {
        let wanted = service.config.server.addr.clone();
        let app = service.app()?;
        let failed = |error: std::io::Error| {
            Error::input(format!("cannot listen on {wanted}: {error}")).advise(Advice::set_to(
                "addr",
                "another address or port, such as 127.0.0.1:8788",
            ))
        };
        let listener = TcpListener::bind(&wanted).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        // Of the address itself, not of a name that may lead elsewhere the next
        // time. Nobody was let in yet.
        if !gate::is_loopback(&address) && !app.keys().required() {
            return Err(Error::input(format!(
                "{wanted} can be reached by others, and there is no key: anybody could read and \
                 write everything"
            ))
            .advise("create an API key with `contexture key new`")
            .advise(Advice::set_to(
                "addr",
                "a loopback address such as 127.0.0.1:8787",
            )));
        }
        Ok(Self {
            router: router::router(&app),
            app,
            listener,
            address,
        })
    }

    /// Returns the address that is listened on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns true when callers need a key.
    pub fn needs_key(&self) -> bool {
        self.app.keys().required()
    }

    /// Answers requests until `stop` is done; then finishes what was accepted.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let config = self.app.config().clone();
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(Duration::from_millis(config.header_timeout_ms))
            .max_buf_size(config.max_header_bytes);
        let connections = Arc::new(Semaphore::new(config.max_connections));
        let graceful = GracefulShutdown::new();
        let mut stop = std::pin::pin!(stop);
        info!(address = %self.address, keys = self.needs_key(), "listening");
        loop {
            // Who is one too many waits outside until somebody leaves.
            let accepted = async {
                let permit = Arc::clone(&connections).acquire_owned().await;
                (permit, self.listener.accept().await)
            };
            let (permit, accepted) = tokio::select! {
                () = &mut stop => break,
                accepted = accepted => accepted,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // No more files can be opened, or the caller is gone already.
                    warn!(%error, "a connection was not accepted");
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    continue;
                }
            };
            let connection = self.connection(&http, stream);
            let connection = graceful.watch(connection);
            let app = self.app.clone();
            app.metrics().connections.inc();
            tokio::spawn(async move {
                // It ends with an error when the caller hangs up or is too slow.
                let _ = connection.await;
                app.metrics().connections.dec();
                drop(permit);
            });
        }
        info!("stopping");
        drop(self.listener);
        self.app.stop();
        let patience = Duration::from_millis(config.shutdown_timeout_ms);
        let finished = async {
            graceful.shutdown().await;
            self.app.finished().await;
        };
        match tokio::time::timeout(patience, finished).await {
            Ok(()) => info!("stopped"),
            Err(_) => warn!("stopped before all requests were finished"),
        }
    }

    fn connection(
        &self,
        http: &http1::Builder,
        stream: TcpStream,
    ) -> http1::Connection<TokioIo<Linger>, TowerToHyperService<Router>> {
        // Small answers must not wait for more.
        let _ = stream.set_nodelay(true);
        let service = TowerToHyperService::new(self.router.clone());
        let patience = Duration::from_millis(self.app.config().body_timeout_ms);
        let stream = Linger::new(stream, patience);
        http.serve_connection(TokioIo::new(stream), service)
    }
}
