use std::sync::Arc;

use ridgeline_wire::http1::{Method, RequestOptions, RequestTemplate, TemplateError};
use ridgeline_wire::openai::EndpointType;

use crate::protocol::{Code, Trouble};

/// What all requests begin with, but for their path and what they accept.
#[derive(Clone)]
pub struct HeadOptions {
    /// The value of the Host field.
    pub host: String,
    /// Sent as a bearer token.
    pub api_key: Option<String>,
    /// More fields.
    pub headers: Vec<(String, String)>,
    /// Precedes the number in the `X-Request-Id`.
    pub id_prefix: String,
    /// The path of a query that names none.
    pub target: String,
    /// How answers are read whose path does not tell.
    pub endpoint: EndpointType,
}

impl std::fmt::Debug for HeadOptions {
    /// Without the values that may be secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HeadOptions")
            .field("host", &self.host)
            .field("target", &self.target)
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
    pub(crate) template: Arc<RequestTemplate>,
    pub(crate) endpoint: EndpointType,
}

/// The longest path.
const PATH_BYTES_MAX: usize = 4096;

impl Heads {
    /// For queries of at most `count_max` different paths.
    pub(crate) fn new(options: HeadOptions, count_max: usize) -> Result<Self, TemplateError> {
        Ok(Self {
            own: make(&options, &options.target)?,
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
        let heads = make(&self.options, path)
            .map_err(|error| Trouble::new(Code::Endpoint, error.to_string()))?;
        self.others.push((path.into(), heads));
        Ok(self.others.len() - 1)
    }
}

fn make(options: &HeadOptions, path: &str) -> Result<[Head; 2], TemplateError> {
    let without_query = path.split('?').next().unwrap_or(path);
    let endpoint = if without_query.ends_with("/chat/completions") {
        EndpointType::Chat
    } else if without_query.ends_with("/completions") {
        EndpointType::Completions
    } else {
        options.endpoint
    };
    let head = |accept| {
        let template = RequestTemplate::new(&RequestOptions {
            method: Method::Post,
            target: path,
            host: &options.host,
            accept,
            api_key: options.api_key.as_deref(),
            id_prefix: &options.id_prefix,
            headers: &options.headers,
        })?;
        Ok::<_, TemplateError>(Head {
            template: Arc::new(template),
            endpoint,
        })
    };
    Ok([head("application/json")?, head("text/event-stream")?])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heads() -> Heads {
        let options = HeadOptions {
            host: "h".into(),
            api_key: None,
            headers: Vec::new(),
            id_prefix: "rl-".into(),
            target: "/v1/chat/completions".into(),
            endpoint: EndpointType::Chat,
        };
        Heads::new(options, 2).unwrap()
    }

    fn line(head: &Head) -> String {
        let mut bytes = Vec::new();
        head.template.write_head(1, 2, &mut bytes);
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_path_is_made_once_and_says_how_its_answers_are_read() {
        let mut heads = heads();
        let own = heads.get(None, true).unwrap();
        assert!(line(own).starts_with("POST /v1/chat/completions HTTP/1.1"));
        assert!(line(own).contains("text/event-stream"));
        let other = heads.get(Some("/v1/completions"), false).unwrap().clone();
        assert_eq!(other.endpoint, EndpointType::Completions);
        assert!(line(&other).contains("Accept: application/json"));
        let again = heads.get(Some("/v1/completions"), false).unwrap();
        assert!(Arc::ptr_eq(&other.template, &again.template));
        let own_kind = heads.get(Some("/generate?x=/completions"), true).unwrap();
        assert_eq!(own_kind.endpoint, EndpointType::Chat);
        for wrong in ["/third", "no slash", ""] {
            let trouble = heads.get(Some(wrong), true).unwrap_err();
            assert_eq!(trouble.code, Code::Endpoint, "{trouble}");
        }
    }
}
