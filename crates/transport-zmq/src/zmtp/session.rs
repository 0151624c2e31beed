use std::mem;
use std::sync::Arc;

use ridgeline_transport::Flow;

use super::Fault;
use super::command::{self, COMMAND_BYTES_MAX, Command, Properties};
use super::curve::{Curve, OVERHEAD_BYTES, Step};
use super::frame::{self, COMMAND, Header, MORE};
use super::greeting::{GREETING_BYTES, Greeting};
use crate::{Keys, Kind};

/// The longest identity that the protocol has.
const IDENTITY_BYTES_MAX: usize = 255;

/// What this side of a session is and allows.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Its kind.
    pub kind: Kind,
    /// Who it says it is; empty for nobody in particular. At most 255 bytes count.
    pub identity: Vec<u8>,
    /// The longest message that may come.
    pub message_bytes_max: usize,
    /// Who may be at the other side.
    pub security: Security,
}

/// Who may be at the other side of a session.
#[derive(Clone, Debug)]
pub enum Security {
    /// Anybody (mechanism NULL).
    Null,
    /// Whoever has the same token (mechanism CURVE); everything is encrypted.
    Curve {
        /// From the token.
        keys: Arc<Keys>,
        /// Whether this is the side that listened.
        listened: bool,
    },
}

impl Security {
    const fn name(&self) -> &'static str {
        match self {
            Self::Null => "NULL",
            Self::Curve { .. } => "CURVE",
        }
    }

    const fn is_server(&self) -> bool {
        matches!(self, Self::Curve { listened: true, .. })
    }
}

/// Who is at the other side, as its handshake says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Met<'a> {
    /// Its socket type.
    pub socket_type: &'a [u8],
    /// Who it says it is; empty for nobody in particular.
    pub identity: &'a [u8],
    /// Whether it answers pings (version 3.1 and later).
    pub answers_pings: bool,
}

