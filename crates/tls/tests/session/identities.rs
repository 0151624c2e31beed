//! Authorities and what they issue, made for each test.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ED25519, date_time_ymd,
};
use ridgeline_clock::Nanos;
use ridgeline_tls::{Client, ClientOptions, Identity, Server, ServerOptions, Trust};

/// 2030-01-01.
pub(crate) fn now() -> Nanos {
    Nanos::from_secs(1_893_456_000)
}

/// Signatures of Ed25519 have one length, so that conversations have, too.
pub(crate) fn key() -> KeyPair {
    KeyPair::generate_for(&PKCS_ED25519).unwrap()
}

/// Whoever issues certificates.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) pem: String,
}

/// A certificate and its key, in PEM.
pub(crate) struct Issued {
    pub(crate) chain: String,
    pub(crate) key: String,
}

impl Issued {
    pub(crate) fn identity(&self) -> Identity {
        Identity::from_pem(self.chain.as_bytes(), self.key.as_bytes()).unwrap()
    }
}

/// What a server's certificate says, valid from 2020 to 2040.
pub(crate) fn params(names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2040, 1, 1);
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    params
}

pub(crate) fn authority(name: &str) -> CertificateParams {
    let mut params = params(&[]);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params.extended_key_usages = Vec::new();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let (params, key) = (authority(name), key());
        let pem = params.self_signed(&key).unwrap().pem();
        Self {
            issuer: Issuer::new(params, key),
            pem,
        }
    }

    pub(crate) fn issue(&self, params: &CertificateParams) -> Issued {
        let key = key();
        Issued {
            chain: params.signed_by(&key, &self.issuer).unwrap().pem(),
            key: key.serialize_pem(),
        }
    }

    /// An authority below this one, and its certificate.
    pub(crate) fn below(&self, name: &str) -> Self {
        let (params, key) = (authority(name), key());
        let pem = params.signed_by(&key, &self.issuer).unwrap().pem();
        Self {
            issuer: Issuer::new(params, key),
            pem,
        }
    }

    /// A client that trusts this authority alone.
    pub(crate) fn client(&self, name: &str) -> Client {
        Client::new(name, self.options()).unwrap()
    }

    pub(crate) fn options(&self) -> ClientOptions {
        ClientOptions {
            trust: Trust::Only(self.pem.clone().into_bytes()),
            ..ClientOptions::new(now)
        }
    }

    /// A server called `localhost`.
    pub(crate) fn server(&self) -> Server {
        let identity = self.issue(&params(&["localhost"])).identity();
        Server::new(identity, ServerOptions::new(now)).unwrap()
    }
}
