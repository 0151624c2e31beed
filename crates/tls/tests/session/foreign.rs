//! The other end of a session: rustls's buffered connections.

use std::io::{Read, Write};
use std::sync::Arc;

use ridgeline_tls::{Scratch, Session, TlsError};
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::time_provider::TimeProvider;
use rustls::{
    ClientConfig, ClientConnection, Connection, RootCertStore, ServerConfig, ServerConnection,
    SupportedProtocolVersion,
};

use crate::identities::{Authority, Issued, now, params};

#[derive(Debug)]
struct Time;

impl TimeProvider for Time {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(now().into()))
    }
}

pub(crate) type Versions = &'static [&'static SupportedProtocolVersion];

pub(crate) const VERSIONS: [Versions; 2] = [&[&rustls::version::TLS13], &[&rustls::version::TLS12]];

/// One end that nobody here wrote.
pub(crate) struct Foreign {
    pub(crate) connection: Connection,
    /// What it was told.
    pub(crate) heard: Vec<u8>,
}

pub(crate) fn server_config(issued: &Issued, versions: Versions) -> Arc<ServerConfig> {
    let chain = CertificateDer::pem_slice_iter(issued.chain.as_bytes());
    let chain = chain.collect::<Result<Vec<_>, _>>().unwrap();
    let key = PrivateKeyDer::from_pem_slice(issued.key.as_bytes()).unwrap();
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_details(provider, Arc::new(Time));
    let builder = builder.with_protocol_versions(versions).unwrap();
    let config = builder.with_no_client_auth().with_single_cert(chain, key);
    Arc::new(config.unwrap())
}

impl Foreign {
    /// A server called `localhost`.
    pub(crate) fn server(authority: &Authority, versions: Versions) -> Self {
        let issued = authority.issue(&params(&["localhost"]));
        Self::serving(&server_config(&issued, versions))
    }

    pub(crate) fn serving(config: &Arc<ServerConfig>) -> Self {
        let connection = ServerConnection::new(config.clone()).unwrap();
        Self::of(connection.into())
    }

    /// A client of `localhost`.
    pub(crate) fn client(authority: &Authority, versions: Versions) -> Self {
        let mut roots = RootCertStore::empty();
        let root = CertificateDer::from_pem_slice(authority.pem.as_bytes()).unwrap();
        roots.add(root).unwrap();
        let provider = Arc::new(ring::default_provider());
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone());
        let builder = ClientConfig::builder_with_details(provider, Arc::new(Time));
        let config = builder
            .with_protocol_versions(versions)
            .unwrap()
            .with_webpki_verifier(verifier.build().unwrap())
            .with_no_client_auth();
        let name = ServerName::try_from("localhost").unwrap();
        let connection = ClientConnection::new(Arc::new(config), name).unwrap();
        Self::of(connection.into())
    }

    fn of(connection: Connection) -> Self {
        Self {
            connection,
            heard: Vec::new(),
        }
    }

    /// Takes bytes in.
    pub(crate) fn hear(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.connection.read_tls(&mut bytes).unwrap() == 0 {
                return;
            }
            let state = self.connection.process_new_packets().unwrap();
            let mut plain = vec![0; state.plaintext_bytes_to_read()];
            self.connection.reader().read_exact(&mut plain).unwrap();
            self.heard.extend_from_slice(&plain);
        }
    }

    /// Says something, as far as its buffer has room: all of what these tests say.
    pub(crate) fn say(&mut self, plain: &[u8]) {
        self.connection.set_buffer_limit(None);
        self.connection.writer().write_all(plain).unwrap();
    }

    /// What it has to send.
    pub(crate) fn sends(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        while self.connection.wants_write() {
            self.connection.write_tls(&mut out).unwrap();
        }
        out
    }
}

/// A session and what it was told.
pub(crate) struct Own {
    pub(crate) session: Session,
    pub(crate) scratch: Scratch,
    pub(crate) heard: Vec<u8>,
    pub(crate) out: Vec<u8>,
}

impl Own {
    pub(crate) fn new(session: Session) -> Self {
        let mut own = Self {
            session,
            scratch: Scratch::default(),
            heard: Vec::new(),
            out: Vec::new(),
        };
        own.session.begin(&mut own.out).unwrap();
        own
    }

    pub(crate) fn hear(&mut self, bytes: &[u8]) -> Result<(), TlsError> {
        let read = self
            .session
            .received(bytes, &mut self.scratch, &mut self.out);
        self.heard.extend_from_slice(self.scratch.plain());
        read
    }

    pub(crate) fn sends(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }
}

/// Shakes hands.
pub(crate) fn shake(own: &mut Own, foreign: &mut Foreign) {
    for _ in 0..6 {
        foreign.hear(&own.sends());
        own.hear(&foreign.sends()).unwrap();
    }
    assert!(own.session.is_ready() && !foreign.connection.is_handshaking());
}
