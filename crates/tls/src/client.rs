use std::sync::Arc;

use ridgeline_clock::Nanos;
use rustls::client::{ClientConfig, Resumption, UnbufferedClientConnection, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{ServerName, UnixTime};
use rustls::time_provider::TimeProvider;
use rustls::{ConfigBuilder, RootCertStore, WantsVerifier, WantsVersions};

use crate::error::{SetupError, TlsError};
use crate::identity::{Identity, certificates};
use crate::session::{Session, Side};
use crate::tickets::Tickets;
use crate::verify::{Anyone, Checked};

/// Tells the time since 1970: certificates are valid for a time.
pub type WallClock = fn() -> Nanos;

/// Whose certificates are believed.
#[derive(Clone, Debug)]
pub enum Trust {
    /// Those that lead to a root of this machine's, or of the file that `SSL_CERT_FILE` names.
    System,
    /// Those that lead to one of these, in PEM.
    Only(Vec<u8>),
    /// All: whoever stands in between may pretend to be the server.
    Anyone,
}

/// How a client is.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// Whose certificates are believed.
    pub trust: Trust,
    /// Who it is, for servers that ask.
    pub identity: Option<Identity>,
    /// The protocols that are offered to be spoken inside (ALPN), the preferred one first; none are
    /// offered when empty.
    pub protocols: Vec<Vec<u8>>,
    /// Tickets for resumption kept of a server at the most; the oldest make way.
    pub tickets_max: usize,
    /// The time.
    pub wall_clock: WallClock,
}

impl ClientOptions {
    /// One that trusts the system's roots, says nothing of itself and of what it will speak, and keeps 256
    /// tickets.
    #[must_use]
    pub const fn new(wall_clock: WallClock) -> Self {
        Self {
            trust: Trust::System,
            identity: None,
            protocols: Vec::new(),
            tickets_max: 256,
            wall_clock,
        }
    }
}

/// What all connections to one server have in common.
#[derive(Debug)]
pub struct Client {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    tickets_max: usize,
    is_checked: bool,
}

impl Client {
    /// For a server that is called `name`: a host name, or an address without brackets.
    ///
    /// # Errors
    /// When the name or what is in the options can't be used.
    pub fn new(name: &str, options: ClientOptions) -> Result<Self, SetupError> {
        let server = server_name(name)?;
        let provider = Arc::new(ring::default_provider());
        let is_checked = !matches!(options.trust, Trust::Anyone);
        let versions = versions(provider.clone(), options.wall_clock)?;
        let builder = match options.trust {
            Trust::Anyone => versions
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Anyone::new(&provider))),
            Trust::System => trusting(versions, system_roots()?, provider)?,
            Trust::Only(pem) => trusting(versions, roots(&pem)?, provider)?,
        };
        let mut config = match options.identity {
            None => builder.with_no_client_auth(),
            Some(Identity { chain, key }) => builder
                .with_client_auth_cert(chain, key)
                .map_err(|error| SetupError::Identity(error.to_string()))?,
        };
        config.alpn_protocols = options.protocols;
        config.resumption = Resumption::store(Arc::new(Tickets::new(options.tickets_max)));
        Ok(Self {
            config: Arc::new(config),
            name: server,
            tickets_max: options.tickets_max,
            is_checked,
        })
    }

    /// The same for another server: its tickets are its own.
    ///
    /// # Errors
    /// When the name can't be used.
    pub fn named(&self, name: &str) -> Result<Self, SetupError> {
        let mut config = ClientConfig::clone(&self.config);
        config.resumption = Resumption::store(Arc::new(Tickets::new(self.tickets_max)));
        Ok(Self {
            config: Arc::new(config),
            name: server_name(name)?,
            ..*self
        })
    }

    /// The same for connections that offer other protocols to be spoken inside (ALPN), the best first.
    #[must_use]
    pub fn offering(&self, protocols: Vec<Vec<u8>>) -> Self {
        let mut config = ClientConfig::clone(&self.config);
        config.alpn_protocols = protocols;
        Self {
            config: Arc::new(config),
            name: self.name.clone(),
            ..*self
        }
    }

    /// Whether the server's certificate is checked.
    #[must_use]
    pub fn is_checked(&self) -> bool {
        self.is_checked
    }

    /// The client's end of a new connection.
    ///
    /// # Errors
    /// When the machine has no random numbers to give.
    pub fn session(&self) -> Result<Session, TlsError> {
        let peer = self.name.to_str().into_owned();
        let connection = UnbufferedClientConnection::new(self.config.clone(), self.name.clone());
        let connection = connection.map_err(|error| TlsError::new(&error, Some(&peer)))?;
        Ok(Session::new(
            Side::Client(Box::new(connection)),
            Some(peer.into()),
        ))
    }
}

fn server_name(name: &str) -> Result<ServerName<'static>, SetupError> {
    ServerName::try_from(name.to_owned()).map_err(|_| SetupError::Name(name.to_owned()))
}

/// TLS 1.3 and 1.2, at the time that `wall_clock` tells.
fn versions(
    provider: Arc<CryptoProvider>,
    wall_clock: WallClock,
) -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, SetupError> {
    let time = Arc::new(Time(wall_clock));
    let builder: ConfigBuilder<ClientConfig, WantsVersions> =
        ClientConfig::builder_with_details(provider, time);
    let builder = builder.with_safe_default_protocol_versions();
    builder.map_err(|error| SetupError::Library(error.to_string()))
}

type WantsIdentity = rustls::client::WantsClientCert;

fn trusting(
    builder: ConfigBuilder<ClientConfig, WantsVerifier>,
    roots: RootCertStore,
    provider: Arc<CryptoProvider>,
) -> Result<ConfigBuilder<ClientConfig, WantsIdentity>, SetupError> {
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
    let verifier = verifier.map_err(|error| SetupError::Library(error.to_string()))?;
    let verifier = Arc::new(Checked::new(verifier));
    Ok(builder
        .dangerous()
        .with_custom_certificate_verifier(verifier))
}

/// All certificates of a text in PEM, as roots.
pub(crate) fn roots(pem: &[u8]) -> Result<RootCertStore, SetupError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem)? {
        let added = roots.add(certificate);
        added.map_err(|error| SetupError::Root(error.to_string()))?;
    }
    Ok(roots)
}

/// Those of this machine that can be used: a store may hold some that are too old or odd.
fn system_roots() -> Result<RootCertStore, SetupError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added > 0 {
        return Ok(roots);
    }
    let why = found.errors.first();
    let why = why.map_or_else(String::new, |error| format!(" ({error})"));
    Err(SetupError::NoSystemRoots(why))
}

/// The time, as rustls asks for it.
pub(crate) struct Time(pub(crate) WallClock);

impl std::fmt::Debug for Time {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Time")
    }
}

impl TimeProvider for Time {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch((self.0)().into()))
    }
}
