//! Notifies other servers that a tenant has new events, and receives their
//! notifications.
//!
//! One thread has its own connection, with `LISTEN`. Hints are collected for a
//! moment and sent outside the transactions that stored the events: `NOTIFY` in
//! a transaction makes all commits of the database wait for each other. A lost
//! hint is harmless, because readers also poll. A pooler in transaction mode
//! delivers no hints; set `migration_url` to connect without the pooler.

use std::collections::BTreeSet;
use std::pin::pin;
use std::time::Duration;

use contexture_store::EventHint;
use futures_util::StreamExt as _;
use futures_util::future::{Either, select};
use futures_util::stream::{BoxStream, poll_fn};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Error, NoTls};

use crate::place::DatabaseLocation;

/// The time for which hints are collected before they are sent.
const COLLECT: Duration = Duration::from_millis(20);

/// How long to wait before reconnecting.
const RETRY: Duration = Duration::from_secs(1);

/// The thread that sends and receives hints. It ends when this is dropped.
pub(crate) struct Hints(UnboundedSender<String>);

impl Hints {
    /// Starts the thread. If it cannot start, no hints are sent.
    pub(crate) fn start(place: DatabaseLocation, woken: EventHint) -> Self {
        let (sender, receiver) = unbounded_channel();
        let run = move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            if let Ok(runtime) = runtime {
                runtime.block_on(exchange(&place, receiver, &woken));
            }
        };
        drop(
            std::thread::Builder::new()
                .name("hints".to_owned())
                .spawn(run),
        );
        Self(sender)
    }

    /// Notifies other servers that a tenant has new events.
    pub(crate) fn send(&self, tenant: &str) {
        // Without the thread, no other server is notified.
        let _ = self.0.send(tenant.to_owned());
    }
}

/// Returns the channel of a schema. Its name is short enough for PostgreSQL.
fn channel(schema: &str) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in schema.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("contexture_{hash:016x}")
}

async fn exchange(
    place: &DatabaseLocation,
    mut outgoing: UnboundedReceiver<String>,
    woken: &EventHint,
) {
    while !outgoing.is_closed() {
        // A failed connection is replaced. Readers poll meanwhile.
        if serve(place, &mut outgoing, woken).await.is_ok() {
            return;
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// Exchanges hints until the store is closed. Fails when the connection fails.
async fn serve(
    place: &DatabaseLocation,
    outgoing: &mut UnboundedReceiver<String>,
    woken: &EventHint,
) -> Result<(), Error> {
    let (client, messages) = connect(place).await?;
    let (told, mut incoming) = unbounded_channel();
    // The task drives the connection, also while the client waits for a
    // response.
    let driver = tokio::spawn(receive(messages, told));
    let channel = channel(&place.schema);
    client.batch_execute(&format!("LISTEN {channel}")).await?;
    loop {
        let next = {
            let (received, to_send) = (pin!(incoming.recv()), pin!(outgoing.recv()));
            match select(received, to_send).await {
                Either::Left((hint, _)) => Either::Left(hint),
                Either::Right((hint, _)) => Either::Right(hint),
            }
        };
        let first = match next {
            Either::Left(Some(tenant)) => {
                woken(&tenant);
                continue;
            }
            Either::Left(None) => return driver.await.unwrap_or(Ok(())),
            Either::Right(Some(first)) => first,
            // The store is closed.
            Either::Right(None) => {
                driver.abort();
                return Ok(());
            }
        };
        tokio::time::sleep(COLLECT).await;
        let mut tenants = BTreeSet::from([first]);
        while let Ok(tenant) = outgoing.try_recv() {
            tenants.insert(tenant);
        }
        for tenant in tenants {
            let values: [(&(dyn ToSql + Sync), Type); 2] =
                [(&channel, Type::TEXT), (&tenant, Type::TEXT)];
            client
                .query_typed("SELECT pg_notify($1, $2)", &values)
                .await?;
        }
    }
}

/// Forwards the names of tenants until the connection ends.
async fn receive(
    mut messages: BoxStream<'static, Result<AsyncMessage, Error>>,
    told: UnboundedSender<String>,
) -> Result<(), Error> {
    while let Some(message) = messages.next().await {
        if let AsyncMessage::Notification(hint) = message?
            && told.send(hint.payload().to_owned()).is_err()
        {
            break;
        }
    }
    Ok(())
}

type Messages = BoxStream<'static, Result<AsyncMessage, Error>>;

async fn connect(place: &DatabaseLocation) -> Result<(Client, Messages), Error> {
    Ok(match &place.tls {
        Some(tls) => {
            let (client, mut connection) = place.config.connect(tls.clone()).await?;
            (
                client,
                poll_fn(move |cx| connection.poll_message(cx)).boxed(),
            )
        }
        None => {
            let (client, mut connection) = place.config.connect(NoTls).await?;
            (
                client,
                poll_fn(move |cx| connection.poll_message(cx)).boxed(),
            )
        }
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_channel_is_short_for_every_schema() {
        let long = super::channel(&"x".repeat(63));
        assert!(long.len() < 63);
        assert_ne!(long, super::channel("contexture"));
    }
}
