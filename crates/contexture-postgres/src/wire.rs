//! The socket of one connection: how it is opened, encrypted and authenticated,
//! and messages in both directions.
//!
//! Reads and writes block the thread that uses the connection. No other thread
//! drives it, so that a response wakes only the thread that waits for it.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
#[cfg(unix)]
use std::os::unix::net::UnixStream;
use std::time::Duration;

use bytes::BytesMut;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{
    ChannelBinding, SCRAM_SHA_256, SCRAM_SHA_256_PLUS, ScramSha256,
};
use postgres_protocol::message::frontend;
use rustls::{ClientConnection, StreamOwned};
use socket2::{SockRef, TcpKeepalive};
use tokio_postgres::config::{
    ChannelBinding as Binding, Config, Host, LoadBalanceHosts, TargetSessionAttrs,
};
use tokio_postgres::error::SqlState;

use crate::error::PgError;
use crate::place::DatabaseLocation;
use crate::tls::{Tls, end_point};

/// The number of bytes that are read at a time.
const READ_AT_ONCE: usize = 32 * 1024;

/// The longest accepted message: PostgreSQL sends none that is longer.
const LONGEST_MESSAGE: usize = (1 << 30) + (1 << 20);

enum Socket {
    Tcp(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
    #[cfg(unix)]
    Unix(UnixStream),
}

impl Socket {
    fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        match self {
            Socket::Tcp(socket) => socket.set_nonblocking(nonblocking),
            Socket::Tls(stream) => stream.sock.set_nonblocking(nonblocking),
            #[cfg(unix)]
            Socket::Unix(socket) => socket.set_nonblocking(nonblocking),
        }
    }

    fn set_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Socket::Tcp(socket) => socket.set_read_timeout(timeout),
            Socket::Tls(stream) => stream.sock.set_read_timeout(timeout),
            #[cfg(unix)]
            Socket::Unix(socket) => socket.set_read_timeout(timeout),
        }
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(socket) => socket.read(into),
            Socket::Tls(stream) => stream.read(into),
            #[cfg(unix)]
            Socket::Unix(socket) => socket.read(into),
        }
    }

    /// Returns the hash of the server's certificate that a login can be bound to.
    fn end_point(&self) -> Option<Vec<u8>> {
        match self {
            Socket::Tls(stream) => end_point(&stream.conn),
            _ => None,
        }
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Socket::Tcp(socket) => socket.write_all(bytes),
            Socket::Tls(stream) => {
                stream.write_all(bytes)?;
                stream.flush()
            }
            #[cfg(unix)]
            Socket::Unix(socket) => socket.write_all(bytes),
        }
    }
}

/// A connection that is authenticated.
pub(crate) struct Wire {
    socket: Socket,
    /// The unused bytes that were read: `input[used..]`.
    input: Vec<u8>,
    used: usize,
    /// The number of the process that serves the connection, as the server
    /// reported it. A pooler reports another number.
    pub(crate) process: Option<i32>,
}

/// A message of the server: its tag and the range of its content in the input.
#[derive(Clone, Copy)]
struct Found {
    tag: u8,
    begin: usize,
    end: usize,
}

impl Wire {
    /// Connects to the first host that accepts the connection.
    pub(crate) fn connect(place: &DatabaseLocation) -> Result<Self, PgError> {
        let config = &place.config;
        let (hosts, addresses) = (config.get_hosts(), config.get_hostaddrs());
        let count = hosts.len().max(addresses.len());
        if !hosts.is_empty() && !addresses.is_empty() && hosts.len() != addresses.len() {
            let message = "there are not as many values of `host` as of `hostaddr`";
            return Err(PgError::Io(message.to_owned()));
        }
        if config.get_ports().len() > 1 && config.get_ports().len() != count {
            return Err(PgError::Io(
                "there are not as many ports as hosts".to_owned(),
            ));
        }
        let mut order: Vec<usize> = (0..count).collect();
        if config.get_load_balance_hosts() == LoadBalanceHosts::Random && count > 1 {
            order.rotate_left(random() % count);
        }
        let mut last = None;
        for at in order {
            let ports = config.get_ports();
            let port = ports.get(at).or(ports.first()).copied().unwrap_or(5432);
            let name = match hosts.get(at) {
                Some(Host::Tcp(name)) => Some(name.as_str()),
                _ => None,
            };
            let sockets = match (addresses.get(at), hosts.get(at)) {
                (Some(address), _) => tcp(&address.to_string(), port, config),
                (None, Some(Host::Tcp(name))) => tcp(name, port, config),
                #[cfg(unix)]
                (None, Some(Host::Unix(directory))) => {
                    let path = directory.join(format!(".s.PGSQL.{port}"));
                    vec![UnixStream::connect(path).map(Socket::Unix)]
                }
                (None, None) => Vec::new(),
            };
            for socket in sockets {
                let made = socket
                    .map_err(io_error)
                    .and_then(|socket| Self::begin(socket, name, place));
                match made {
                    Ok(wire) => return Ok(wire),
                    Err(error) => last = Some(error),
                }
            }
        }
        Err(last.unwrap_or_else(|| PgError::Io("no address of the host is known".to_owned())))
    }

