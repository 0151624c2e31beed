use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};
use ridgeline_clock::{Clock, MonotonicClock, Nanos, realtime_bracket};
use ridgeline_tls::{Identity, Server, ServerOptions};

use crate::run::ServerError;

/// Whether the server speaks TLS, and who it is then.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct SecureArgs {
    /// Speak TLS, as this certificate: PEM, its chain after it
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// The private key of that certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Speak TLS, as a certificate for localhost and the address listened on that is made at the start;
    /// clients trust it by FILE, which is written (`ridgeline bench --ca-file FILE`)
    #[arg(long, value_name = "FILE", conflicts_with = "tls_cert")]
    pub tls_self_signed: Option<PathBuf>,
    /// Ask clients for a certificate that leads to one of these, in PEM; needs one of the above
    #[arg(long, value_name = "FILE")]
    pub tls_client_ca: Option<PathBuf>,
}

impl SecureArgs {
    /// What connections to `host` are secured by; none where they are in the clear.
    ///
    /// # Errors
    /// [`ServerError::Flags`] when a file can't be read, used or written.
    pub fn server(&self, host: IpAddr) -> Result<Option<Server>, ServerError> {
        let (identity, flag) = match (&self.tls_cert, &self.tls_key, &self.tls_self_signed) {
            (Some(chain), Some(key), _) => {
                let (chain, key) = (read("--tls-cert", chain)?, read("--tls-key", key)?);
                let identity = Identity::from_pem(&chain, &key);
                (identity, "--tls-cert, --tls-key")
            }
            (_, _, Some(path)) => (Ok(own(path, host)?), "--tls-self-signed"),
            _ if self.tls_client_ca.is_some() => {
                return Err(ServerError::Flags(
                    "--tls-client-ca is for a server that speaks TLS: pass --tls-cert and --tls-key, \
                     or --tls-self-signed"
                        .to_owned(),
                ));
            }
            _ => return Ok(None),
        };
        let clients = self.tls_client_ca.as_deref();
        let options = ServerOptions {
            clients: clients
                .map(|path| read("--tls-client-ca", path))
                .transpose()?,
            protocols: vec![b"http/1.1".to_vec()],
            ..ServerOptions::new(wall_clock)
        };
        let server = identity.and_then(|identity| Server::new(identity, options));
        let server = server.map_err(|error| ServerError::Flags(format!("{flag}: {error}")));
        server.map(Some)
    }
}

/// Nanoseconds since 1970.
fn wall_clock() -> Nanos {
    MonotonicClock.now() + realtime_bracket().offset
}

fn read(flag: &str, path: &Path) -> Result<Vec<u8>, ServerError> {
    fs::read(path).map_err(|error| {
        ServerError::Flags(format!(
            "{flag} {}: cannot read it: {error}",
            path.display()
        ))
    })
}

/// An authority, written to `path`, and what it issues for a server at `host`.
fn own(path: &Path, host: IpAddr) -> Result<Identity, ServerError> {
    let failed =
        |why: String| ServerError::Flags(format!("--tls-self-signed {}: {why}", path.display()));
    let (root, identity) = issue(host).map_err(|error| failed(error.to_string()))?;
    fs::write(path, root).map_err(|error| failed(format!("cannot write it: {error}")))?;
    let (chain, key) = identity;
    Identity::from_pem(chain.as_bytes(), key.as_bytes()).map_err(|error| failed(error.to_string()))
}

/// The certificate of an authority; and that of a server, and its key: all in PEM.
fn issue(host: IpAddr) -> Result<(String, (String, String)), rcgen::Error> {
    let mut root = CertificateParams::new(Vec::new())?;
    root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    root.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    root.distinguished_name = DistinguishedName::new();
    root.distinguished_name
        .push(DnType::CommonName, "ridgeline mock-server CA");
    let root_key = KeyPair::generate()?;
    let root_pem = root.self_signed(&root_key)?.pem();

    let mut names = vec![
        "localhost".to_owned(),
        "127.0.0.1".to_owned(),
        "::1".to_owned(),
    ];
    let host = host.to_string();
    if !names.contains(&host) {
        names.push(host);
    }
    let mut server = CertificateParams::new(names)?;
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate()?;
    let issued = server.signed_by(&key, &Issuer::new(root, root_key))?;
    Ok((root_pem, (issued.pem(), key.serialize_pem())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_in_the_clear_needs_nothing_and_files_are_named_when_they_fail() {
        let host = IpAddr::from([127, 0, 0, 1]);
        assert!(SecureArgs::default().server(host).unwrap().is_none());
        let missing = Some(PathBuf::from("no/such/file"));
        for (args, part) in [
            (
                SecureArgs {
                    tls_cert: missing.clone(),
                    tls_key: missing.clone(),
                    ..SecureArgs::default()
                },
                "--tls-cert no/such/file",
            ),
            (
                SecureArgs {
                    tls_self_signed: missing.clone(),
                    ..SecureArgs::default()
                },
                "--tls-self-signed no/such/file: cannot write it",
            ),
            (
                SecureArgs {
                    tls_client_ca: missing,
                    ..SecureArgs::default()
                },
                "pass --tls-cert",
            ),
        ] {
            let error = args.server(host).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn what_is_made_can_be_used() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.pem");
        let args = SecureArgs {
            tls_self_signed: Some(path.clone()),
            ..SecureArgs::default()
        };
        let made = args.server(IpAddr::from([10, 0, 0, 1])).unwrap();
        assert!(made.is_some());
        let text = fs::read_to_string(path).unwrap();
        assert!(text.starts_with("-----BEGIN CERTIFICATE-----"));
        assert!(!text.contains("PRIVATE KEY"));
    }
}
