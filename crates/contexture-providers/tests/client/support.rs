//! An HTTP/1.1 server that follows a script, one reply for each connection.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::Value;

/// The behaviour of the server for one connection.
#[derive(Clone)]
pub(crate) struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    manner: Manner,
}

#[derive(Clone, Copy)]
enum Manner {
    /// Sends everything, with its length.
    Whole,
    /// Sends the body in two chunks, without its length.
    Chunked,
    /// Sends the body without its length and closes.
    UntilClosed,
    /// Waits before it sends.
    Late(Duration),
    /// Sends one byte at a time, status line included.
    Dribbled(Duration),
    /// Sends the head, then the body without its length, byte by byte.
    DribbledUntilClosed(Duration),
    /// Promises the whole body, sends this much, and closes.
    CutAfter(usize),
    /// Sends the body over and over.
    Endless,
    /// Reads the request and closes.
    Closed,
    /// Reads the request and sends nothing.
    Silent,
    /// Accepts the connection and takes a sip of the request now and then.
    Sipping,
    /// Sends the body without any head, before it has read anything.
    Raw,
}

impl Reply {
    pub(crate) fn new(status: u16, body: impl Into<Vec<u8>>) -> Reply {
        Reply {
            status,
            headers: Vec::new(),
            body: body.into(),
            manner: Manner::Whole,
        }
    }

    pub(crate) fn json(status: u16, body: Value) -> Reply {
        Reply::new(status, body.to_string()).header("content-type", "application/json")
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Reply {
        self.headers.push((name.into(), value.into()));
        self
    }

    pub(crate) fn chunked(self) -> Reply {
        self.in_manner(Manner::Chunked)
    }

    pub(crate) fn until_closed(self) -> Reply {
        self.in_manner(Manner::UntilClosed)
    }

    pub(crate) fn late(self, delay: Duration) -> Reply {
        self.in_manner(Manner::Late(delay))
    }

    pub(crate) fn dribbled(self, pause: Duration) -> Reply {
        self.in_manner(Manner::Dribbled(pause))
    }

    pub(crate) fn dribbled_until_closed(self, pause: Duration) -> Reply {
        self.in_manner(Manner::DribbledUntilClosed(pause))
    }

    pub(crate) fn cut_after(self, bytes: usize) -> Reply {
        self.in_manner(Manner::CutAfter(bytes))
    }

    pub(crate) fn endless(self) -> Reply {
        self.in_manner(Manner::Endless)
    }

    pub(crate) fn closed() -> Reply {
        Reply::new(200, "").in_manner(Manner::Closed)
    }

    pub(crate) fn silent() -> Reply {
        Reply::new(200, "").in_manner(Manner::Silent)
    }

    pub(crate) fn sipping() -> Reply {
        Reply::new(200, "").in_manner(Manner::Sipping)
    }

    pub(crate) fn raw(bytes: &str) -> Reply {
        Reply::new(200, bytes).in_manner(Manner::Raw)
    }

    fn in_manner(mut self, manner: Manner) -> Reply {
        self.manner = manner;
        self
    }
}

/// A request as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// The first line.
    pub(crate) line: String,
    /// Names in lower case, in the order of arrival.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(header, _)| header == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// A server on a free port of this machine; it ends when it is dropped.
///
/// A connection beyond the script is closed at once, and is still counted.
pub(crate) struct Server {
    address: SocketAddr,
    seen: Arc<Seen>,
    accepting: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Seen {
    connections: Mutex<usize>,
    requests: Mutex<Vec<Request>>,
    stopped: AtomicBool,
}

impl Server {
    pub(crate) fn start(script: Vec<Reply>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Seen::default());
        let shared = Arc::clone(&seen);
        let accepting = thread::spawn(move || {
            let mut script = script.into_iter();
            for stream in listener.incoming() {
                if shared.stopped.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                *shared.connections.lock().unwrap() += 1;
                let Some(reply) = script.next() else { continue };
                let shared = Arc::clone(&shared);
                // The client may disconnect at any time, which ends the
                // exchange with an error that the test ignores.
                thread::spawn(move || drop(serve(&stream, &reply, &shared)));
            }
        });
        Server {
            address,
            seen,
            accepting: Some(accepting),
        }
    }