    /// Encrypts and authenticates a new connection.
    fn begin(
        socket: Socket,
        host: Option<&str>,
        place: &DatabaseLocation,
    ) -> Result<Self, PgError> {
        let timeout = place.config.get_connect_timeout().copied();
        socket.set_timeout(timeout).map_err(io_error)?;
        let socket = match (socket, &place.tls) {
            (Socket::Tcp(socket), Some(tls)) => encrypt(socket, host.unwrap_or_default(), tls)?,
            (socket, _) => socket,
        };
        let mut wire = Self {
            socket,
            input: Vec::new(),
            used: 0,
            process: None,
        };
        wire.authenticate(&place.config)?;
        wire.check_writable(&place.config)?;
        wire.socket.set_timeout(None).map_err(io_error)?;
        Ok(wire)
    }

    fn authenticate(&mut self, config: &Config) -> Result<(), PgError> {
        let user = config.get_user().map(str::to_owned);
        let user = user.or_else(|| std::env::var("USER").ok());
        let user = user.unwrap_or_else(|| "postgres".to_owned());
        let mut parameters = vec![("client_encoding", "UTF8"), ("user", user.as_str())];
        parameters.extend(config.get_dbname().map(|name| ("database", name)));
        let name = config.get_application_name();
        parameters.extend(name.map(|name| ("application_name", name)));
        let mut out = BytesMut::new();
        frontend::startup_message(parameters, &mut out).map_err(io_error)?;
        self.write(&out)?;
        let password = || {
            let missing =
                || PgError::Io("the server asks for a password; add it to the URL".into());
            config.get_password().ok_or_else(missing)
        };
        let mut scram: Option<ScramSha256> = None;
        // Whether the server has proved that it knows the password.
        let mut is_proved = false;
        let mut unbound = config.get_channel_binding() == Binding::Require;
        let end_point = match config.get_channel_binding() {
            Binding::Disable => None,
            _ => self.socket.end_point(),
        };
        let not_bound = || {
            let message = "channel_binding=require, but the server does not bind logins to its \
                certificate";
            PgError::Io(message.to_owned())
        };
        loop {
            let (tag, body) = self.message()?;
            out.clear();
            match (tag, number(body)) {
                (b'R', Some(0)) if unbound => return Err(not_bound()),
                (b'R', Some(0)) if scram.is_some() && !is_proved => {
                    let message = "the server has not proved that it knows the password";
                    return Err(PgError::Io(message.to_owned()));
                }
                (b'R', Some(0)) => continue,
                // The password is sent only to a server that is bound.
                (b'R', Some(3 | 5)) if unbound => return Err(not_bound()),
                (b'R', Some(3)) => {
                    frontend::password_message(password()?, &mut out).map_err(io_error)?;
                }
                (b'R', Some(5)) => {
                    let salt = body.get(4..8).and_then(|salt| salt.try_into().ok());
                    let salt = salt.ok_or_else(malformed)?;
                    let hash = md5_hash(user.as_bytes(), password()?, salt);
                    frontend::password_message(hash.as_bytes(), &mut out).map_err(io_error)?;
                }
                (b'R', Some(10)) => {
                    let offered = body.get(4..).unwrap_or_default();
                    let offers = |name: &str| {
                        let mut names = offered.split(|byte| *byte == 0);
                        names.any(|offered| offered == name.as_bytes())
                    };
                    let (name, binding) = match &end_point {
                        Some(hash) if offers(SCRAM_SHA_256_PLUS) => {
                            unbound = false;
                            let binding = ChannelBinding::tls_server_end_point(hash.clone());
                            (SCRAM_SHA_256_PLUS, binding)
                        }
                        _ if !offers(SCRAM_SHA_256) => {
                            let message = "the server offers no way to authenticate that is known";
                            return Err(PgError::Io(message.to_owned()));
                        }
                        _ if unbound => return Err(not_bound()),
                        // The server notices if an attacker has removed its offer.
                        Some(_) => (SCRAM_SHA_256, ChannelBinding::unrequested()),
                        None => (SCRAM_SHA_256, ChannelBinding::unsupported()),
                    };
                    let begun = scram.insert(ScramSha256::new(password()?, binding));
                    frontend::sasl_initial_response(name, begun.message(), &mut out)
                        .map_err(io_error)?;
                }
                (b'R', Some(11)) => {
                    let scram = scram.as_mut().ok_or_else(malformed)?;
                    let told = body.get(4..).unwrap_or_default();
                    scram.update(told).map_err(io_error)?;
                    frontend::sasl_response(scram.message(), &mut out).map_err(io_error)?;
                }
                (b'R', Some(12)) => {
                    let scram = scram.as_mut().ok_or_else(malformed)?;
                    let told = body.get(4..).unwrap_or_default();
                    scram.finish(told).map_err(io_error)?;
                    is_proved = true;
                    continue;
                }
                (b'R', _) => {
                    let message = "the server asks for a way to authenticate that is not supported";
                    return Err(PgError::Io(message.to_owned()));
                }
                (b'K', process) => {
                    self.process = process;
                    continue;
                }
                (b'E', _) => return Err(error_of(body)),
                (b'Z', _) => return Ok(()),
                // Settings and notices.
                _ => continue,
            }
            self.write(&out)?;
        }
    }

