//! The endpoint: where it is, what it calls its model, and what every request to it begins with.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use ridgeline_engine::{Http2, Spread};
use ridgeline_http2::HeadTemplate;
use ridgeline_mock_server::{Placement, Running, ServerConfig};
use ridgeline_net::Peer;
use ridgeline_service::{HeadOptions, Origin};
use ridgeline_tls::Client;
use ridgeline_wire::http1::{Method, RequestOptions, RequestTemplate};
use ridgeline_wire::openai::EndpointType;

use crate::balance::Balance;
use crate::complaint::Complaint;
use crate::config::{BenchConfig, EndpointKind};
use crate::http::HttpVersion;
use crate::url::BaseUrl;
use crate::{http, network, scale, secure};

/// An endpoint that accepted a connection.
#[derive(Debug)]
pub(crate) struct Endpoint {
    /// The embedded server; it ends with this.
    mock: Option<Running>,
    /// Where it is. At least one; those of several endpoints one after the other.
    pub(crate) peers: Vec<Peer>,
    /// What a person would call it.
    pub(crate) url: String,
    pub(crate) model: String,
    pub(crate) template: RequestTemplate,
    /// What connections to it are secured by, where they are.
    pub(crate) tls: Option<Arc<Client>>,
    /// Where there are more endpoints: those beyond the first.
    others: Vec<Other>,
    /// And which of them gets a request.
    pub(crate) spread: Option<Spread>,
    pub(crate) balance: Balance,
    /// How HTTP/2 is spoken, where it is or may be, and what every request begins with then.
    pub(crate) http2: Option<(Http2, HeadTemplate)>,
    /// What the user should know.
    pub(crate) notes: Vec<String>,
}

/// An endpoint that does the same as the first.
#[derive(Debug)]
struct Other {
    /// What a person would call it.
    url: String,
    /// What requests to it begin with.
    template: RequestTemplate,
    /// The same for HTTP/2, where that is or may be spoken.
    heads: Option<HeadTemplate>,
}

impl Endpoint {
    /// What requests to each endpoint begin with where they speak HTTP/2; empty where none does.
    pub(crate) fn heads_of_http2(&self) -> Vec<HeadTemplate> {
        let first = self.http2.as_ref().map(|(_, heads)| heads.clone());
        let others = self.others.iter().filter_map(|other| other.heads.clone());
        first.into_iter().chain(others).collect()
    }

    /// What requests to each endpoint begin with.
    pub(crate) fn templates(&self) -> Vec<RequestTemplate> {
        let others = self.others.iter().map(|other| other.template.clone());
        std::iter::once(self.template.clone())
            .chain(others)
            .collect()
    }

    /// What each endpoint is called, where there are several.
    pub(crate) fn urls(&self) -> Vec<String> {
        if self.others.is_empty() {
            return Vec::new();
        }
        let others = self.others.iter().map(|other| other.url.clone());
        std::iter::once(self.url.clone()).chain(others).collect()
    }

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
    tls: Option<Arc<Client>>,
    /// More endpoints, which do the same, and what secures connections to each.
    others: Vec<(BaseUrl, Option<Arc<Client>>)>,
    headers: Vec<(String, String)>,
    api_key: Option<String>,
    version: HttpVersion,
    http2: Option<Http2>,
}

