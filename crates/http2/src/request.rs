use std::fmt;

use http::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap,
    HeaderName, HeaderValue, USER_AGENT,
};
use http::uri::{Authority, PathAndQuery, Scheme, Uri};
use http::{Request, Version};
use ridgeline_wire::http1::{Method, RequestOptions, RequestTemplate, TemplateError};

/// The request's name, as in HTTP/1.1.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Request heads that differ in nothing but the request's number and the body's length: what
/// [`RequestTemplate`] is for HTTP/1.1, with the same fields.
#[derive(Clone)]
pub struct HeadTemplate {
    method: http::Method,
    uri: Uri,
    /// All fields but the two that are written per request.
    fields: HeaderMap,
    names: RequestTemplate,
}

impl fmt::Debug for HeadTemplate {
    /// Without the fields: they may hold a key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeadTemplate")
            .field("method", &self.method)
            .field("uri", &self.uri)
            .field("names", &self.names)
            .finish_non_exhaustive()
    }
}

/// The head of one request. Not shown: it may hold a key.
pub struct RequestHead(pub(crate) Request<()>);

impl fmt::Debug for RequestHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RequestHead").field(self.0.uri()).finish()
    }
}

impl HeadTemplate {
    /// Checks the options as HTTP/1.1 does. `is_secure`: whether the URL's scheme is https.
    ///
    /// # Errors
    /// What can't be sent, by name.
    pub fn new(options: &RequestOptions<'_>, is_secure: bool) -> Result<Self, TemplateError> {
        let names = RequestTemplate::new(options)?;
        let method = match options.method {
            Method::Get => http::Method::GET,
            Method::Post => http::Method::POST,
        };
        let given = |name: &str| {
            let mut headers = options.headers.iter();
            headers
                .find(|(given, _)| given.eq_ignore_ascii_case(name))
                .map(|(_, value)| value.trim_matches([' ', '\t']))
        };
        let scheme = if is_secure {
            Scheme::HTTPS
        } else {
            Scheme::HTTP
        };
        let authority: Authority = given(HOST.as_str())
            .unwrap_or(options.host)
            .parse()
            .map_err(|_| TemplateError::Host)?;
        let path: PathAndQuery = options.target.parse().map_err(|_| TemplateError::Target)?;
        let uri = Uri::builder()
            .scheme(scheme)
            .authority(authority)
            .path_and_query(path)
            .build()
            .map_err(|_| TemplateError::Target)?;
        Ok(Self {
            method,
            uri,
            fields: fields(options)?,
            names,
        })
    }

    /// The head of request number `request_id` with a body of `content_length` bytes (a GET has none,
    /// whatever is given).
    #[must_use]
    pub fn head(&self, request_id: u64, content_length: u64) -> RequestHead {
        let mut request = Request::new(());
        *request.version_mut() = Version::HTTP_2;
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.uri.clone();
        let mut fields = self.fields.clone();
        if let Ok(mut name) = HeaderValue::try_from(self.names.request_id(request_id)) {
            // Never sent twice: kept out of the table of the header compression, where it would push out
            // fields that are.
            name.set_sensitive(true);
            fields.insert(REQUEST_ID, name);
        }
        if self.method == http::Method::POST {
            fields.insert(CONTENT_LENGTH, content_length.into());
        }
        *request.headers_mut() = fields;
        RequestHead(request)
    }
}

/// The fields that all requests have: those of HTTP/1.1, in the same order. The host is no field.
fn fields(options: &RequestOptions<'_>) -> Result<HeaderMap, TemplateError> {
    let mut fields = HeaderMap::new();
    let bearer = options.api_key.map(|key| format!("Bearer {key}"));
    let is_post = options.method == Method::Post;
    for (name, value) in [
        (
            USER_AGENT,
            Some(concat!("ridgeline/", env!("CARGO_PKG_VERSION"))),
        ),
        (ACCEPT, Some(options.accept)),
        (CONTENT_TYPE, is_post.then_some("application/json")),
        (AUTHORIZATION, bearer.as_deref()),
        (ACCEPT_ENCODING, Some("identity")),
    ] {
        if let Some(text) = value {
            let value = field_value(name.as_str(), text)?;
            fields.insert(name, value);
        }
    }
    let once = fields.keys().cloned().collect::<Vec<_>>();
    for (given, text) in options.headers {
        let name = HeaderName::try_from(given.as_str())
            .map_err(|_| TemplateError::Name(given.escape_debug().to_string()))?;
        if name == HOST {
            continue;
        }
        let value = field_value(given, text.trim_matches([' ', '\t']))?;
        if once.contains(&name) || name == AUTHORIZATION || name == CONTENT_TYPE {
            fields.insert(name, value);
        } else {
            fields.append(name, value);
        }
    }
    Ok(fields)
}

fn field_value(name: &str, text: &str) -> Result<HeaderValue, TemplateError> {
    let mut value = HeaderValue::from_bytes(text.as_bytes())
        .map_err(|_| TemplateError::Value(name.to_owned()))?;
    value.set_sensitive(name.eq_ignore_ascii_case(AUTHORIZATION.as_str()));
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(headers: &[(String, String)]) -> RequestOptions<'_> {
        RequestOptions {
            method: Method::Post,
            target: "/v1/completions?a=b",
            host: "[::1]:8000",
            accept: "text/event-stream",
            api_key: Some("sk-secret"),
            id_prefix: "rl-",
            headers,
        }
    }

    #[test]
    fn a_head_has_what_the_one_of_http_1_has() {
        let given = [
            ("User-Agent".to_owned(), " me ".to_owned()),
            ("X-Tenant".to_owned(), "a".to_owned()),
            ("X-Tenant".to_owned(), "b".to_owned()),
        ];
        let template = HeadTemplate::new(&options(&given), false).unwrap();
        let request = template.head(42, 130).0;
        assert_eq!(
            request.uri().to_string(),
            "http://[::1]:8000/v1/completions?a=b"
        );
        let lines: Vec<String> = request
            .headers()
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        assert_eq!(
            lines,
            [
                "user-agent: me",
                "accept: text/event-stream",
                "content-type: application/json",
                "authorization: Bearer sk-secret",
                "accept-encoding: identity",
                "x-tenant: a",
                "x-tenant: b",
                "x-request-id: rl-000000000000002a",
                "content-length: 130",
            ]
        );
        assert!(!format!("{template:?}").contains("secret"));
        assert!(!format!("{:?}", template.head(1, 1)).contains("secret"));
    }

    #[test]
    fn a_get_has_no_length_and_another_host_goes_into_the_authority() {
        let given = [("host".to_owned(), "model.example".to_owned())];
        let options = RequestOptions {
            method: Method::Get,
            target: "/v1/models",
            ..options(&given)
        };
        let request = HeadTemplate::new(&options, true).unwrap().head(1, 9).0;
        assert_eq!(request.uri().to_string(), "https://model.example/v1/models");
        let fields = request.headers();
        for name in ["host", "content-length", "content-type"] {
            assert!(!fields.contains_key(name), "{name}");
        }
    }

    #[test]
    fn what_http_1_refuses_is_refused() {
        for (name, value) in [("A", "b\nc"), ("a b", "c"), ("Connection", "close")] {
            let given = [(name.to_owned(), value.to_owned())];
            assert!(
                HeadTemplate::new(&options(&given), false).is_err(),
                "{name}"
            );
        }
    }
}