    /// Fails when the server does not have the `target_session_attrs` of the
    /// URL.
    fn check_writable(&mut self, config: &Config) -> Result<(), PgError> {
        let wanted = config.get_target_session_attrs();
        if wanted == TargetSessionAttrs::Any {
            return Ok(());
        }
        let mut out = BytesMut::new();
        frontend::query("SHOW transaction_read_only", &mut out).map_err(io_error)?;
        self.write(&out)?;
        let mut only_reads = false;
        let mut failed = None;
        loop {
            let (tag, body) = self.message()?;
            match tag {
                // One column: its count, its length and its text.
                b'D' => only_reads = body.get(6..) == Some(b"on".as_slice()),
                b'E' => failed = Some(error_of(body)),
                b'Z' => break,
                _ => {}
            }
        }
        failed.map_or(Ok(()), Err)?;
        match (wanted, only_reads) {
            (TargetSessionAttrs::ReadWrite, true) => {
                Err(PgError::Io("database does not allow writes".to_owned()))
            }
            (TargetSessionAttrs::ReadOnly, false) => {
                Err(PgError::Io("database is not read only".to_owned()))
            }
            _ => Ok(()),
        }
    }

    /// Sends bytes.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), PgError> {
        self.socket.write_all(bytes).map_err(io_error)
    }

    /// Waits for a message of the server: its tag and its content.
    pub(crate) fn message(&mut self) -> Result<(u8, &[u8]), PgError> {
        let found = loop {
            if let Some(found) = self.next()? {
                break found;
            }
            match self.fill() {
                Ok(0) => return Err(PgError::Io("the server closed the connection".to_owned())),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(io_error(error)),
            }
        };
        Ok((found.tag, &self.input[found.begin..found.end]))
    }

    /// Returns a message that has arrived, without waiting.
    pub(crate) fn arrived(&mut self) -> Result<Option<(u8, &[u8])>, PgError> {
        let found = match self.next()? {
            Some(found) => Some(found),
            None => {
                self.socket.set_nonblocking(true).map_err(io_error)?;
                let filled = self.fill();
                self.socket.set_nonblocking(false).map_err(io_error)?;
                match filled {
                    Ok(0) => {
                        return Err(PgError::Io("the server closed the connection".to_owned()));
                    }
                    Ok(_) => self.next()?,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
                    Err(error) => return Err(io_error(error)),
                }
            }
        };
        Ok(found.map(|found| (found.tag, &self.input[found.begin..found.end])))
    }

    /// Returns the next message in the input.
    fn next(&mut self) -> Result<Option<Found>, PgError> {
        let left = &self.input[self.used..];
        let (Some(&tag), Some(length)) = (left.first(), left.get(1..5).and_then(number)) else {
            return Ok(None);
        };
        let length = usize::try_from(length).map_err(|_| malformed())?;
        if !(4..LONGEST_MESSAGE).contains(&length) {
            return Err(malformed());
        }
        if left.len() < length + 1 {
            return Ok(None);
        }
        let begin = self.used + 5;
        let end = self.used + 1 + length;
        self.used = end;
        Ok(Some(Found { tag, begin, end }))
    }

    /// Reads the available bytes, at least one. Returns 0 at the end.
    fn fill(&mut self) -> io::Result<usize> {
        if self.used > 0 {
            self.input.drain(..self.used);
            self.used = 0;
        }
        let kept = self.input.len();
        self.input.resize(kept + READ_AT_ONCE, 0);
        let read = self.socket.read(&mut self.input[kept..]);
        self.input
            .truncate(kept + read.as_ref().copied().unwrap_or(0));
        read
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        // The server then does not log a lost client. Closing must not wait.
        let mut out = BytesMut::new();
        frontend::terminate(&mut out);
        if self.socket.set_nonblocking(true).is_ok() {
            let _ = self.socket.write_all(&out);
        }
    }
}