impl Address {
    /// Reads what the configuration says. Touches no network.
    pub(crate) fn new(config: &BenchConfig) -> Result<Self, Complaint> {
        let base = match (config.url.first(), config.mock == Some(true)) {
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
        let others = config.url.iter().skip(1).map(|url| BaseUrl::parse(url));
        let others = others.collect::<Result<Vec<_>, _>>()?;
        if others.is_empty() && config.balance.is_some() {
            return Err(Complaint::new(
                "--balance deals requests out to several endpoints: name them by as many --url, or leave it out",
            ));
        }
        balance(config).engine(1 + others.len())?;
        let bases: Vec<&BaseUrl> = base.iter().chain(&others).collect();
        let mut tls = secure::clients(config, &bases)?.into_iter();
        Ok(Self {
            // The embedded server has none.
            tls: tls.next().flatten(),
            version: config.http.unwrap_or_default(),
            http2: http::http2(config, bases.iter().any(|base| base.is_secure()))?,
            base,
            others: others.into_iter().zip(tls).collect(),
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
        let host = base.host_field();
        let options = self.options(Method::Post, &host, &target, accept, id_prefix);
        let template = RequestTemplate::new(&options)?;
        let heads = self.heads_for(&options, &base)?;
        let http2 = self.http2.zip(heads);
        let tls = self.tls.as_deref();
        let (mut peers, mut notes) = network::reach(&base.place, &config.source_addresses, tls)?;
        if config.insecure == Some(true) {
            notes.push(
                "--insecure: the server's certificate is NOT checked; whoever stands in between can read \
                 and change everything, the API key included"
                    .to_owned(),
            );
        }
        let model = match (&config.model, &mock) {
            (Some(model), _) => model.clone(),
            (None, Some(_)) => ServerConfig::default().model,
            (None, None) if self.http2.is_some_and(|http2| http2.required) => {
                return Err(Complaint::new(
                    "the model is not known, and with --http 2 the server is not asked for it: name it with \
                     --model",
                ));
            }
            (None, None) => {
                let path = base.models();
                let options = self.options(Method::Get, &host, &path, "application/json", "");
                network::only_model(&peers[0], tls, &RequestTemplate::new(&options)?)?
            }
        };
        let (others, spread) =
            self.reach_others(config, accept, id_prefix, &mut peers, &mut notes)?;
        Ok(Endpoint {
            mock,
            peers,
            url: base.words(&target),
            model,
            template,
            tls: self.tls_of_run(self.tls.as_ref()),
            others,
            spread,
            balance: balance(config),
            http2,
            notes,
        })
    }

    /// Makes one connection to each address of the endpoints beyond the first, and adds it to `peers`. What they
    /// are called, what requests to them begin with, and which of all gets a request.
    fn reach_others(
        &self,
        config: &BenchConfig,
        accept: &str,
        id_prefix: &str,
        peers: &mut Vec<Peer>,
        notes: &mut Vec<String>,
    ) -> Result<(Vec<Other>, Option<Spread>), Complaint> {
        let mut spread = Spread {
            endpoints: std::iter::once(0..peers.len()).collect(),
            tls: vec![self.tls_of_run(self.tls.as_ref())],
            balance: balance(config).engine(1 + self.others.len())?,
        };
        let mut others = Vec::new();
        for (base, tls) in &self.others {
            let kind = config.endpoint_type.unwrap_or(EndpointKind::Chat);
            let (host, target) = (
                base.host_field(),
                base.target(kind, config.endpoint.as_deref()),
            );
            let options = self.options(Method::Post, &host, &target, accept, id_prefix);
            let (template, heads) = (
                RequestTemplate::new(&options)?,
                self.heads_for(&options, base)?,
            );
            let sources = &config.source_addresses;
            let (more, more_notes) = network::reach(&base.place, sources, tls.as_deref())?;
            spread.endpoints.push(peers.len()..peers.len() + more.len());
            spread.tls.push(self.tls_of_run(tls.as_ref()));
            peers.extend(more);
            notes.extend(more_notes);
            others.push(Other {
                url: base.words(&target),
                template,
                heads,
            });
        }
        let is_several = !others.is_empty();
        Ok((others, is_several.then_some(spread)))
    }

    /// What the requests of a service begin with; none for the embedded server.
    pub(crate) fn heads(&self, config: &BenchConfig, id_prefix: &str) -> Option<HeadOptions> {
        let base = self.base.as_ref()?;
        let kind = config.endpoint_type.unwrap_or(EndpointKind::Chat);
        let origin = |base: &BaseUrl| Origin {
            host: base.host_field(),
            target: base.target(kind, config.endpoint.as_deref()),
        };
        let others = self.others.iter().map(|(base, _)| base);
        Some(HeadOptions {
            origins: std::iter::once(base).chain(others).map(origin).collect(),
            api_key: self.api_key.clone(),
            headers: self.headers.clone(),
            id_prefix: id_prefix.to_owned(),
            endpoint: match kind {
                EndpointKind::Chat => EndpointType::Chat,
                EndpointKind::Completions => EndpointType::Completions,
            },
        })
    }

    /// What requests begin with that HTTP/2 sends, where it is or may be spoken.
    fn heads_for(
        &self,
        options: &RequestOptions<'_>,
        base: &BaseUrl,
    ) -> Result<Option<HeadTemplate>, Complaint> {
        let heads = || HeadTemplate::new(options, base.is_secure());
        Ok(self.http2.map(|_| heads()).transpose()?)
    }

    /// What connections of the run are secured by. What comes before it speaks HTTP/1.1 alone.
    fn tls_of_run(&self, tls: Option<&Arc<Client>>) -> Option<Arc<Client>> {
        let offering = |tls: &Arc<Client>| Arc::new(tls.offering(self.version.protocols()));
        match self.version {
            HttpVersion::One => tls.cloned(),
            HttpVersion::Two | HttpVersion::Auto => tls.map(offering),
        }
    }

    fn options<'a>(
        &'a self,
        method: Method,
        host: &'a str,
        target: &'a str,
        accept: &'a str,
        id_prefix: &'a str,
    ) -> RequestOptions<'a> {
        RequestOptions {
            method,
            target,
            host,
            accept,
            api_key: self.api_key.as_deref(),
            id_prefix,
            headers: &self.headers,
        }
    }
}

/// How requests are dealt out, as the configuration says it.
fn balance(config: &BenchConfig) -> Balance {
    config.balance.clone().unwrap_or(Balance::RoundRobin)
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
            (
                "url: http://h\nbalance: round-robin",
                "--balance deals requests out",
            ),
            ("url: [http://h, g]", "--url g: it has no scheme"),
            (
                "url: [http://h, http://g]\nbalance: weights=1",
                "name one for each --url",
            ),
        ] {
            let error = address(yaml).unwrap_err();
            assert!(error.contains(part), "{yaml}: {error}");
        }
    }
}
