//! What the ends say to one another, and how it is written.
//!
//! A message is the four bytes [`MAGIC`], the protocol's [`VERSION`] (u16, little-endian), and one value in
//! MessagePack: the name of the message, and its fields by name.

use std::collections::BTreeMap;
use std::fmt;

use ridgeline_engine::LiveTotals;
use ridgeline_metrics::Phase;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use crate::Share;

/// What every message begins with.
pub const MAGIC: [u8; 4] = *b"RLFT";

/// The version of the protocol. Both ends must have the same.
pub const VERSION: u16 = 2;

/// A longer message is refused unread: a worker's numbers take some 2 MB at the most.
pub const BYTES_MAX: usize = 16 << 20;

const HEAD_BYTES: usize = MAGIC.len() + 2;

/// What the coordinator says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToWorker {
    /// First of all: who is there.
    Hello {
        /// The commit that the coordinator's program was built from.
        revision: String,
        /// The coordinator's host, for messages.
        host: String,
        /// What both know, where the worker asks for it.
        token: Option<Secret>,
    },
    /// To be answered at once.
    Ping {
        /// Comes back.
        sequence: u64,
        /// Comes back: the coordinator's clock.
        sent_ns: u64,
    },
    /// What the worker is to do.
    Plan(Box<Assignment>),
    /// A part of a file that the plan names, in order.
    File {
        /// Which, by its place in the plan.
        place: u32,
        /// Its next bytes.
        bytes: ByteBuf,
    },
    /// A phase begins.
    Start {
        /// Which.
        phase: Phase,
        /// When, on the worker's clock.
        at_ns: u64,
    },
    /// Issue no more, and give what is in flight this long.
    Stop {
        /// How long.
        drain_ns: u64,
    },
    /// Give up what is in flight.
    Cancel,
    /// Send a part of the records.
    Fetch {
        /// Where it begins.
        offset: u64,
        /// How long it is at the most.
        bytes: u32,
    },
    /// The run is over.
    Release {
        /// Whether all of the records were fetched, so that the worker need not keep them.
        gathered: bool,
    },
}

/// What a worker says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToCoordinator {
    /// The answer to a hello.
    Hello(Box<WorkerHello>),
    /// The answer to a ping.
    Pong {
        /// As it came.
        sequence: u64,
        /// As it came.
        sent_ns: u64,
        /// The worker's clock when the ping was read.
        at_ns: u64,
    },
    /// Everything is built, and the shards wait for the start of a phase.
    Ready {
        /// Which.
        phase: Phase,
        /// What drives its sockets.
        driver: String,
    },
    /// A sign of life, with live counts.
    Snapshot(Totals),
    /// It ends the run early, in order, and sends what it has measured.
    Leaving {
        /// Why, in words.
        why: String,
    },
    /// The run is over here.
    Finished(Box<Finished>),
    /// A part of the records.
    Part {
        /// Where it begins.
        offset: u64,
        /// The bytes; none at the end.
        bytes: ByteBuf,
    },
    /// It can't take part.
    Refused {
        /// Why, in words.
        why: String,
    },
    /// It can't go on.
    Failed {
        /// Why, in words.
        why: String,
    },
}

impl ToWorker {
    /// What the message is called.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Hello { .. } => "hello",
            Self::Ping { .. } => "ping",
            Self::Plan(_) => "plan",
            Self::File { .. } => "file",
            Self::Start { .. } => "start",
            Self::Stop { .. } => "stop",
            Self::Cancel => "cancel",
            Self::Fetch { .. } => "fetch",
            Self::Release { .. } => "release",
        }
    }
}

impl ToCoordinator {
    /// What the message is called.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Hello(_) => "hello",
            Self::Pong { .. } => "pong",
            Self::Ready { .. } => "ready",
            Self::Snapshot(_) => "snapshot",
            Self::Leaving { .. } => "leaving",
            Self::Finished(_) => "finished",
            Self::Part { .. } => "part",
            Self::Refused { .. } => "refused",
            Self::Failed { .. } => "failed",
        }
    }
}

