//! What connections to an endpoint behind TLS are secured by: trust, and who the client is.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use ridgeline_tls::{Client, ClientOptions, Identity, SetupError, Trust};

use crate::complaint::Complaint;
use crate::config::BenchConfig;
use crate::http::HttpVersion;
use crate::url::{BaseUrl, Place};
use crate::{folder, setup};

/// The largest file of certificates.
const PEM_BYTES_MAX: u64 = 16 << 20;

/// The flags, for commands that have no configuration of a run.
#[derive(Args, Clone, Debug)]
pub(crate) struct SecureArgs {
    /// Of an https:// URL: certificates in PEM that the server's must lead to, in place of this machine's roots
    #[arg(long, help_heading = "Endpoint", value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// Certificate of this client in PEM, for servers that ask for one; its chain after it
    #[arg(long, help_heading = "Endpoint", value_name = "FILE")]
    client_cert: Option<PathBuf>,
    /// Private key of that certificate in PEM [default: in the same file]
    #[arg(long, help_heading = "Endpoint", value_name = "FILE")]
    client_key: Option<PathBuf>,
    /// Do not check the server's certificate: whoever stands in between may pretend to be it
    #[arg(long, help_heading = "Endpoint")]
    insecure: bool,
}

impl SecureArgs {
    /// `config` with these in place.
    pub(crate) fn over(&self, config: BenchConfig) -> BenchConfig {
        BenchConfig {
            ca_file: self.ca_file.clone(),
            client_cert: self.client_cert.clone(),
            client_key: self.client_key.clone(),
            insecure: self.insecure.then_some(true),
            ..config
        }
    }
}

/// What secures connections to each of `bases`; none where they are in the clear. Touches no network.
pub(crate) fn clients(
    config: &BenchConfig,
    bases: &[&BaseUrl],
) -> Result<Vec<Option<Arc<Client>>>, Complaint> {
    let first = bases.iter().find_map(|base| Some((*base, host(base)?)));
    let Some((base, name)) = first else {
        return match named(config) {
            Some(flag) => Err(Complaint::new(format!(
                "{flag} is for endpoints behind TLS: write the URL as https://HOST, or leave it out"
            ))),
            None => Ok(vec![None; bases.len()]),
        };
    };
    let first = client(config, base, name)?;
    let of = |base: &&BaseUrl| {
        let named = host(base).map(|name| first.named(name).map(Arc::new));
        named.transpose().map_err(|error| unusable(base, &error))
    };
    bases.iter().map(of).collect()
}

/// The name of a server that is spoken to through TLS.
fn host(base: &BaseUrl) -> Option<&str> {
    match &base.place {
        Place::Tcp { host, .. } if base.is_secure() => Some(host),
        Place::Tcp { .. } | Place::Unix(_) => None,
    }
}

fn unusable(base: &BaseUrl, error: &SetupError) -> Complaint {
    Complaint::new(format!("--url {}: {error}", base.origin()))
}

fn client(config: &BenchConfig, base: &BaseUrl, name: &str) -> Result<Client, Complaint> {
    let options = ClientOptions {
        trust: trust(config)?,
        identity: identity(config)?,
        protocols: HttpVersion::One.protocols(),
        tickets_max: setup::limits(config)?.tls_tickets_max,
        ..ClientOptions::new(folder::wall_clock)
    };
    Client::new(name, options).map_err(|error| match error {
        SetupError::Root(_) | SetupError::Pem(_) | SetupError::NoCertificate => {
            Complaint::new(format!("{}: {error}", ca_file(config)))
        }
        SetupError::Identity(_) => Complaint::new(format!("--client-cert: {error}")),
        other => unusable(base, &other),
    })
}

/// A flag that is of no use without TLS.
fn named(config: &BenchConfig) -> Option<&'static str> {
    [
        (config.ca_file.is_some(), "--ca-file"),
        (config.client_cert.is_some(), "--client-cert"),
        (config.client_key.is_some(), "--client-key"),
        (config.insecure == Some(true), "--insecure"),
    ]
    .into_iter()
    .find_map(|(is_there, flag)| is_there.then_some(flag))
}

