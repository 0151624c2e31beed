//! The way to the server, looked at before a run: names, addresses, one connection, its models.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use ridgeline_clock::{Clock, MonotonicClock, Nanos};
use ridgeline_net::Peer;
use ridgeline_tls::{Client, Scratch, Session, TlsError};
use ridgeline_wire::carry::{Carry, CarryPool};
use ridgeline_wire::http1::{Part, RequestTemplate, ResponseDecoder};

use crate::complaint::Complaint;
use crate::url::Place;

/// How long one address may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the whole answer to a plain question may take.
const ANSWER_TIMEOUT: Nanos = Nanos::from_secs(10);
/// Addresses of one name that are looked at.
const ADDRESSES_MAX: usize = 16;
/// The largest answer to a plain question.
const ANSWER_BYTES_MAX: usize = 4 << 20;
const HEAD_BYTES_MAX: usize = 64 << 10;

/// A blocking connection, in the clear.
enum Raw {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A blocking connection.
pub(crate) struct Stream {
    raw: Raw,
    secured: Option<Box<Secured>>,
}

/// What goes through TLS.
struct Secured {
    session: Session,
    scratch: Scratch,
    /// Bytes of what was heard last that were read.
    read_bytes: usize,
    incoming: Box<[u8]>,
}

impl Stream {
    pub(crate) fn open(peer: &Peer) -> io::Result<Self> {
        match peer {
            Peer::Tcp(address) => {
                let stream = TcpStream::connect_timeout(address, CONNECT_TIMEOUT)?;
                stream.set_nodelay(true)?;
                Ok(Raw::Tcp(stream).into())
            }
            Peer::Unix(path) => UnixStream::connect(path).map(|stream| Raw::Unix(stream).into()),
        }
    }

    /// The same, ready to be used: with TLS where there is a `client`.
    pub(crate) fn ready(peer: &Peer, client: Option<&Client>) -> io::Result<Self> {
        let stream = Self::open(peer)?;
        match client {
            Some(client) => stream.secure(client),
            None => Ok(stream),
        }
    }