fn tcp(host: &str, port: u16, config: &Config) -> Vec<io::Result<Socket>> {
    let addresses = match (host.trim_matches(['[', ']']), port).to_socket_addrs() {
        Ok(addresses) => addresses,
        Err(error) => return vec![Err(error)],
    };
    let connect = |address: &std::net::SocketAddr| -> io::Result<Socket> {
        let socket = match config.get_connect_timeout() {
            Some(timeout) => TcpStream::connect_timeout(address, *timeout)?,
            None => TcpStream::connect(address)?,
        };
        socket.set_nodelay(true)?;
        let options = SockRef::from(&socket);
        #[cfg(target_os = "linux")]
        if let Some(timeout) = config.get_tcp_user_timeout() {
            options.set_tcp_user_timeout(Some(*timeout))?;
        }
        if config.get_keepalives() {
            let mut keepalive = TcpKeepalive::new().with_time(config.get_keepalives_idle());
            #[cfg(target_os = "linux")]
            {
                if let Some(interval) = config.get_keepalives_interval() {
                    keepalive = keepalive.with_interval(interval);
                }
                if let Some(retries) = config.get_keepalives_retries() {
                    keepalive = keepalive.with_retries(retries);
                }
            }
            options.set_tcp_keepalive(&keepalive)?;
        }
        Ok(Socket::Tcp(socket))
    };
    // The next address is tried only after the one before was refused.
    let mut made = Vec::new();
    for address in addresses {
        let socket = connect(&address);
        let is_made = socket.is_ok();
        made.push(socket);
        if is_made {
            break;
        }
    }
    made
}

fn encrypt(mut socket: TcpStream, host: &str, tls: &Tls) -> Result<Socket, PgError> {
    let refused =
        |message: String| PgError::Io(format!("error performing TLS handshake: {message}"));
    let mut request = BytesMut::new();
    frontend::ssl_request(&mut request);
    socket.write_all(&request).map_err(io_error)?;
    let mut answer = [0];
    socket.read_exact(&mut answer).map_err(io_error)?;
    if answer != *b"S" {
        return Err(refused("server does not support TLS".to_owned()));
    }
    let mut session = tls.session(host).map_err(refused)?;
    while session.is_handshaking() {
        session
            .complete_io(&mut socket)
            .map_err(|error| refused(error.to_string()))?;
    }
    Ok(Socket::Tls(Box::new(StreamOwned::new(session, socket))))
}

/// Returns a number that differs between processes.
fn random() -> usize {
    use std::hash::{BuildHasher as _, Hasher as _};
    let hasher = std::collections::hash_map::RandomState::new().build_hasher();
    usize::try_from(hasher.finish() >> 1).unwrap_or_default()
}

fn io_error(error: io::Error) -> PgError {
    PgError::Io(error.to_string())
}

fn malformed() -> PgError {
    PgError::Io("the server sent a message that cannot be read".to_owned())
}

/// Returns the number at the start of some bytes.
pub(crate) fn number(bytes: &[u8]) -> Option<i32> {
    let four = bytes.get(..4)?.try_into().ok()?;
    Some(i32::from_be_bytes(four))
}

/// Reads the content of an error message.
pub(crate) fn error_of(body: &[u8]) -> PgError {
    let (mut code, mut message, mut detail) = (String::new(), String::new(), None);
    for field in body.split(|byte| *byte == 0) {
        let Some((kind, text)) = field.split_first() else {
            break;
        };
        let text = String::from_utf8_lossy(text).into_owned();
        match kind {
            b'C' => code = text,
            b'M' => message = text,
            b'D' => detail = Some(text),
            _ => {}
        }
    }
    if let Some(detail) = detail {
        message += &format!(" ({detail})");
    }
    PgError::Database {
        code: SqlState::from_code(&code),
        message,
    }
}
