use crate::words;

/// What kind of thing went wrong on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsErrorKind {
    /// The peer's certificate can't be trusted.
    Certificate,
    /// The peer ended the connection by an alert.
    Alert,
    /// What came is not TLS.
    NotTls,
    /// Anything else: no version or cipher in common, a record that is damaged, rules that were broken.
    Protocol,
}

/// Why a connection is of no use. It must be closed; what [`crate::Session`] gave to send is still to be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TlsError {
    /// For counting.
    pub kind: TlsErrorKind,
    /// Cause and remedy, for a person.
    pub message: String,
}

impl TlsError {
    /// In words. `peer`: the name that was asked for, of a client.
    pub(crate) fn new(error: &rustls::Error, peer: Option<&str>) -> Self {
        let (kind, message) = words::of(error, peer);
        Self { kind, message }
    }

    pub(crate) fn protocol(message: impl Into<String>) -> Self {
        Self {
            kind: TlsErrorKind::Protocol,
            message: message.into(),
        }
    }
}

/// Why no client or server can be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// A text that should hold certificates is damaged.
    #[error("it is not PEM that can be read: {0}")]
    Pem(String),
    /// A text that should hold certificates holds none.
    #[error("it holds no certificate: expected `-----BEGIN CERTIFICATE-----`")]
    NoCertificate,
    /// A text that should hold a private key holds none.
    #[error("it holds no private key: expected `-----BEGIN PRIVATE KEY-----`, unencrypted")]
    NoKey,
    /// Certificate and key can't be used together, or not at all.
    #[error("certificate and private key can't be used: {0}")]
    Identity(String),
    /// A root certificate can't be used.
    #[error("one of its certificates can't be used as a root: {0}")]
    Root(String),
    /// This machine has no roots.
    #[error("no root certificates were found on this machine{0}: name them by --ca-file")]
    NoSystemRoots(String),
    /// What the server is called can't stand in a certificate.
    #[error("`{0}` can be neither a host name nor an address in a certificate")]
    Name(String),
    /// The library can't be used so.
    #[error("TLS can't be set up: {0}")]
    Library(String),
}
