//! CURVE (CurveZMQ, ZeroMQ RFC 26): both sides prove who they are, and everything after the greeting is
//! encrypted under keys of this one connection.

use std::sync::Arc;

use crypto_box::aead::rand_core::RngCore as _;
use crypto_box::aead::{Aead as _, OsRng};
use crypto_box::{PublicKey, SalsaBox, SecretKey};

use super::Fault;
use super::command;
use crate::Keys;

/// Before what a message frame encrypts: its name and a short nonce.
const MESSAGE_NAME: &[u8] = b"\x07MESSAGE";
const NONCE_BYTES: usize = 8;
const TAG_BYTES: usize = 16;

/// What a message takes in its frame besides its own bytes: name, nonce, tag, flags.
pub(crate) const OVERHEAD_BYTES: usize = MESSAGE_NAME.len() + NONCE_BYTES + TAG_BYTES + 1;

const KEY_BYTES: usize = 32;
const COOKIE_BYTES: usize = 96;
const VOUCH_BYTES: usize = 16 + 80;
const LONG_NONCE_BYTES: usize = 16;

/// What a side does next in the handshake.
pub(crate) enum Step {
    /// It answers with this command, and waits.
    Answer(Vec<u8>),
    /// The peer has shown who it is and said these properties; it is answered with this command.
    Met {
        properties: Vec<u8>,
        answer: Option<Vec<u8>>,
    },
}

/// Which message a side waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    Hello,
    Initiate,
    Welcome,
    Ready,
    Nothing,
}

/// One connection's keys, and how far its handshake is.
pub(crate) struct Curve {
    keys: Arc<Keys>,
    /// Whether this side listened: the server's role.
    listened: bool,
    waits: Waits,
    /// Of this connection alone.
    own: SecretKey,
    /// The peer's key of this connection, once it is known.
    theirs: Option<PublicKey>,
    /// What the listening side gave, to be given back.
    cookie: Vec<u8>,
    shared: Option<SalsaBox>,
    sent: u64,
    received: u64,
}

impl std::fmt::Debug for Curve {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Curve")
            .field("listened", &self.listened)
            .field("waits", &self.waits)
            .finish_non_exhaustive()
    }
}

impl Curve {
    pub(crate) fn new(keys: Arc<Keys>, listened: bool) -> Self {
        Self {
            keys,
            listened,
            waits: if listened {
                Waits::Hello
            } else {
                Waits::Welcome
            },
            own: SecretKey::generate(&mut OsRng),
            theirs: None,
            cookie: Vec::new(),
            shared: None,
            sent: 0,
            received: 0,
        }
    }

    /// What the connecting side says first.
    pub(crate) fn hello(&mut self) -> Vec<u8> {
        let server = self.keys.listening_public();
        let nonce = self.next_nonce();
        let sealed = seal(
            &SalsaBox::new(&server, &self.own),
            b"CurveZMQHELLO---",
            &nonce,
            &[0; 64],
        );
        let mut data = vec![1, 0];
        data.extend_from_slice(&[0; 72]);
        data.extend_from_slice(self.own.public_key().as_bytes());
        data.extend_from_slice(&nonce);
        data.extend_from_slice(&sealed);
        command::body("HELLO", &data)
    }

    /// Reads the next command of the handshake. `properties` are this side's.
    pub(crate) fn step(
        &mut self,
        name: &[u8],
        data: &[u8],
        properties: &[u8],
    ) -> Result<Step, Fault> {
        match (self.waits, name) {
            (Waits::Hello, b"HELLO") => self.welcome(data),
            (Waits::Welcome, b"WELCOME") => self.initiate(data, properties),
            (Waits::Initiate, b"INITIATE") => self.ready(data, properties),
            (Waits::Ready, b"READY") => self.readied(data),
            _ => Err(Fault::Handshake("another command")),
        }
    }

