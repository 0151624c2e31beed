//! Certificates that are their own roots, and foreign servers that are secured by them.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, SupportedProtocolVersion};

/// A certificate that is its own root, and its key, as files.
pub(crate) struct Own {
    _keep: tempfile::TempDir,
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

/// What a certificate for `name` says, issued by whoever is called so.
pub(crate) fn params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

impl Own {
    pub(crate) fn new(params: &CertificateParams) -> Self {
        let keep = tempfile::tempdir().unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let (path, key_path) = (keep.path().join("own.pem"), keep.path().join("own.key"));
        fs::write(&path, certificate.pem()).unwrap();
        fs::write(&key_path, key.serialize_pem()).unwrap();
        Self {
            _keep: keep,
            certificate: path,
            key: key_path,
        }
    }

    pub(crate) fn named(name: &str) -> Self {
        Self::new(&params(name))
    }

    /// What makes connections to a foreign server this one's, by rustls: it chooses among these protocols.
    pub(crate) fn acceptor(
        &self,
        versions: &[&'static SupportedProtocolVersion],
        protocols: &[&str],
    ) -> TlsAcceptor {
        let certificate = CertificateDer::from_pem_file(&self.certificate).unwrap();
        let key = PrivateKeyDer::from_pem_file(&self.key).unwrap();
        let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap();
        let config = builder
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key);
        let mut config = config.unwrap();
        let names = protocols.iter().map(|name| name.as_bytes().to_vec());
        config.alpn_protocols = names.collect();
        TlsAcceptor::from(Arc::new(config))
    }
}