    /// Returns an address where nothing listens.
    pub(crate) fn nowhere() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn connections(&self) -> usize {
        *self.seen.connections.lock().unwrap()
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.seen.requests.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.seen.stopped.store(true, Ordering::SeqCst);
        // The listener waits for a connection, so it gets one.
        let _ = TcpStream::connect(self.address);
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

fn serve(mut stream: &TcpStream, reply: &Reply, seen: &Seen) -> io::Result<()> {
    if let Manner::Sipping = reply.manner {
        let mut sip = [0; 4096];
        while !seen.stopped.load(Ordering::SeqCst) && stream.read(&mut sip)? > 0 {
            thread::sleep(Duration::from_millis(5));
        }
        return Ok(());
    }
    if let Manner::Raw = reply.manner {
        stream.write_all(&reply.body)?;
        // Closing with the request unread would break the connection, and the
        // client might not get to see what was sent.
        return io::copy(&mut stream, &mut io::sink()).map(drop);
    }
    let request = read_request(stream)?;
    seen.requests.lock().unwrap().push(request);
    let mut head = format!("HTTP/1.1 {} Scripted\r\n", reply.status);
    for (name, value) in &reply.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    let sized = format!("{head}content-length: {}\r\n\r\n", reply.body.len());
    let open = format!("{head}\r\n");
    match reply.manner {
        Manner::Whole => {
            stream.write_all(sized.as_bytes())?;
            stream.write_all(&reply.body)?;
        }
        Manner::Chunked => {
            write!(stream, "{head}transfer-encoding: chunked\r\n\r\n")?;
            let (first, second) = reply.body.split_at(reply.body.len() / 2);
            for chunk in [first, second] {
                write!(stream, "{:x}\r\n", chunk.len())?;
                stream.write_all(chunk)?;
                stream.write_all(b"\r\n")?;
            }
            stream.write_all(b"0\r\n\r\n")?;
        }
        Manner::UntilClosed => {
            stream.write_all(open.as_bytes())?;
            stream.write_all(&reply.body)?;
        }
        Manner::Late(delay) => {
            thread::sleep(delay);
            stream.write_all(sized.as_bytes())?;
            stream.write_all(&reply.body)?;
        }
        Manner::Dribbled(pause) => {
            let bytes = [sized.as_bytes(), &reply.body].concat();
            dribble(stream, &bytes, pause, seen)?;
        }
        Manner::DribbledUntilClosed(pause) => {
            stream.write_all(open.as_bytes())?;
            dribble(stream, &reply.body, pause, seen)?;
        }
        Manner::CutAfter(bytes) => {
            stream.write_all(sized.as_bytes())?;
            stream.write_all(&reply.body[..bytes])?;
        }
        Manner::Endless => {
            stream.write_all(open.as_bytes())?;
            while !seen.stopped.load(Ordering::SeqCst) {
                stream.write_all(&reply.body)?;
            }
        }
        Manner::Closed => {}
        // Returns when the client has had enough.
        Manner::Silent => drop(stream.read(&mut [0])?),
        Manner::Sipping | Manner::Raw => {}
    }
    stream.shutdown(Shutdown::Write)
}

fn dribble(mut stream: &TcpStream, bytes: &[u8], pause: Duration, seen: &Seen) -> io::Result<()> {
    for byte in bytes {
        if seen.stopped.load(Ordering::SeqCst) {
            break;
        }
        stream.write_all(&[*byte])?;
        thread::sleep(pause);
    }
    Ok(())
}

fn read_request(stream: &TcpStream) -> io::Result<Request> {
    let mut reader = BufReader::new(stream);
    let mut line = || -> io::Result<String> {
        let mut line = String::new();
        match reader.read_line(&mut line)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(line.trim_end().to_owned()),
        }
    };
    let first = line()?;
    let mut headers = Vec::new();
    loop {
        let line = line()?;
        let Some((name, value)) = line.split_once(':') else {
            break;
        };
        headers.push((name.to_lowercase(), value.trim().to_owned()));
    }
    let mut request = Request {
        line: first,
        headers,
        body: String::new(),
    };
    let length = request.header("content-length");
    let length = length.and_then(|length| length.parse().ok()).unwrap_or(0);
    reader.take(length).read_to_string(&mut request.body)?;
    Ok(request)
}