fn trust(config: &BenchConfig) -> Result<Trust, Complaint> {
    match (&config.ca_file, config.insecure == Some(true)) {
        (Some(_), true) => Err(Complaint::new(
            "--ca-file and --insecure contradict each other: leave one of them out",
        )),
        (None, true) => Ok(Trust::Anyone),
        (Some(path), false) => Ok(Trust::Only(read("--ca-file", path)?)),
        (None, false) => Ok(Trust::System),
    }
}

fn identity(config: &BenchConfig) -> Result<Option<Identity>, Complaint> {
    let Some(path) = &config.client_cert else {
        return match &config.client_key {
            Some(_) => Err(Complaint::new(
                "--client-key is the key of a certificate: pass that by --client-cert",
            )),
            None => Ok(None),
        };
    };
    let chain = read("--client-cert", path)?;
    let key = match &config.client_key {
        Some(path) => read("--client-key", path)?,
        None => chain.clone(),
    };
    let identity = Identity::from_pem(&chain, &key).map_err(|error| {
        let (flag, path) = match (&error, &config.client_key) {
            (SetupError::NoKey, Some(key)) => ("--client-key", key),
            _ => ("--client-cert", path),
        };
        Complaint::new(format!("{flag} {}: {error}", path.display()))
    })?;
    Ok(Some(identity))
}

fn ca_file(config: &BenchConfig) -> String {
    let path = config.ca_file.as_deref().unwrap_or_else(|| Path::new(""));
    format!("--ca-file {}", path.display())
}

/// A file of certificates or keys.
fn read(flag: &str, path: &Path) -> Result<Vec<u8>, Complaint> {
    let bounded = || -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let file = File::open(path)?;
        file.take(PEM_BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    bounded().map_err(|error| {
        Complaint::new(format!(
            "{flag} {}: cannot read it: {error}",
            path.display()
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(yaml: &str) -> Result<bool, String> {
        let config = crate::file::parse(yaml)?;
        let bases = config.url.iter().map(|url| BaseUrl::parse(url));
        let bases: Vec<BaseUrl> = bases
            .collect::<Result<_, _>>()
            .map_err(|error| error.to_string())?;
        let made = clients(&config, &bases.iter().collect::<Vec<_>>());
        let made = made.map_err(|error| error.to_string())?;
        assert_eq!(made.len(), bases.len());
        Ok(made.iter().flatten().any(|client| !client.is_checked()))
    }

    #[test]
    fn mistakes_are_told_with_their_flag() {
        let folder = tempfile::tempdir().unwrap();
        let text = folder.path().join("text");
        std::fs::write(&text, "no certificate").unwrap();
        let text = text.display();
        let https = "url: https://h\n";
        for (yaml, part) in [
            (
                "url: http://h\nca-file: x",
                "--ca-file is for endpoints behind TLS",
            ),
            (
                "url: unix:/s\ninsecure: true",
                "--insecure is for endpoints behind TLS",
            ),
            (&format!("{https}ca-file: x\ninsecure: true"), "contradict"),
            (
                &format!("{https}ca-file: no/such/file"),
                "--ca-file no/such/file: cannot read it",
            ),
            (
                &format!("{https}ca-file: {text}"),
                "it holds no certificate",
            ),
            (
                &format!("{https}client-key: x\ninsecure: true"),
                "pass that by --client-cert",
            ),
            (
                &format!("{https}client-cert: {text}\ninsecure: true"),
                "it holds no certificate",
            ),
        ] {
            let error = made(yaml).unwrap_err();
            assert!(error.contains(part), "{yaml}: {error}");
        }
        assert_eq!(made("url: http://h"), Ok(false));
        assert_eq!(made("url: https://h\ninsecure: true"), Ok(true));
        let mixed = "url: [http://h, https://g]\ninsecure: true";
        assert_eq!(made(mixed), Ok(true));
    }
}
