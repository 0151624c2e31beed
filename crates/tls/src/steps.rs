//! rustls's state machine, taken step by step until it wants what only the peer has.

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus, WriteTraffic,
};
use rustls::{CommonState, Error};

/// Either end of a connection, as rustls has it.
pub(crate) trait End {
    type Data;

    fn process<'c, 'i>(
        &'c mut self,
        incoming: &'i mut [u8],
    ) -> UnbufferedStatus<'c, 'i, Self::Data>;

    fn common(&self) -> &CommonState;
}

impl End for UnbufferedClientConnection {
    type Data = ClientConnectionData;

    fn process<'c, 'i>(
        &'c mut self,
        incoming: &'i mut [u8],
    ) -> UnbufferedStatus<'c, 'i, ClientConnectionData> {
        self.process_tls_records(incoming)
    }

    fn common(&self) -> &CommonState {
        self
    }
}

impl End for UnbufferedServerConnection {
    type Data = ServerConnectionData;

    fn process<'c, 'i>(
        &'c mut self,
        incoming: &'i mut [u8],
    ) -> UnbufferedStatus<'c, 'i, ServerConnectionData> {
        self.process_tls_records(incoming)
    }

    fn common(&self) -> &CommonState {
        self
    }
}

/// What came of some bytes.
pub(crate) struct Read {
    /// How many of them are done with; the others are the start of something.
    pub(crate) used: usize,
    /// The peer said that it will say nothing more.
    pub(crate) ended: bool,
    pub(crate) failed: Option<Error>,
}

/// Reads all that is whole in `incoming`: what it says is appended to `plain`, what is to be sent to
/// `out`, the alert of a failure included.
pub(crate) fn read<E: End>(
    end: &mut E,
    incoming: &mut [u8],
    plain: &mut Vec<u8>,
    out: &mut Vec<u8>,
) -> Read {
    let mut read = Read {
        used: 0,
        ended: false,
        failed: None,
    };
    loop {
        let UnbufferedStatus { discard, state } = end.process(&mut incoming[read.used..]);
        read.used += discard;
        let step = match state {
            Ok(state) => take(state, plain, out, &mut read.ended),
            Err(error) => Err(error),
        };
        match step {
            Ok(true) => {}
            Ok(false) => return read,
            Err(error) => {
                read.failed = Some(error);
                complain(end, &mut incoming[read.used..], out);
                return read;
            }
        }
    }
}

/// Appends the alert of a failure to `out`, and nothing more: the bytes that failed must not be looked at
/// again.
fn complain<E: End>(end: &mut E, incoming: &mut [u8], out: &mut Vec<u8>) {
    while end.common().wants_write() {
        let Ok(ConnectionState::EncodeTlsData(mut data)) = end.process(incoming).state else {
            return;
        };
        if encode(&mut data, out).is_err() {
            return;
        }
    }
}

/// One step. Whether another one follows.
fn take<D>(
    state: ConnectionState<'_, '_, D>,
    plain: &mut Vec<u8>,
    out: &mut Vec<u8>,
    ended: &mut bool,
) -> Result<bool, Error> {
    match state {
        ConnectionState::ReadTraffic(mut traffic) => {
            while let Some(record) = traffic.next_record() {
                plain.extend_from_slice(record?.payload);
            }
        }
        ConnectionState::EncodeTlsData(mut data) => encode(&mut data, out)?,
        ConnectionState::TransmitTlsData(data) => data.done(),
        ConnectionState::PeerClosed => *ended = true,
        // What is left wants more bytes, or something to say. (Early data is not offered.)
        _ => return Ok(false),
    }
    Ok(true)
}

/// Appends `plain` to `out` as records.
pub(crate) fn write<E: End>(
    end: &mut E,
    rest: &mut [u8],
    plain: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    speak(end, rest, out, &mut |traffic, out| {
        encrypt(traffic, plain, out)
    })
}

/// Appends the word that nothing more will be said to `out`.
pub(crate) fn close<E: End>(end: &mut E, rest: &mut [u8], out: &mut Vec<u8>) -> Result<(), Error> {
    speak(end, rest, out, &mut |traffic, out| {
        // A record of an alert, and keys that may be changed before it.
        append(out, 64, |space| {
            traffic.queue_close_notify(space).map_err(required)
        })
    })
}

type Say<'a, D> = &'a mut dyn FnMut(&mut WriteTraffic<'_, D>, &mut Vec<u8>) -> Result<(), Error>;

/// Goes to where something can be said, and says it. `rest`: the bytes that reading left.
fn speak<E: End>(
    end: &mut E,
    rest: &mut [u8],
    out: &mut Vec<u8>,
    say: Say<'_, E::Data>,
) -> Result<(), Error> {
    loop {
        match end.process(rest).state? {
            ConnectionState::WriteTraffic(mut traffic) => return say(&mut traffic, out),
            ConnectionState::EncodeTlsData(mut data) => encode(&mut data, out)?,
            ConnectionState::TransmitTlsData(data) => data.done(),
            _ => return Err(Error::HandshakeNotComplete),
        }
    }
}

fn encode<D>(data: &mut EncodeTlsData<'_, D>, out: &mut Vec<u8>) -> Result<(), Error> {
    append(out, 512, |space| {
        data.encode(space).map_err(|error| match error {
            EncodeError::InsufficientSize(size) => Short::Of(size.required_size),
            EncodeError::AlreadyEncoded => Short::Never,
        })
    })
}

/// Bytes in one record at the most, and what a record has beside them: header, tag, type; TLS 1.2 adds
/// a nonce.
const RECORD_BYTES_MAX: usize = 16_384;
const AROUND_RECORD_BYTES: usize = 32;

fn encrypt<D>(
    traffic: &mut WriteTraffic<'_, D>,
    plain: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    let records = plain.len() / RECORD_BYTES_MAX + 1;
    append(out, plain.len() + records * AROUND_RECORD_BYTES, |space| {
        traffic.encrypt(plain, space).map_err(required)
    })
}

/// Why something was not written.
enum Short {
    /// It needs so many bytes.
    Of(usize),
    /// It can't be said any more.
    Never,
}

fn required(error: EncryptError) -> Short {
    match error {
        EncryptError::InsufficientSize(size) => Short::Of(size.required_size),
        EncryptError::EncryptExhausted => Short::Never,
    }
}

/// Appends what `write` writes to `out`: of `guess` bytes, or of as many more as it asks for.
fn append(
    out: &mut Vec<u8>,
    guess: usize,
    mut write: impl FnMut(&mut [u8]) -> Result<usize, Short>,
) -> Result<(), Error> {
    let at = out.len();
    let mut space = guess;
    loop {
        out.resize(at + space, 0);
        match write(&mut out[at..]) {
            Ok(written) => {
                out.truncate(at + written);
                return Ok(());
            }
            Err(Short::Of(required)) if required > space => space = required,
            Err(_) => {
                out.truncate(at);
                return Err(Error::EncryptError);
            }
        }
    }
}