    /// Listening: HELLO came, WELCOME goes.
    fn welcome(&mut self, data: &[u8]) -> Result<Step, Fault> {
        // Version, filler, key, nonce, box.
        if data.len() != 194 || data[0] != 1 {
            return Err(Fault::Command);
        }
        let (theirs, nonce, sealed) = (key(&data[74..106])?, &data[106..114], &data[114..]);
        let to_them = SalsaBox::new(&theirs, &self.keys.listening);
        // Who does not know the listening side's key can't make this.
        open(&to_them, b"CurveZMQHELLO---", nonce, sealed)?;
        self.received = number(nonce);
        let mut cookie = vec![0; COOKIE_BYTES];
        OsRng.fill_bytes(&mut cookie);
        let mut plain = self.own.public_key().as_bytes().to_vec();
        plain.extend_from_slice(&cookie);
        let mut long = [0; LONG_NONCE_BYTES];
        OsRng.fill_bytes(&mut long);
        let mut answer = long.to_vec();
        answer.extend_from_slice(&seal(&to_them, b"WELCOME-", &long, &plain));
        self.cookie = cookie;
        self.theirs = Some(theirs);
        self.waits = Waits::Initiate;
        Ok(Step::Answer(command::body("WELCOME", &answer)))
    }

    /// Connecting: WELCOME came, INITIATE goes.
    fn initiate(&mut self, data: &[u8], properties: &[u8]) -> Result<Step, Fault> {
        if data.len() != LONG_NONCE_BYTES + TAG_BYTES + KEY_BYTES + COOKIE_BYTES {
            return Err(Fault::Command);
        }
        let server = self.keys.listening_public();
        let (long, sealed) = data.split_at(LONG_NONCE_BYTES);
        let plain = open(
            &SalsaBox::new(&server, &self.own),
            b"WELCOME-",
            long,
            sealed,
        )?;
        let (theirs, cookie) = plain.split_at(KEY_BYTES);
        let theirs = key(theirs)?;
        let own_public = self.own.public_key();
        let mut vouched = own_public.as_bytes().to_vec();
        vouched.extend_from_slice(server.as_bytes());
        let mut long = [0; LONG_NONCE_BYTES];
        OsRng.fill_bytes(&mut long);
        let by_us = SalsaBox::new(&theirs, &self.keys.connecting);
        let mut plain = self.keys.connecting_public().as_bytes().to_vec();
        plain.extend_from_slice(&long);
        plain.extend_from_slice(&seal(&by_us, b"VOUCH---", &long, &vouched));
        plain.extend_from_slice(properties);
        let shared = SalsaBox::new(&theirs, &self.own);
        let nonce = self.next_nonce();
        let mut answer = cookie.to_vec();
        answer.extend_from_slice(&nonce);
        answer.extend_from_slice(&seal(&shared, b"CurveZMQINITIATE", &nonce, &plain));
        self.theirs = Some(theirs);
        self.shared = Some(shared);
        self.waits = Waits::Ready;
        Ok(Step::Answer(command::body("INITIATE", &answer)))
    }

    /// Listening: INITIATE came, READY goes.
    fn ready(&mut self, data: &[u8], properties: &[u8]) -> Result<Step, Fault> {
        let Some((cookie, rest)) = data.split_at_checked(COOKIE_BYTES) else {
            return Err(Fault::Command);
        };
        let (Some((nonce, sealed)), Some(theirs)) =
            (rest.split_at_checked(NONCE_BYTES), self.theirs.clone())
        else {
            return Err(Fault::Command);
        };
        if cookie != self.cookie || number(nonce) <= self.received {
            return Err(Fault::Secret);
        }
        self.received = number(nonce);
        let shared = SalsaBox::new(&theirs, &self.own);
        let plain = open(&shared, b"CurveZMQINITIATE", nonce, sealed)?;
        if plain.len() < KEY_BYTES + VOUCH_BYTES {
            return Err(Fault::Command);
        }
        let (client, rest) = plain.split_at(KEY_BYTES);
        let (vouch, said) = rest.split_at(VOUCH_BYTES);
        let client = key(client)?;
        let (long, sealed) = vouch.split_at(LONG_NONCE_BYTES);
        let vouched = open(
            &SalsaBox::new(&client, &self.own),
            b"VOUCH---",
            long,
            sealed,
        )?;
        let by_them = vouched[..KEY_BYTES] == theirs.as_bytes()[..]
            && vouched[KEY_BYTES..] == self.keys.listening_public().as_bytes()[..];
        if !by_them || client != self.keys.connecting_public() {
            return Err(Fault::Secret);
        }
        let own_nonce = self.next_nonce();
        let mut answer = own_nonce.to_vec();
        answer.extend_from_slice(&seal(&shared, b"CurveZMQREADY---", &own_nonce, properties));
        self.shared = Some(shared);
        self.waits = Waits::Nothing;
        Ok(Step::Met {
            properties: said.to_vec(),
            answer: Some(command::body("READY", &answer)),
        })
    }

