//! The endpoint: where it is, what it calls its model, and what every request to it begins with.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use ridgeline_mock_server::{Placement, Running, ServerConfig};
use ridgeline_net::Peer;
use ridgeline_service::HeadOptions;
use ridgeline_tls::Client;
use ridgeline_wire::http1::{Method, RequestOptions, RequestTemplate};
use ridgeline_wire::openai::EndpointType;

use crate::complaint::Complaint;
use crate::config::{BenchConfig, EndpointKind};
use crate::url::BaseUrl;
use crate::{network, scale, secure};

/// An endpoint that accepted a connection.
#[derive(Debug)]
pub(crate) struct Endpoint {
    /// The embedded server; it ends with this.
    mock: Option<Running>,
    /// Where it is. At least one.
    pub(crate) peers: Vec<Peer>,
    /// What a person would call it.
    pub(crate) url: String,
    pub(crate) model: String,
    pub(crate) template: RequestTemplate,
    /// What connections to it are secured by, where they are.
    pub(crate) tls: Option<Arc<Client>>,
    /// What the user should know.
    pub(crate) notes: Vec<String>,
}

impl Endpoint {
    /// The base URL of the embedded server, if it is that.
    pub(crate) fn mock_url(&self) -> Option<String> {
        self.mock.as_ref().map(Running::url)
    }

    /// Connections that the embedded server takes, if it is that.
    pub(crate) fn connections_max(&self) -> Option<u32> {
        let mock = self.mock.as_ref()?;
        let threads = u32::try_from(mock.threads()).unwrap_or(u32::MAX);
        Some(mock.connections_max().saturating_mul(threads))
    }
}

/// What is known of it before anything is connected to.
#[derive(Debug)]
pub(crate) struct Address {
    /// None: the embedded server, which is still to be started.
    base: Option<BaseUrl>,
    headers: Vec<(String, String)>,
    api_key: Option<String>,
    tls: Option<Arc<Client>>,
}

impl Address {
    /// Reads what the configuration says. Touches no network.
    pub(crate) fn new(config: &BenchConfig) -> Result<Self, Complaint> {
        let base = match (&config.url, config.mock == Some(true)) {
            (Some(_), true) => {
                return Err(Complaint::new(
                    "--url and --mock contradict each other: leave one of them out",
                ));
            }
            (Some(url), false) => Some(BaseUrl::parse(url)?),
            (None, true) => None,
            (None, false) => {
                return Err(Complaint::new(
                    "no endpoint: pass --url http://HOST:PORT, or --mock to try it on the embedded \
                     server",
                ));
            }
        };
        Ok(Self {
            tls: secure::client(config, base.as_ref())?,
            base,
            headers: headers(&config.header)?,
            api_key: api_key(config)?,
        })
    }

    /// The same with this key, where there is one: it is no secret of this process's environment.
    pub(crate) fn with_api_key(mut self, key: Option<String>) -> Self {
        self.api_key = key.or(self.api_key);
        self
    }

    /// Starts the embedded server, if it is that, on `mock_core`; then makes one connection to each
    /// address, and asks for the model where none is named.
    pub(crate) fn reach(
        self,
        config: &BenchConfig,
        id_prefix: &str,
        mock_core: Option<usize>,
    ) -> Result<Endpoint, Complaint> {
        let (base, mock) = match &self.base {
            Some(base) => (base.clone(), None),
            None => {
                let any_port = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
                let cores = mock_core.map(|core| vec![core]);
                let placement = Placement {
                    cores,
                    connections_max: scale::mock_connections(config)?,
                    ..Placement::at(any_port)
                };
                let mock = ridgeline_mock_server::start(ServerConfig::default(), placement)?;
                (BaseUrl::parse(&mock.url())?, Some(mock))
            }
        };
        let kind = config.endpoint_type.unwrap_or(EndpointKind::Chat);
        let target = base.target(kind, config.endpoint.as_deref());
        // Before anything is connected to: headers may be wrong.
        let streaming = config.streaming.unwrap_or(true);
        let accept = if streaming {
            "text/event-stream"
        } else {
            "application/json"
        };
        let template =
            self.template(Method::Post, &base.host_field(), &target, accept, id_prefix)?;
        let tls = self.tls.as_deref();
        let (peers, mut notes) = network::reach(&base.place, &config.source_addresses, tls)?;
        if tls.is_some_and(|client| !client.is_checked()) {
            notes.push(
                "--insecure: the server's certificate is NOT checked; whoever stands in between can read \
                 and change everything, the API key included"
                    .to_owned(),
            );
        }
        let model = match (&config.model, &mock) {
            (Some(model), _) => model.clone(),
            (None, Some(_)) => ServerConfig::default().model,
            (None, None) => {
                let models = self.template(
                    Method::Get,
                    &base.host_field(),
                    &base.models(),
                    "application/json",
                    "",
                )?;
                network::only_model(&peers[0], tls, &models)?
            }
        };
        let url = match &config.url {
            Some(url) if url.starts_with("unix:") => format!("{url} {target}"),
            _ => format!("{}{target}", base.origin()),
        };
        Ok(Endpoint {
            mock,
            peers,
            url,
            model,
            template,
            tls: self.tls.clone(),
            notes,
        })
    }

