use std::sync::Arc;

use ridgeline_wire::http1::{Method, RequestOptions, RequestTemplate, TemplateError};
use ridgeline_wire::openai::EndpointType;

use crate::protocol::{Code, Trouble};

/// What all requests begin with, but for their path and what they accept.
#[derive(Clone)]
pub struct HeadOptions {
    /// Where requests go, by endpoint. At least one.
    pub origins: Vec<Origin>,
    /// Sent as a bearer token.
    pub api_key: Option<String>,
    /// More fields.
    pub headers: Vec<(String, String)>,
    /// Precedes the number in the `X-Request-Id`.
    pub id_prefix: String,
    /// How answers are read whose path does not tell.
    pub endpoint: EndpointType,
}

/// One of several endpoints that do the same.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The value of the Host field.
    pub host: String,
    /// The path of a query that names none.
    pub target: String,
}

impl std::fmt::Debug for HeadOptions {
    /// Without the values that may be secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HeadOptions")
            .field("origins", &self.origins)
            .finish_non_exhaustive()
    }
}

/// The heads of requests, made once for each path.
#[derive(Debug)]
pub(crate) struct Heads {
    options: HeadOptions,
    /// Not streamed and streamed.
    own: [Head; 2],
    others: Vec<(Box<str>, [Head; 2])>,
    count_max: usize,
}

/// What a request begins with, and how its answer is read.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    /// By endpoint.
    pub(crate) templates: Arc<[RequestTemplate]>,
    pub(crate) endpoint: EndpointType,
}

/// The longest path.
const PATH_BYTES_MAX: usize = 4096;

impl Heads {
    /// For queries of at most `count_max` different paths.
    pub(crate) fn new(options: HeadOptions, count_max: usize) -> Result<Self, TemplateError> {
        Ok(Self {
            own: make(&options, None)?,
            options,
            others: Vec::new(),
            count_max,
        })
    }

    pub(crate) fn get(&mut self, path: Option<&str>, stream: bool) -> Result<&Head, Trouble> {
        let Some(path) = path else {
            return Ok(&self.own[usize::from(stream)]);
        };
        let known = self.others.iter().position(|(known, _)| **known == *path);
        let place = match known {
            Some(place) => place,
            None => self.add(path)?,
        };
        Ok(&self.others[place].1[usize::from(stream)])
    }

    fn add(&mut self, path: &str) -> Result<usize, Trouble> {
        if self.others.len() >= self.count_max || path.len() > PATH_BYTES_MAX {
            let text = format!(
                "more than {} different endpoints, or one of more than {PATH_BYTES_MAX} bytes",
                self.count_max
            );
            return Err(Trouble::new(Code::Endpoint, text));
        }
        let heads = make(&self.options, Some(path))
            .map_err(|error| Trouble::new(Code::Endpoint, error.to_string()))?;
        self.others.push((path.into(), heads));
        Ok(self.others.len() - 1)
    }
}

/// The heads of queries that name a path, or of those that name none.
fn make(options: &HeadOptions, path: Option<&str>) -> Result<[Head; 2], TemplateError> {
    let own = options.origins.first().map(|origin| origin.target.as_str());
    let endpoint = kind(options, path.or(own).unwrap_or_default());
    let head = |accept| {
        let template = |origin: &Origin| {
            RequestTemplate::new(&RequestOptions {
                method: Method::Post,
                target: path.unwrap_or(&origin.target),
                host: &origin.host,
                accept,
                api_key: options.api_key.as_deref(),
                id_prefix: &options.id_prefix,
                headers: &options.headers,
            })
        };
        let templates: Result<_, TemplateError> = options.origins.iter().map(template).collect();
        Ok::<_, TemplateError>(Head {
            templates: templates?,
            endpoint,
        })
    };
    Ok([head("application/json")?, head("text/event-stream")?])
}

/// How answers are read to requests for a path.
fn kind(options: &HeadOptions, path: &str) -> EndpointType {
    let without_query = path.split('?').next().unwrap_or(path);
    if without_query.ends_with("/chat/completions") {
        EndpointType::Chat
    } else if without_query.ends_with("/completions") {
        EndpointType::Completions
    } else {
        options.endpoint
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(host: &str) -> Origin {
        Origin {
            host: host.to_owned(),
            target: format!("/{host}/v1/chat/completions"),
        }
    }

    fn heads() -> Heads {
        let options = HeadOptions {
            origins: ["h", "g"].map(origin).into(),
            api_key: None,
            headers: Vec::new(),
            id_prefix: "rl-".into(),
            endpoint: EndpointType::Chat,
        };
        Heads::new(options, 2).unwrap()
    }

    fn line(head: &Head, endpoint: usize) -> String {
        let mut bytes = Vec::new();
        head.templates[endpoint].write_head(1, 2, &mut bytes);
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_path_is_made_once_and_says_how_its_answers_are_read() {
        let mut heads = heads();
        let own = heads.get(None, true).unwrap();
        assert!(line(own, 0).starts_with("POST /h/v1/chat/completions HTTP/1.1"));
        assert!(line(own, 0).contains("text/event-stream"));
        assert!(line(own, 1).starts_with("POST /g/v1/chat/completions HTTP/1.1"));
        assert!(line(own, 1).contains("Host: g\r\n"));
        let other = heads.get(Some("/v1/completions"), false).unwrap().clone();
        assert_eq!(other.endpoint, EndpointType::Completions);
        assert!(line(&other, 1).contains("Accept: application/json"));
        let again = heads.get(Some("/v1/completions"), false).unwrap();
        assert!(Arc::ptr_eq(&other.templates, &again.templates));
        let own_kind = heads.get(Some("/generate?x=/completions"), true).unwrap();
        assert_eq!(own_kind.endpoint, EndpointType::Chat);
        for wrong in ["/third", "no slash", ""] {
            let trouble = heads.get(Some(wrong), true).unwrap_err();
            assert_eq!(trouble.code, Code::Endpoint, "{trouble}");
        }
    }
}
