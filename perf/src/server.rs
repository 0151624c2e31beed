//! The bare server: answers every request with bytes prepared at start.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::{AsFd as _, BorrowedFd};

use ridgeline_clock::{Clock, MonotonicClock, Nanos};
use socket2::{Domain, Socket, Type};

use crate::payload;
use crate::request::{Progress, Reader};
use crate::ring::{Completion, Limits, Queues, Report, Ring};

/// How every request is answered, whatever it asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The bytes, write by write. Each write but the first waits until the one before was taken.
    pub writes: Vec<Vec<u8>>,
    /// From one write to the next, where they are timed.
    pub gap: Option<Nanos>,
}

impl Answer {
    /// All of these bytes in one write.
    #[must_use]
    pub fn whole(bytes: Vec<u8>) -> Self {
        Self {
            writes: vec![bytes],
            gap: None,
        }
    }

    /// These writes, each as soon as the one before was taken.
    #[must_use]
    pub fn paced(writes: Vec<Vec<u8>>) -> Self {
        Self { writes, gap: None }
    }

    /// These writes, this far apart.
    #[must_use]
    pub fn timed(writes: Vec<Vec<u8>>, gap: Nanos) -> Self {
        Self {
            writes,
            gap: Some(gap),
        }
    }
}

/// The sizes of a server.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// The most connections at a time.
    pub connections: u32,
    /// Receive buffers, a power of two.
    pub buffers: u16,
    /// The size of each.
    pub buffer_bytes: u32,
}

impl Default for Sizes {
    fn default() -> Self {
        Self {
            connections: 4096,
            buffers: 256,
            buffer_bytes: 2048,
        }
    }
}

/// A bare HTTP/1.1 server on 127.0.0.1: keep-alive, one request at a time per connection.
#[derive(Debug)]
pub struct Server {
    listener: Socket,
    address: SocketAddr,
    sizes: Sizes,
    /// What is written for one request, write by write.
    writes: Vec<&'static [u8]>,
    /// From one write to the next, where the mode is timed.
    gap: Option<Nanos>,
    connections: Vec<Connection>,
    /// Timed writes to come, in the order of their times: the gap is the same for all.
    due: VecDeque<(Nanos, u64)>,
    /// The file table was full: accepting goes on when a connection is gone.
    full: bool,
}

#[derive(Clone, Debug, Default)]
struct Connection {
    /// Counts the uses of the slot: late completions name an earlier one.
    generation: u32,
    open: bool,
    reader: Reader,
    /// The number of the next write; all are done between requests.
    next: usize,
    /// A write is in the kernel's hands.
    writing: bool,
    /// The time of the next write came before the last was done.
    late: bool,
}

const ACCEPT: u64 = u64::MAX;
const ATTACHED: u64 = u64::MAX - 1;
/// Set in the name of a send, beside the connection's.
const SEND: u64 = 1 << 63;