    /// Connecting: READY came.
    fn readied(&mut self, data: &[u8]) -> Result<Step, Fault> {
        let (Some((nonce, sealed)), Some(shared)) =
            (data.split_at_checked(NONCE_BYTES), &self.shared)
        else {
            return Err(Fault::Command);
        };
        let properties = open(shared, b"CurveZMQREADY---", nonce, sealed)?;
        self.received = number(nonce);
        self.waits = Waits::Nothing;
        Ok(Step::Met {
            properties,
            answer: None,
        })
    }

    /// The body of the frame that carries `message`, with its flags inside.
    pub(crate) fn seal(&mut self, flags: u8, message: &[u8]) -> Vec<u8> {
        let nonce = self.next_nonce();
        let mut plain = Vec::with_capacity(1 + message.len());
        plain.push(flags);
        plain.extend_from_slice(message);
        let prefix = message_prefix(self.listened);
        let mut body = MESSAGE_NAME.to_vec();
        body.extend_from_slice(&nonce);
        if let Some(shared) = &self.shared {
            body.extend_from_slice(&seal(shared, prefix, &nonce, &plain));
        }
        body
    }

    /// The flags and the message that a frame's body carries.
    pub(crate) fn open(&mut self, body: &[u8]) -> Result<(u8, Vec<u8>), Fault> {
        let sealed = body.strip_prefix(MESSAGE_NAME);
        let sealed = sealed.and_then(|rest| rest.split_at_checked(NONCE_BYTES));
        let (Some((nonce, sealed)), Some(shared)) = (sealed, &self.shared) else {
            return Err(Fault::Command);
        };
        // Each number once, and upwards: nothing can be played again.
        if number(nonce) <= self.received {
            return Err(Fault::Secret);
        }
        let mut plain = open(shared, message_prefix(!self.listened), nonce, sealed)?;
        self.received = number(nonce);
        if plain.is_empty() {
            return Err(Fault::Command);
        }
        let message = plain.split_off(1);
        Ok((plain[0], message))
    }

    fn next_nonce(&mut self) -> [u8; NONCE_BYTES] {
        self.sent += 1;
        self.sent.to_be_bytes()
    }
}

fn message_prefix(listened: bool) -> &'static [u8] {
    if listened {
        b"CurveZMQMESSAGES"
    } else {
        b"CurveZMQMESSAGEC"
    }
}

fn key(bytes: &[u8]) -> Result<PublicKey, Fault> {
    PublicKey::from_slice(bytes).map_err(|_| Fault::Command)
}

fn number(nonce: &[u8]) -> u64 {
    nonce
        .iter()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// A whole nonce: what it is for, and a number or random bytes.
fn nonce(prefix: &[u8], rest: &[u8]) -> crypto_box::Nonce {
    let mut nonce = crypto_box::Nonce::default();
    let (before, after) = nonce.split_at_mut(prefix.len());
    before.copy_from_slice(prefix);
    after.copy_from_slice(rest);
    nonce
}

fn seal(by: &SalsaBox, prefix: &[u8], rest: &[u8], plain: &[u8]) -> Vec<u8> {
    // Fails only for more bytes than any message has.
    by.encrypt(&nonce(prefix, rest), plain).unwrap_or_default()
}

fn open(by: &SalsaBox, prefix: &[u8], rest: &[u8], sealed: &[u8]) -> Result<Vec<u8>, Fault> {
    by.decrypt(&nonce(prefix, rest), sealed)
        .map_err(|_| Fault::Secret)
}