    /// Shakes hands, within the time that a connection may take.
    pub(crate) fn secure(mut self, client: &Client) -> io::Result<Self> {
        let deadline = MonotonicClock.now() + Nanos::from_secs(CONNECT_TIMEOUT.as_secs());
        let mut session = client.session().map_err(failed)?;
        let mut out = Vec::new();
        let mut begun = session.begin(&mut out);
        let mut secured = Box::new(Secured {
            session,
            scratch: Scratch::default(),
            read_bytes: 0,
            incoming: vec![0; 16 << 10].into(),
        });
        loop {
            self.raw.write_all(&out)?;
            out.clear();
            begun.map_err(failed)?;
            if secured.session.is_ready() {
                self.secured = Some(secured);
                return Ok(self);
            }
            let left = deadline - MonotonicClock.now();
            if left == Nanos::ZERO {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.set_timeout(left.into())?;
            let read = self.raw.read(&mut secured.incoming)?;
            if read == 0 {
                return Err(io::Error::other(
                    "the server closed the connection during the TLS handshake; does it speak TLS at this \
                     port?",
                ));
            }
            let Secured {
                session,
                scratch,
                incoming,
                ..
            } = &mut *secured;
            begun = session.received(&incoming[..read], scratch, &mut out);
        }
    }

    /// What was agreed on, where it goes through TLS.
    pub(crate) fn session(&self) -> Option<&Session> {
        self.secured.as_ref().map(|secured| &secured.session)
    }

    pub(crate) fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        // Zero would mean: without end.
        let timeout = Some(timeout.max(Duration::from_micros(1)));
        match &self.raw {
            Raw::Tcp(stream) => {
                stream.set_read_timeout(timeout)?;
                stream.set_write_timeout(timeout)
            }
            Raw::Unix(stream) => {
                stream.set_read_timeout(timeout)?;
                stream.set_write_timeout(timeout)
            }
        }
    }
}

impl From<Raw> for Stream {
    fn from(raw: Raw) -> Self {
        Self { raw, secured: None }
    }
}

fn failed(error: TlsError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

impl Read for Raw {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Raw {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Stream {
    /// An end that TLS did not announce is an error of the kind `UnexpectedEof`.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(secured) = &mut self.secured else {
            return self.raw.read(buffer);
        };
        let Secured {
            session,
            scratch,
            read_bytes,
            incoming,
        } = &mut **secured;
        while *read_bytes == scratch.plain().len() {
            if session.is_ended() {
                return Ok(0);
            }
            let read = self.raw.read(incoming)?;
            if read == 0 {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the connection ended without TLS's close_notify: anybody in between may have cut it",
                ));
            }
            let mut out = Vec::new();
            *read_bytes = 0;
            let heard = session.received(&incoming[..read], scratch, &mut out);
            self.raw.write_all(&out)?;
            heard.map_err(failed)?;
        }
        let unread = &scratch.plain()[*read_bytes..];
        let count = unread.len().min(buffer.len());
        buffer[..count].copy_from_slice(&unread[..count]);
        *read_bytes += count;
        Ok(count)
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(secured) = &mut self.secured else {
            return self.raw.write(bytes);
        };
        let mut out = Vec::new();
        secured.session.write(bytes, &mut out).map_err(failed)?;
        self.raw.write_all(&out)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The addresses that a place stands for.
fn resolve(place: &Place) -> Result<Vec<Peer>, Complaint> {
    let (host, port) = match place {
        Place::Unix(path) => return Ok(vec![Peer::Unix(path.as_path().into())]),
        Place::Tcp { host, port } => (host.as_str(), *port),
    };
    let addresses = (host, port).to_socket_addrs().map_err(|error| {
        Complaint::new(format!(
            "the name {host} cannot be resolved: {error}; check --url, or give an address"
        ))
    })?;
    let mut peers: Vec<Peer> = Vec::new();
    for address in addresses.take(ADDRESSES_MAX) {
        if !peers.contains(&Peer::Tcp(address)) {
            peers.push(Peer::Tcp(address));
        }
    }
    if peers.is_empty() {
        return Err(Complaint::new(format!(
            "the name {host} has no address; check --url"
        )));
    }
    Ok(peers)
}

/// The addresses of a place that can be reached from `sources` and accept a connection, and a note
/// on those that do not.
pub(crate) fn reach(
    place: &Place,
    sources: &[IpAddr],
    tls: Option<&Client>,
) -> Result<(Vec<Peer>, Vec<String>), Complaint> {
    check_sources(place, sources)?;
    let mut peers = resolve(place)?;
    peers.retain(|peer| match peer {
        Peer::Tcp(address) => {
            sources.is_empty() || sources.iter().any(|s| s.is_ipv4() == address.is_ipv4())
        }
        Peer::Unix(_) => true,
    });
    if peers.is_empty() {
        return Err(Complaint::new(
            "--source-addresses are of another family (IPv4, IPv6) than the server's addresses",
        ));
    }
    let (mut reached, mut refused) = (Vec::new(), Vec::new());
    for peer in peers {
        match Stream::ready(&peer, tls) {
            Ok(_) => reached.push(peer),
            Err(error) => refused.push(refusal(&peer, &error)),
        }
    }
    if reached.is_empty() {
        return Err(Complaint::new(refused.join("; ")));
    }
    let left_out = |note| format!("{note}: this address is left out");
    Ok((reached, refused.into_iter().map(left_out).collect()))
}

fn refusal(peer: &Peer, error: &io::Error) -> String {
    if error.get_ref().is_some_and(|inner| inner.is::<TlsError>()) {
        return format!("no secure connection to {peer}: {error}");
    }
    let why = match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            "connection refused: nothing listens there; is the server up, and the port right?"
                .to_owned()
        }
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => format!(
            "no answer within {} s: is the address right, and no firewall in between?",
            CONNECT_TIMEOUT.as_secs()
        ),
        io::ErrorKind::NotFound => "there is no such socket; is the server up?".to_owned(),
        _ => format!("{error}; check --url"),
    };
    format!("cannot connect to {peer}: {why}")
}

fn check_sources(place: &Place, sources: &[IpAddr]) -> Result<(), Complaint> {
    if matches!(place, Place::Unix(_)) && !sources.is_empty() {
        return Err(Complaint::new(
            "--source-addresses make no sense for a unix socket",
        ));
    }
    for source in sources {
        if source.is_unspecified() {
            return Err(Complaint::new(format!(
                "--source-addresses {source}: name addresses of this machine, or leave it out"
            )));
        }
        TcpListener::bind(SocketAddr::new(*source, 0)).map_err(|error| {
            Complaint::new(format!(
                "--source-addresses {source}: {error}; is it an address of this machine?"
            ))
        })?;
    }
    if sources.iter().any(|s| s.is_ipv4()) && sources.iter().any(|s| s.is_ipv6()) {
        return Err(Complaint::new(
            "--source-addresses are all IPv4 or all IPv6",
        ));
    }
    Ok(())
}