impl Server {
    /// Listens on 127.0.0.1; port 0 takes a free one. Others may `share` the port: the kernel spreads
    /// connections over them.
    ///
    /// # Errors
    /// When the port can't be had.
    pub fn listen(port: u16, answer: Answer, sizes: Sizes, share: bool) -> io::Result<Self> {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        listener.set_reuse_address(true)?;
        listener.set_reuse_port(share)?;
        // Accepted sockets inherit it.
        listener.set_tcp_nodelay(true)?;
        listener.bind(&SocketAddrV4::new(Ipv4Addr::LOCALHOST, port).into())?;
        listener.listen(4096)?;
        let address = listener.local_addr()?.as_socket();
        let address = address.ok_or_else(|| io::Error::other("not an IP address"))?;
        let Answer { writes, gap } = answer;
        let writes: Vec<_> = writes.into_iter().map(payload::leak).collect();
        let idle = Connection {
            next: writes.len(),
            ..Connection::default()
        };
        let connections = vec![idle; sizes.connections as usize];
        let due = VecDeque::with_capacity(sizes.connections as usize);
        Ok(Self {
            listener,
            address,
            sizes,
            writes,
            gap,
            connections,
            due,
            full: false,
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `attached` can be read or has ended, if there is one; else for ever.
    ///
    /// # Errors
    /// When the ring fails; never by what a client does.
    pub fn serve(mut self, attached: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let mut ring = Ring::new(Limits {
            entries: 4096,
            files: self.sizes.connections,
            buffers: self.sizes.buffers,
            buffer_bytes: self.sizes.buffer_bytes,
        })?;
        let mut queues = ring.start()?;
        queues.accept(self.listener.as_fd(), ACCEPT)?;
        if let Some(descriptor) = attached {
            queues.poll(descriptor, ATTACHED)?;
        }
        loop {
            queues.wait(self.due.front().map(|(at, _)| *at))?;
            self.write_due(&mut queues)?;
            while let Some(completion) = queues.take() {
                match completion.name {
                    ATTACHED => return Ok(()),
                    ACCEPT => self.accepted(&mut queues, completion)?,
                    name if name & SEND == 0 => self.received(&mut queues, completion)?,
                    name => self.sent(&mut queues, name & !SEND)?,
                }
            }
        }
    }

    fn accepted(&mut self, queues: &mut Queues<'_>, completion: Completion) -> io::Result<()> {
        if let Ok(slot) = u32::try_from(completion.result) {
            let connection = &mut self.connections[slot as usize];
            *connection = Connection {
                generation: (connection.generation + 1) & 0x3fff_ffff,
                open: true,
                next: self.writes.len(),
                ..Connection::default()
            };
            queues.receive(slot, name_of(slot, connection.generation))?;
        }
        if completion.goes_on() {
            return Ok(());
        }
        self.full = [-libc::ENFILE, -libc::EMFILE].contains(&completion.result);
        if self.full {
            Ok(())
        } else {
            queues.accept(self.listener.as_fd(), ACCEPT)
        }
    }

    /// The connection of a name, unless its slot has been given to another one since.
    #[inline]
    fn connection(&mut self, name: u64) -> Option<(u32, &mut Connection)> {
        let slot = u32::try_from(name & 0xffff_ffff).expect("32 bits");
        let connection = self.connections.get_mut(slot as usize)?;
        let current = connection.open && name_of(slot, connection.generation) == name;
        current.then_some((slot, connection))
    }

    #[inline]
    fn received(&mut self, queues: &mut Queues<'_>, completion: Completion) -> io::Result<()> {
        let name = completion.name;
        let idle = self.writes.len();
        let Some((slot, connection)) = self.connection(name) else {
            // Its end has been handled; the bytes are nobody's.
            completion
                .buffer()
                .into_iter()
                .for_each(|buffer| queues.provide(buffer));
            return Ok(());
        };
        let Some(buffer) = completion.buffer() else {
            return match completion.result {
                result if result == -libc::ENOBUFS => queues.receive(slot, name),
                _ => self.close(queues, slot),
            };
        };
        let answered = connection.next == idle;
        let progress = connection
            .reader
            .read(queues.received(buffer, completion.result));
        queues.provide(buffer);
        if !completion.goes_on() {
            queues.receive(slot, name)?;
        }
        match progress {
            Progress::Partial => Ok(()),
            Progress::Whole if answered => self.answer(queues, name),
            Progress::Whole | Progress::Refused => {
                // The armed receive would keep the socket from being closed.
                queues.shut_down(slot, SEND | name)?;
                self.close(queues, slot)
            }
        }
    }

    /// Starts the answer to a request.
    #[inline]
    fn answer(&mut self, queues: &mut Queues<'_>, name: u64) -> io::Result<()> {
        let Some((slot, connection)) = self.connection(name) else {
            return Ok(());
        };
        connection.next = 0;
        if let [whole] = self.writes.as_slice() {
            // A failed send is followed by the end of the connection: nothing need be told.
            self.connections[slot as usize].next = 1;
            return queues.send(slot, whole, SEND | name, Report::Failure);
        }
        self.write(queues, name)?;
        if let Some(gap) = self.gap {
            self.due.push_back((MonotonicClock.now() + gap, name));
        }
        Ok(())
    }

    #[inline]
    fn write(&mut self, queues: &mut Queues<'_>, name: u64) -> io::Result<()> {
        let Some((slot, connection)) = self.connection(name) else {
            return Ok(());
        };
        let number = connection.next;
        connection.next += 1;
        connection.writing = true;
        queues.send(slot, self.writes[number], SEND | name, Report::Always)
    }

    #[inline]
    fn sent(&mut self, queues: &mut Queues<'_>, name: u64) -> io::Result<()> {
        let (idle, timed) = (self.writes.len(), self.gap.is_some());
        let Some((_, connection)) = self.connection(name) else {
            return Ok(());
        };
        connection.writing = false;
        let due = !timed || std::mem::take(&mut connection.late);
        if due && connection.next < idle {
            self.write(queues, name)
        } else {
            Ok(())
        }
    }

    /// Timed writes whose time has come.
    fn write_due(&mut self, queues: &mut Queues<'_>) -> io::Result<()> {
        let Some(gap) = self.gap.filter(|_| !self.due.is_empty()) else {
            return Ok(());
        };
        let now = MonotonicClock.now();
        while let Some(&(at, name)) = self.due.front()
            && at <= now
        {
            self.due.pop_front();
            let last = self.writes.len() - 1;
            let Some((_, connection)) = self.connection(name) else {
                continue;
            };
            if connection.next < last {
                self.due.push_back((at + gap, name));
            }
            let Some((_, connection)) = self.connection(name) else {
                continue;
            };
            if connection.writing {
                connection.late = true;
            } else {
                self.write(queues, name)?;
            }
        }
        Ok(())
    }

    fn close(&mut self, queues: &mut Queues<'_>, slot: u32) -> io::Result<()> {
        let connection = &mut self.connections[slot as usize];
        connection.open = false;
        queues.close(slot, SEND | name_of(slot, connection.generation))?;
        if std::mem::take(&mut self.full) {
            queues.accept(self.listener.as_fd(), ACCEPT)?;
        }
        Ok(())
    }
}

/// Names a use of a slot; the top bit stays free.
#[inline]
fn name_of(slot: u32, generation: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(slot)
}