/// Who a worker is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerHello {
    /// The commit that its program was built from.
    pub revision: String,
    /// Its host's name.
    pub host: String,
    /// Its process.
    pub pid: u32,
    /// Cores that it may use.
    pub cores: u32,
    /// Which boot its clock counts from, where known.
    pub boot_id: Option<String>,
    /// The time namespace of its clock, where known.
    pub time_namespace: Option<String>,
}

/// What a worker is to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Assignment {
    /// A share of the name of every request, the same for all workers.
    pub run_id: u32,
    /// Its number among the workers.
    pub worker: u32,
    /// How many workers there are.
    pub workers: u32,
    /// The first of the run's shards that are its own.
    pub first_shard: u32,
    /// How many of them.
    pub shards: u32,
    /// The cores that these are pinned to, one each; `None`: the worker decides.
    pub cores: Option<Vec<u32>>,
    /// The effective configuration of the run, YAML.
    pub config: String,
    /// Sent to the endpoint as a bearer token.
    pub api_key: Option<Secret>,
    /// Where the records go, on a worker that has the coordinator's file system.
    pub folder: Option<String>,
    /// Files that the configuration names, to follow.
    pub files: Vec<FileHead>,
    /// Without any message for this long the coordinator is gone, ns.
    pub silence_ns: u64,
}

/// A file that follows a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileHead {
    /// The key of the configuration that it belongs to.
    pub key: String,
    /// Its name, without a folder.
    pub name: String,
    /// Its length.
    pub bytes: u64,
}

/// What a worker has when the run is over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finished {
    /// What it measured.
    pub share: Share,
    /// What became of its records; `None` when none were asked for.
    pub records: Option<RecordsTold>,
}

/// What became of a worker's records.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordsTold {
    /// Where they are.
    pub folder: String,
    /// The length of their lines, which can be fetched.
    pub bytes: u64,
    /// Lines.
    pub written: u64,
    /// How many of them went through the spool.
    pub spooled: u64,
    /// Records still in the spool.
    pub unconverted: u64,
    /// Records that could not be written.
    pub lost: u64,
    /// Records whose tokens are to be counted.
    pub uncounted: u64,
    /// What went wrong, if anything.
    pub error: Option<String>,
    /// The first message of each kind of error.
    pub error_examples: BTreeMap<String, String>,
}

/// Live counts of a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Totals {
    issued: u64,
    completed: u64,
    failed: u64,
    content_events: u64,
    in_flight: u64,
}

impl From<LiveTotals> for Totals {
    fn from(totals: LiveTotals) -> Self {
        Self {
            issued: totals.issued,
            completed: totals.completed,
            failed: totals.failed,
            content_events: totals.content_events,
            in_flight: totals.in_flight,
        }
    }
}

impl From<Totals> for LiveTotals {
    fn from(totals: Totals) -> Self {
        Self {
            issued: totals.issued,
            completed: totals.completed,
            failed: totals.failed,
            content_events: totals.content_events,
            in_flight: totals.in_flight,
        }
    }
}

/// A text that no log or message shows.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

/// Why bytes are no message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// Another program altogether.
    #[error(
        "what came is no message of a ridgeline worker or coordinator: is it the right address?"
    )]
    Foreign,
    /// Another version.
    #[error(
        "it speaks version {theirs} of the protocol, and this program version {VERSION}: use the same \
         ridgeline on all machines"
    )]
    Version {
        /// The version it speaks.
        theirs: u16,
    },
    /// Beyond [`BYTES_MAX`].
    #[error("a message of {bytes} bytes is beyond the limit of {BYTES_MAX}")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// Damaged, or of a program that is broken.
    #[error("a message can't be read: {0}")]
    Form(String),
}

