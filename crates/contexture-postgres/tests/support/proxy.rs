//! A proxy between a store and its server, whose connections can be cut.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

/// A proxy in front of the server of a URL.
pub(crate) struct Proxy {
    server: String,
    port: u16,
    pub(crate) cuts: Arc<Cuts>,
}

/// When connections are cut.
#[derive(Default)]
pub(crate) struct Cuts {
    /// At once.
    pub(crate) all: AtomicBool,
    /// When the server has committed, before its answer arrives.
    pub(crate) commits: AtomicBool,
    /// Before the statements that insert a turn reach the server.
    pub(crate) turns: AtomicBool,
    /// New connections, when they are made.
    pub(crate) new: AtomicBool,
    /// The number of connections that were made.
    pub(crate) connections: AtomicUsize,
}

/// Returns the host and the port in a URL.
fn host_of(url: &str) -> &str {
    let host = url.split('@').nth(1).unwrap();
    host.split('/').next().unwrap()
}

impl Proxy {
    pub(crate) fn start(url: &str) -> Self {
        let server = host_of(url).to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let cuts = Arc::new(Cuts::default());
        let proxy = Self {
            server: server.clone(),
            port,
            cuts: Arc::clone(&cuts),
        };
        thread::spawn(move || {
            for client in listener.incoming() {
                cuts.connections.fetch_add(1, Ordering::AcqRel);
                if cuts.new.load(Ordering::Acquire) {
                    continue;
                }
                let (client, server) = (client.unwrap(), TcpStream::connect(&server).unwrap());
                pass_on(&client, &server, Arc::clone(&cuts), true);
                pass_on(&server, &client, Arc::clone(&cuts), false);
            }
        });
        proxy
    }

    /// Returns the URL with the proxy in place of the server.
    pub(crate) fn url(&self, url: &str) -> String {
        url.replace(&self.server, &format!("127.0.0.1:{}", self.port))
    }
}

fn pass_on(from: &TcpStream, to: &TcpStream, cuts: Arc<Cuts>, requests: bool) {
    let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
    thread::spawn(move || {
        let mut part = [0; 65536];
        while let Ok(read @ 1..) = from.read(&mut part) {
            let part = &part[..read];
            let holds = |word: &[u8]| part.windows(word.len()).any(|it| it == word);
            let cut = match requests {
                true => cuts.turns.load(Ordering::Acquire) && holds(b"INSERT INTO turns"),
                // The answer to COMMIT begins with the name of the command.
                false => cuts.commits.load(Ordering::Acquire) && holds(b"COMMIT\0"),
            };
            if cut || cuts.all.load(Ordering::Acquire) || to.write_all(part).is_err() {
                break;
            }
        }
        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
    });
}
