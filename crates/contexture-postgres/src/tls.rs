//! TLS with rustls. Certificates are always checked.

use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use sha2::{Digest as _, Sha256, Sha384, Sha512};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;

/// Creates connections with TLS.
#[derive(Clone)]
pub(crate) struct Tls {
    config: Arc<ClientConfig>,
}

impl Tls {
    /// Trusts the certificates in the file at `roots`, or the list that
    /// browsers trust.
    pub(crate) fn new(roots: Option<&Path>) -> Result<Self, String> {
        let mut trusted = RootCertStore::empty();
        match roots {
            Some(path) => {
                let failed = |error: &dyn std::fmt::Display| {
                    format!(
                        "cannot read the certificates in {}: {error}",
                        path.display()
                    )
                };
                let found = CertificateDer::pem_file_iter(path).map_err(|error| failed(&error))?;
                for certificate in found {
                    let certificate = certificate.map_err(|error| failed(&error))?;
                    trusted.add(certificate).map_err(|error| failed(&error))?;
                }
                if trusted.is_empty() {
                    return Err(failed(&"there are none"));
                }
            }
            None => trusted.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(trusted)
            .with_no_client_auth();
        Ok(Self {
            config: Arc::new(config),
        })
    }

    /// Returns a session with this host, for a blocking socket.
    pub(crate) fn session(&self, host: &str) -> Result<ClientConnection, String> {
        let name = ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())?;
        ClientConnection::new(Arc::clone(&self.config), name).map_err(|error| error.to_string())
    }
}

/// Returns the hash of the server's certificate that a login can be bound to
/// (`tls-server-end-point` of RFC 5929). `None` if the hash is not defined, because the
/// certificate's signature does not say which hash it is of.
pub(crate) fn end_point(session: &ClientConnection) -> Option<Vec<u8>> {
    hash_of(session.peer_certificates()?.first()?)
}

/// The algorithms of signatures in certificates, in DER.
const RSA: &[u8] = &[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01];
const ECDSA_WITH_SHA1: &[u8] = &[0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x04, 0x01];
const ECDSA_WITH_SHA2: &[u8] = &[0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x04, 0x03];

/// Hashes a certificate with the hash of its signature; SHA-256 in place of MD5 and SHA-1.
fn hash_of(certificate: &[u8]) -> Option<Vec<u8>> {
    // SEQUENCE { the signed content, SEQUENCE { the algorithm, … }, the signature }
    let (certificate_content, _) = element(certificate)?;
    let (_, rest) = element(certificate_content)?;
    let (algorithm, _) = element(rest)?;
    let (algorithm, _) = element(algorithm)?;
    if algorithm == ECDSA_WITH_SHA1 {
        return Some(Sha256::digest(certificate).to_vec());
    }
    let (number, family) = algorithm.split_last()?;
    match (family, number) {
        (RSA, 4 | 5 | 11) | (ECDSA_WITH_SHA2, 2) => Some(Sha256::digest(certificate).to_vec()),
        (RSA, 12) | (ECDSA_WITH_SHA2, 3) => Some(Sha384::digest(certificate).to_vec()),
        (RSA, 13) | (ECDSA_WITH_SHA2, 4) => Some(Sha512::digest(certificate).to_vec()),
        _ => None,
    }
}

/// Returns the content of the first element of DER, and what follows it.
fn element(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&length, rest) = der.get(1..)?.split_first()?;
    let (length, rest) = match length {
        0..=0x7F => (usize::from(length), rest),
        0x81..=0x84 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(length & 0x7F))?;
            let length = |sum: usize, byte: &u8| (sum << 8) | usize::from(*byte);
            (bytes.iter().fold(0, length), rest)
        }
        _ => return None,
    };
    rest.split_at_checked(length)
}

impl<S> MakeTlsConnect<S> for Tls
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Encrypted<S>;
    type TlsConnect = Connect;
    type Error = rustls::pki_types::InvalidDnsNameError;

    fn make_tls_connect(&mut self, host: &str) -> Result<Connect, Self::Error> {
        Ok(Connect {
            name: ServerName::try_from(host.to_owned())?,
            connector: TlsConnector::from(Arc::clone(&self.config)),
        })
    }
}

/// Creates one connection.
pub(crate) struct Connect {
    name: ServerName<'static>,
    connector: TlsConnector,
}

impl<S> TlsConnect<S> for Connect
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Encrypted<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Encrypted<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move {
            let stream = self.connector.connect(self.name, stream).await?;
            Ok(Encrypted(stream))
        })
    }
}

/// A connection with TLS.
pub(crate) struct Encrypted<S>(tokio_rustls::client::TlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Encrypted<S> {
    fn channel_binding(&self) -> ChannelBinding {
        match end_point(self.0.get_ref().1) {
            Some(hash) => ChannelBinding::tls_server_end_point(hash),
            None => ChannelBinding::none(),
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Encrypted<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_read(cx, buf)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Encrypted<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().0).poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_shutdown(cx)
    }
}