/// The bytes of a message.
#[must_use]
pub fn encode<M: Serialize>(message: &M) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(128);
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    let mut serializer = rmp_serde::Serializer::new(&mut bytes).with_struct_map();
    message
        .serialize(&mut serializer)
        .expect("every message has a MessagePack form, and memory takes it");
    bytes
}

/// The message that `bytes` are, all of them.
///
/// # Errors
/// When they are none of this version.
pub fn decode<M: DeserializeOwned>(bytes: &[u8]) -> Result<M, MessageError> {
    if bytes.len() > BYTES_MAX {
        return Err(MessageError::TooLong { bytes: bytes.len() });
    }
    let Some((head, mut body)) = bytes.split_at_checked(HEAD_BYTES) else {
        return Err(MessageError::Foreign);
    };
    let Some(version) = head.strip_prefix(&MAGIC) else {
        return Err(MessageError::Foreign);
    };
    let theirs = u16::from_le_bytes([version[0], version[1]]);
    if theirs != VERSION {
        return Err(MessageError::Version { theirs });
    }
    let message =
        rmp_serde::from_read(&mut body).map_err(|error| MessageError::Form(error.to_string()))?;
    if body.is_empty() {
        Ok(message)
    } else {
        Err(MessageError::Form("something follows it".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn assignment() -> Assignment {
        Assignment {
            run_id: 7,
            worker: 1,
            workers: 4,
            first_shard: 2,
            shards: 2,
            cores: Some(vec![4, 5]),
            config: "url: http://h\n".to_owned(),
            api_key: Some(Secret("sk-1".to_owned())),
            folder: None,
            files: vec![FileHead {
                key: "dataset".to_owned(),
                name: "prompts.jsonl".to_owned(),
                bytes: 99,
            }],
            silence_ns: 5,
        }
    }

    #[test]
    fn a_plan_comes_back_and_shows_no_secret() {
        let plan = ToWorker::Plan(Box::new(assignment()));
        assert_eq!(decode::<ToWorker>(&encode(&plan)).unwrap(), plan);
        assert!(!format!("{plan:?}").contains("sk-1"));
    }

    #[test]
    fn what_is_no_message_is_told_in_words() {
        let whole = encode(&ToWorker::Release { gathered: true });
        let mut more = whole.clone();
        more.push(0xc0);
        let mut newer = whole.clone();
        newer[4] = 9;
        let long = vec![0; BYTES_MAX + 1];
        for (bytes, part) in [
            (&b""[..], "is it the right address"),
            (&b"GET / HTTP/1.1"[..], "is it the right address"),
            (
                &newer[..],
                "speaks version 9 of the protocol, and this program version 2",
            ),
            (&more[..], "something follows it"),
            (&whole[..6], "can't be read"),
            (&long[..], "beyond the limit"),
        ] {
            let error = decode::<ToWorker>(bytes).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
        // The other end's messages are not one's own.
        assert!(decode::<ToCoordinator>(&encode(&ToWorker::Cancel)).is_err());
    }

    proptest! {
        #[test]
        fn damage_never_panics(
            places in proptest::collection::vec((0_usize..4096, any::<u8>()), 1..8), cut in 0_usize..512,
        ) {
            let mut bytes = encode(&ToWorker::Plan(Box::new(assignment())));
            for (place, byte) in places {
                let place = HEAD_BYTES + place % (bytes.len() - HEAD_BYTES);
                bytes[place] = byte;
            }
            let _ = decode::<ToWorker>(&bytes);
            let _ = decode::<ToCoordinator>(&bytes);
            bytes.truncate(bytes.len().saturating_sub(cut));
            let _ = decode::<ToWorker>(&bytes);
        }

        #[test]
        fn any_bytes_are_read_or_refused(body in proptest::collection::vec(any::<u8>(), 0..256)) {
            let mut bytes = MAGIC.to_vec();
            bytes.extend_from_slice(&VERSION.to_le_bytes());
            bytes.extend_from_slice(&body);
            let _ = decode::<ToWorker>(&bytes);
            let _ = decode::<ToCoordinator>(&bytes);
        }
    }
}
