use std::sync::Arc;

use rustls::crypto::ring;
use rustls::server::{ServerConfig, UnbufferedServerConnection, WebPkiClientVerifier};

use crate::client::{Time, WallClock, roots};
use crate::error::{SetupError, TlsError};
use crate::identity::Identity;
use crate::session::{Session, Side};

/// How a server is.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Roots in PEM that the certificates of clients must lead to; none are asked of clients without.
    pub clients: Option<Vec<u8>>,
    /// The protocols that may be spoken inside (ALPN), the preferred one first; any when empty.
    pub protocols: Vec<Vec<u8>>,
    /// The time: clients' certificates are valid for one, and tickets grow old.
    pub wall_clock: WallClock,
}

impl ServerOptions {
    /// One that asks nothing of clients and has no say in what is spoken inside.
    #[must_use]
    pub const fn new(wall_clock: WallClock) -> Self {
        Self {
            clients: None,
            protocols: Vec::new(),
            wall_clock,
        }
    }
}

/// What all connections of a server have in common.
#[derive(Clone, Debug)]
pub struct Server {
    config: Arc<ServerConfig>,
}

impl Server {
    /// One that is `identity`. It speaks TLS 1.3 and 1.2, and lets clients resume.
    ///
    /// # Errors
    /// When the identity or what is in the options can't be used.
    pub fn new(identity: Identity, options: ServerOptions) -> Result<Self, SetupError> {
        let library = |error: rustls::Error| SetupError::Library(error.to_string());
        let provider = Arc::new(ring::default_provider());
        let time = Arc::new(Time(options.wall_clock));
        let builder = ServerConfig::builder_with_details(provider.clone(), time)
            .with_safe_default_protocol_versions()
            .map_err(library)?;
        let builder = match options.clients {
            None => builder.with_no_client_auth(),
            Some(pem) => {
                let roots = Arc::new(roots(&pem)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build();
                let verifier = verifier.map_err(|error| SetupError::Library(error.to_string()))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let Identity { chain, key } = identity;
        let config = builder.with_single_cert(chain, key);
        let mut config = config.map_err(|error| SetupError::Identity(error.to_string()))?;
        config.alpn_protocols = options.protocols;
        Ok(Self {
            config: Arc::new(config),
        })
    }

    /// The server's end of a new connection.
    ///
    /// # Errors
    /// When the machine has no random numbers to give.
    pub fn session(&self) -> Result<Session, TlsError> {
        let connection = UnbufferedServerConnection::new(self.config.clone());
        let connection = connection.map_err(|error| TlsError::new(&error, None))?;
        Ok(Session::new(Side::Server(Box::new(connection)), None))
    }
}