/// The one model that the server lists.
pub(crate) fn only_model(
    peer: &Peer,
    tls: Option<&Client>,
    template: &RequestTemplate,
) -> Result<String, Complaint> {
    let told = |why: String| {
        Complaint::new(format!(
            "the model is not known: {why}; name it with --model"
        ))
    };
    let (status, body) = get(peer, tls, template, ANSWER_TIMEOUT)
        .map_err(|error| told(format!("GET /v1/models failed: {error}")))?;
    if !(200..300).contains(&status) {
        return Err(told(format!(
            "GET /v1/models was answered with HTTP status {status}"
        )));
    }
    let names = names(&body)
        .ok_or_else(|| told("the answer to GET /v1/models is not a list of models".to_owned()))?;
    match names.as_slice() {
        [] => Err(told("the server lists no model".to_owned())),
        [name] => Ok(name.clone()),
        several => {
            let mut shown = several
                .iter()
                .take(5)
                .cloned()
                .collect::<Vec<_>>()
                .join(", ");
            if several.len() > 5 {
                shown.push_str(", ...");
            }
            Err(told(format!(
                "the server lists {} ({shown})",
                several.len()
            )))
        }
    }
}

fn names(body: &[u8]) -> Option<Vec<String>> {
    let list: serde_json::Value = serde_json::from_slice(body).ok()?;
    let entries = list.get("data")?.as_array()?;
    let name = |entry: &serde_json::Value| entry.get("id")?.as_str().map(str::to_owned);
    Some(entries.iter().filter_map(name).collect())
}

/// Sends a request without a body and waits for the answer: its status and body.
fn get(
    peer: &Peer,
    tls: Option<&Client>,
    template: &RequestTemplate,
    timeout: Nanos,
) -> io::Result<(u16, Vec<u8>)> {
    let mut stream = Stream::ready(peer, tls)?;
    let deadline = MonotonicClock.now() + timeout;
    stream.set_timeout(timeout.into())?;
    let mut head = Vec::new();
    template.write_head(0, 0, &mut head);
    stream.write_all(&head)?;
    let (mut carry, mut pool) = (Carry::new(512), CarryPool::new(HEAD_BYTES_MAX));
    let mut decoder = ResponseDecoder::new(HEAD_BYTES_MAX);
    decoder.start();
    let (mut status, mut body) = (0, Vec::new());
    let mut buffer = vec![0; 16 << 10];
    loop {
        // A server that drips bytes is not waited for longer than one that is silent.
        let left = deadline - MonotonicClock.now();
        if left == Nanos::ZERO {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_timeout(left.into())?;
        let read = match stream.read(&mut buffer) {
            // A signal is no answer.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        if read == 0 {
            return match decoder.finish(true) {
                ridgeline_wire::http1::Ended::Complete => Ok((status, body)),
                _ => Err(io::Error::other("the connection ended inside the answer")),
            };
        }
        let mut input = &buffer[..read];
        while let Some(part) = decoder
            .next(&mut input, &mut carry, &mut pool)
            .map_err(io::Error::other)?
        {
            match part {
                Part::Head(head) => status = head.status,
                Part::Data(data) => body.extend_from_slice(data),
                Part::End => return Ok((status, body)),
            }
        }
        if body.len() > ANSWER_BYTES_MAX {
            return Err(io::Error::other("the answer is too long"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_models() {
        let list = br#"{"object":"list","data":[{"id":"a"},{"id":"b"},{"no":1}]}"#;
        assert_eq!(names(list), Some(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(names(b"[]"), None);
        assert_eq!(names(b"<html>"), None);
    }

    #[test]
    fn an_answer_that_never_ends_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = Peer::Tcp(listener.local_addr().unwrap());
        let template = RequestTemplate::new(&ridgeline_wire::http1::RequestOptions {
            method: ridgeline_wire::http1::Method::Get,
            target: "/v1/models",
            host: "h",
            accept: "application/json",
            api_key: None,
            id_prefix: "",
            headers: &[],
        });
        // Bytes without end, as fast as they are taken: no single read ever waits.
        let drip = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
            let mut sent = stream.write_all(head);
            while sent.is_ok() {
                sent = stream.write_all(b"1;ext=\r\n \r\n");
            }
        });
        let error = get(&peer, None, &template.unwrap(), Nanos::from_millis(1)).unwrap_err();
        let given_up = [io::ErrorKind::TimedOut, io::ErrorKind::WouldBlock];
        assert!(given_up.contains(&error.kind()), "{error}");
        drip.join().unwrap();
    }

    #[test]
    fn nobody_there_is_told_as_such() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let place = Place::Tcp {
            host: "127.0.0.1".to_owned(),
            port,
        };
        assert_eq!(reach(&place, &[], None).unwrap().0.len(), 1);
        drop(listener);
        let error = reach(&place, &[], None).unwrap_err().to_string();
        assert!(
            error.contains(&format!("127.0.0.1:{port}: connection refused")),
            "{error}"
        );
        let error = reach(&Place::Unix("no/such/socket".into()), &[], None)
            .unwrap_err()
            .to_string();
        assert!(error.contains("there is no such socket"), "{error}");
        let foreign = ["192.0.2.1".parse().unwrap()];
        let error = reach(&place, &foreign, None).unwrap_err().to_string();
        assert!(
            error.contains("is it an address of this machine?"),
            "{error}"
        );
    }
}