/// What a session tells.
pub trait Events {
    /// The handshake is done.
    fn met(&mut self, met: &Met<'_>);

    /// A message, lent.
    fn message(&mut self, message: &[u8]) -> Flow;

    /// Bytes to be sent to the peer at once.
    fn answer(&mut self, bytes: &[u8]);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Before the first 64 bytes.
    Greeting,
    /// Before the peer's `READY`.
    Handshake,
    Up,
}

/// One connection's protocol, fed with its bytes.
///
/// ```
/// use ridgeline_transport::Flow;
/// use ridgeline_transport_zmq::Kind;
/// use ridgeline_transport_zmq::zmtp::{Events, Met, Rules, Security, Session, frame};
///
/// #[derive(Default)]
/// struct Told { messages: Vec<Vec<u8>>, answers: Vec<u8>, met: bool }
/// impl Events for Told {
///     fn met(&mut self, _: &Met<'_>) { self.met = true; }
///     fn message(&mut self, message: &[u8]) -> Flow {
///         self.messages.push(message.to_vec());
///         Flow::More
///     }
///     fn answer(&mut self, bytes: &[u8]) { self.answers.extend_from_slice(bytes); }
/// }
///
/// let rules = |kind| Rules {
///     kind,
///     identity: Vec::new(),
///     message_bytes_max: 1_000,
///     security: Security::Null,
/// };
/// let (mut push, mut pull) = (Session::new(rules(Kind::Push)), Session::new(rules(Kind::Pull)));
/// let (mut at_push, mut at_pull) = (Told::default(), Told::default());
/// pull.receive(&push.greeting(), Flow::More, &mut at_pull)?;
/// push.receive(&pull.greeting(), Flow::More, &mut at_push)?;
/// pull.receive(&at_push.answers, Flow::More, &mut at_pull)?;
/// let mut bytes = Vec::new();
/// frame::put(&mut bytes, 0, b"hello");
/// pull.receive(&bytes, Flow::More, &mut at_pull)?;
/// assert!(at_pull.met);
/// assert_eq!(at_pull.messages, [b"hello"]);
/// # Ok::<(), ridgeline_transport_zmq::zmtp::Fault>(())
/// ```
#[derive(Debug)]
pub struct Session {
    rules: Rules,
    stage: Stage,
    /// Bytes that were not read yet: of one frame that is not whole, or, while held, everything.
    kept: Vec<u8>,
    /// Those of them that are read.
    read: usize,
    held: bool,
    minor: u8,
    /// The connection's keys, where it has some.
    curve: Option<Box<Curve>>,
    /// The empty frame before a message came, and its message is next.
    in_delimited: bool,
    /// The peer puts an empty frame before its messages, and expects one.
    delimits: bool,
}

impl Session {
    /// A connection that has just been made.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        let curve = match &rules.security {
            Security::Null => None,
            Security::Curve { keys, listened } => {
                Some(Box::new(Curve::new(Arc::clone(keys), *listened)))
            }
        };
        Self {
            curve,
            rules,
            stage: Stage::Greeting,
            kept: Vec::new(),
            read: 0,
            held: false,
            minor: 0,
            in_delimited: false,
            delimits: false,
        }
    }

    /// What this side sends first.
    #[must_use]
    pub fn greeting(&self) -> [u8; GREETING_BYTES] {
        let greeting = Greeting {
            minor: 1,
            mechanism: self.rules.security.name().to_owned(),
            as_server: self.rules.security.is_server(),
        };
        greeting.encode()
    }

    /// Whether what is sent must be sealed by [`Session::seal`].
    #[must_use]
    #[inline]
    pub const fn is_sealed(&self) -> bool {
        self.curve.is_some()
    }

    /// Appends the frame of a message, or of a command, as this connection carries it.
    pub fn seal(&mut self, flags: u8, body: &[u8], out: &mut Vec<u8>) {
        match &mut self.curve {
            None => frame::put(out, flags, body),
            Some(curve) => {
                let inner = u8::from(flags & MORE != 0) | u8::from(flags & COMMAND != 0) << 1;
                frame::put(out, 0, &curve.seal(inner, body));
            }
        }
    }

    /// Whether messages may be sent.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.stage == Stage::Up
    }

    /// Whether a message to the peer needs an empty frame before it.
    #[must_use]
    pub const fn delimits(&self) -> bool {
        self.delimits
    }

    /// Bytes that were received and not read, of a message that has come in part or is held back.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        self.kept.len() - self.read
    }

    /// Takes bytes that came. With [`Flow::Hold`] they are kept for [`Session::resume`]; the answer says
    /// whether something is.
    ///
    /// # Errors
    /// [`Fault`]: the connection is to be closed.
    #[inline]
    pub fn receive<E: Events>(
        &mut self,
        bytes: &[u8],
        flow: Flow,
        events: &mut E,
    ) -> Result<Flow, Fault> {
        if self.held || (flow == Flow::Hold && self.stage == Stage::Up) {
            self.held = true;
            self.kept.extend_from_slice(bytes);
            return Ok(Flow::Hold);
        }
        let (mut rest, mut flow) = (bytes, Flow::More);
        if !self.kept.is_empty() {
            (rest, flow) = self.complete(rest, events)?;
        }
        if flow == Flow::More {
            (rest, flow) = self.read_frames(rest, events)?;
        }
        self.held = flow == Flow::Hold;
        self.kept.extend_from_slice(rest);
        Ok(flow)
    }

    /// Reads on what was held back.
    ///
    /// # Errors
    /// [`Fault`]: the connection is to be closed.
    pub fn resume<E: Events>(&mut self, events: &mut E) -> Result<Flow, Fault> {
        let kept = mem::take(&mut self.kept);
        let (rest, flow) = self.read_frames(&kept[self.read..], events)?;
        self.held = flow == Flow::Hold;
        self.read = kept.len() - rest.len();
        self.kept = kept;
        // What is read is let go when it is the larger part: each byte is moved once at most.
        if !self.held || self.read > self.kept.len() / 2 {
            self.kept.drain(..self.read);
            self.read = 0;
        }
        Ok(flow)
    }

    /// Completes the frame that is kept in part, and reads it.
    fn complete<'a, E: Events>(
        &mut self,
        mut rest: &'a [u8],
        events: &mut E,
    ) -> Result<(&'a [u8], Flow), Fault> {
        loop {
            let missing = self.missing()?;
            if missing == 0 {
                break;
            }
            let (taken, after) = rest.split_at(missing.min(rest.len()));
            self.kept.extend_from_slice(taken);
            rest = after;
            if taken.len() < missing {
                // What can be said of a part is said.
                self.check_part()?;
                return Ok((rest, Flow::More));
            }
        }
        let mut kept = mem::take(&mut self.kept);
        let flow = self.read_frames(&kept, events)?.1;
        kept.clear();
        self.kept = kept;
        Ok((rest, flow))
    }

    /// How many bytes the frame that is kept in part still lacks, as far as can be told.
    fn missing(&self) -> Result<usize, Fault> {
        let bytes = &self.kept;
        if self.stage == Stage::Greeting {
            return Ok(GREETING_BYTES.saturating_sub(bytes.len()));
        }
        Ok(match self.header(bytes)? {
            Some((header, body)) => (header.header_bytes + body).saturating_sub(bytes.len()),
            None => Header::needs(bytes) - bytes.len(),
        })
    }

    fn check_part(&self) -> Result<(), Fault> {
        if self.stage == Stage::Greeting {
            Greeting::parse(&self.kept)?;
        }
        Ok(())
    }

    /// The header at the front of `bytes`, and the body's length, which is within its limit.
    #[inline]
    fn header(&self, bytes: &[u8]) -> Result<Option<(Header, usize)>, Fault> {
        let Some(header) = Header::parse(bytes)? else {
            return Ok(None);
        };
        // Sealed messages are commands by the letter, and libzmq's are not.
        let is_command = header.is_command() && !self.is_sealed();
        if self.stage != Stage::Up || is_command {
            if header.body_bytes > COMMAND_BYTES_MAX {
                return Err(Fault::CommandTooLong(header.body_bytes));
            }
        } else if header.body_bytes > self.frame_bytes_max() {
            return Err(Fault::TooLong {
                bytes: header.body_bytes,
                bytes_max: self.rules.message_bytes_max,
            });
        }
        let body = usize::try_from(header.body_bytes).unwrap_or(usize::MAX);
        Ok(Some((header, body)))
    }

    #[inline]
    fn frame_bytes_max(&self) -> u64 {
        let overhead = if self.is_sealed() { OVERHEAD_BYTES } else { 0 };
        self.rules.message_bytes_max as u64 + overhead as u64
    }

    /// Reads whole frames off the front, until one is not whole or the layer above holds. Returns what is
    /// left.
    #[inline]
    fn read_frames<'a, E: Events>(
        &mut self,
        mut rest: &'a [u8],
        events: &mut E,
    ) -> Result<(&'a [u8], Flow), Fault> {
        let mut flow = Flow::More;
        while flow == Flow::More {
            if self.stage == Stage::Greeting {
                let Some(greeting) = Greeting::parse(rest)? else {
                    break;
                };
                rest = &rest[GREETING_BYTES..];
                self.greeted(&greeting, events)?;
                continue;
            }
            let Some((header, body)) = self.header(rest)? else {
                break;
            };
            let total = header.header_bytes + body;
            if rest.len() < total {
                break;
            }
            let (frame, after) = rest.split_at(total);
            rest = after;
            flow = self.frame(header, &frame[header.header_bytes..], events)?;
        }
        Ok((rest, flow))
    }

    fn greeted<E: Events>(&mut self, greeting: &Greeting, events: &mut E) -> Result<(), Fault> {
        let ours = self.rules.security.name();
        if greeting.mechanism != ours {
            return Err(Fault::Mechanism {
                theirs: greeting.mechanism.clone(),
                ours,
            });
        }
        self.minor = greeting.minor;
        self.stage = Stage::Handshake;
        let first = match &mut self.curve {
            None => command::body("READY", &self.properties()),
            Some(_) if self.rules.security.is_server() => return Ok(()),
            Some(curve) => curve.hello(),
        };
        answer(&first, events);
        Ok(())
    }

    /// What this side says of itself.
    fn properties(&self) -> Vec<u8> {
        let mut properties = Vec::new();
        command::put_property(
            &mut properties,
            "Socket-Type",
            self.rules.kind.name().as_bytes(),
        );
        if self.rules.kind.is_named() {
            let identity = &self.rules.identity;
            let identity = &identity[..identity.len().min(IDENTITY_BYTES_MAX)];
            command::put_property(&mut properties, "Identity", identity);
        }
        properties
    }

    #[inline]
    fn frame<E: Events>(
        &mut self,
        header: Header,
        body: &[u8],
        events: &mut E,
    ) -> Result<Flow, Fault> {
        if self.stage == Stage::Up
            && let Some(curve) = &mut self.curve
        {
            let (inner, message) = curve.open(body)?;
            let more = if inner & 1 != 0 { MORE } else { 0 };
            let kind = if inner & 2 != 0 { COMMAND } else { more };
            return self.opened(kind, &message, events);
        }
        self.opened(header.flags, body, events)
    }

    /// A frame as it was meant.
    #[inline]
    fn opened<E: Events>(&mut self, flags: u8, body: &[u8], events: &mut E) -> Result<Flow, Fault> {
        if flags & COMMAND != 0 {
            self.command(body, events)?;
            return Ok(Flow::More);
        }
        if self.stage != Stage::Up {
            return Err(Fault::Handshake("a message"));
        }
        if !self.rules.kind.receives() {
            return Err(Fault::OneWay);
        }
        if flags & MORE != 0 {
            if !body.is_empty() || self.in_delimited || !self.rules.kind.is_named() {
                return Err(Fault::Parts);
            }
            self.in_delimited = true;
            self.delimits = true;
            return Ok(Flow::More);
        }
        self.in_delimited = false;
        Ok(events.message(body))
    }

    fn command<E: Events>(&mut self, body: &[u8], events: &mut E) -> Result<(), Fault> {
        match (Command::parse(body)?, self.stage) {
            (Command::Error(reason), _) => {
                let reason = String::from_utf8_lossy(reason).into_owned();
                Err(Fault::Refused(reason))
            }
            (Command::Ready(data), Stage::Handshake) if self.is_sealed() => {
                self.step(b"READY", data, events)
            }
            (Command::Other { name, data }, Stage::Handshake) if self.is_sealed() => {
                self.step(name, data, events)
            }
            (Command::Ready(properties), Stage::Handshake) => self.ready(properties, None, events),
            (Command::Ready(_), _) => Err(Fault::Handshake("a second READY")),
            (_, Stage::Handshake | Stage::Greeting) => Err(Fault::Handshake("another command")),
            (Command::Ping { context, .. }, Stage::Up) => {
                let mut pong = Vec::new();
                self.seal(COMMAND, &command::body("PONG", context), &mut pong);
                events.answer(&pong);
                Ok(())
            }
            (Command::Pong | Command::Other { .. }, Stage::Up) => Ok(()),
        }
    }

    /// The next command of a handshake that shows who is there.
    fn step<E: Events>(&mut self, name: &[u8], data: &[u8], events: &mut E) -> Result<(), Fault> {
        let properties = self.properties();
        let Some(curve) = &mut self.curve else {
            return Err(Fault::Handshake("another command"));
        };
        match curve.step(name, data, &properties)? {
            Step::Answer(body) => {
                answer(&body, events);
                Ok(())
            }
            Step::Met {
                properties,
                answer: body,
            } => self.ready(&properties, body.as_deref(), events),
        }
    }

    /// The peer has said what it is. `last`: what it is still waiting for.
    fn ready<E: Events>(
        &mut self,
        properties: &[u8],
        last: Option<&[u8]>,
        events: &mut E,
    ) -> Result<(), Fault> {
        let mut met = Met {
            socket_type: b"",
            identity: b"",
            answers_pings: self.minor >= 1,
        };
        for property in Properties(properties) {
            let (name, value) = property?;
            if name.eq_ignore_ascii_case(b"Socket-Type") {
                met.socket_type = value;
            } else if name.eq_ignore_ascii_case(b"Identity") {
                met.identity = value;
            }
        }
        if met.identity.len() > IDENTITY_BYTES_MAX {
            return Err(Fault::Properties);
        }
        if !self.rules.kind.fits(met.socket_type) {
            return Err(Fault::Kind {
                theirs: String::from_utf8_lossy(met.socket_type).into_owned(),
                ours: self.rules.kind.name(),
            });
        }
        if let Some(last) = last {
            answer(last, events);
        }
        self.stage = Stage::Up;
        events.met(&met);
        Ok(())
    }
}

/// Answers with a command of the handshake.
fn answer<E: Events>(body: &[u8], events: &mut E) {
    let mut bytes = Vec::new();
    frame::put(&mut bytes, COMMAND, body);
    events.answer(&bytes);
}