    /// What the requests of a service begin with; none for the embedded server.
    pub(crate) fn heads(&self, config: &BenchConfig, id_prefix: &str) -> Option<HeadOptions> {
        let base = self.base.as_ref()?;
        let kind = config.endpoint_type.unwrap_or(EndpointKind::Chat);
        Some(HeadOptions {
            host: base.host_field(),
            api_key: self.api_key.clone(),
            headers: self.headers.clone(),
            id_prefix: id_prefix.to_owned(),
            target: base.target(kind, config.endpoint.as_deref()),
            endpoint: match kind {
                EndpointKind::Chat => EndpointType::Chat,
                EndpointKind::Completions => EndpointType::Completions,
            },
        })
    }

    fn template(
        &self,
        method: Method,
        host: &str,
        target: &str,
        accept: &str,
        id_prefix: &str,
    ) -> Result<RequestTemplate, Complaint> {
        Ok(RequestTemplate::new(&RequestOptions {
            method,
            target,
            host,
            accept,
            api_key: self.api_key.as_deref(),
            id_prefix,
            headers: &self.headers,
        })?)
    }
}

/// `Name: value` lines taken apart.
fn headers(lines: &[String]) -> Result<Vec<(String, String)>, Complaint> {
    let split = |line: &String| match line.split_once(':') {
        Some((name, value)) => Ok((name.trim().to_owned(), value.trim().to_owned())),
        // Not shown: it may be a secret.
        None => Err(Complaint::new(
            "--header: a header has the form `Name: value`, and one of them has no `:`",
        )),
    };
    lines.iter().map(split).collect()
}

/// The key that the configuration names.
pub(crate) fn api_key(config: &BenchConfig) -> Result<Option<String>, Complaint> {
    let Some(name) = &config.api_key_env else {
        return Ok(None);
    };
    match std::env::var(name) {
        Ok(key) if !key.trim().is_empty() => Ok(Some(key.trim().to_owned())),
        Ok(_) => Err(Complaint::new(format!(
            "--api-key-env {name}: the environment variable {name} is empty"
        ))),
        Err(_) => Err(Complaint::new(format!(
            "--api-key-env {name}: there is no environment variable {name}, or it is not text; it \
             takes the name of a variable, not the key itself"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(yaml: &str) -> Result<Address, String> {
        let config = crate::file::parse(yaml)?;
        Address::new(&config).map_err(|error| error.to_string())
    }

    #[test]
    fn mistakes_are_told_before_anything_is_connected_to() {
        for (yaml, part) in [
            ("", "no endpoint: pass --url"),
            ("mock: false", "no endpoint"),
            ("mock: true\nurl: http://h", "--url and --mock contradict"),
            ("mock: true\nheader: [nothing]", "has no `:`"),
            (
                "mock: true\napi-key-env: NO_SUCH_VARIABLE_HERE",
                "no environment variable NO_SUCH",
            ),
            (
                "url: http://h\ninsecure: true",
                "--insecure is for endpoints behind TLS",
            ),
            (
                "mock: true\nca-file: x",
                "--ca-file is for endpoints behind TLS",
            ),
        ] {
            let error = address(yaml).unwrap_err();
            assert!(error.contains(part), "{yaml}: {error}");
        }
    }
}
