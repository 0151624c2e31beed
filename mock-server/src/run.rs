use std::io::{self, Write};
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use ridgeline_clock::{Timebase, realtime_bracket};
use ridgeline_net::{Driver, DriverError, Peer, raise_descriptor_limit};
use ridgeline_net_epoll::{EpollConfig, EpollDriver};
use ridgeline_net_uring::{UringConfig, UringDriver};
use ridgeline_tls as tls;

use crate::admin::Settings;
use crate::config::{Limits, Mode, ServerConfig};
use crate::control::{Control, Phase};
use crate::replay::ReplayError;
use crate::served::Served;
use crate::server::{Server, serve};
use crate::truth::{Header, Recorder, TruthCounts, TruthFile};

/// Which driver to serve with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum DriverKind {
    /// io_uring where it can be used, else epoll.
    #[default]
    Auto,
    /// io_uring, or fail.
    Uring,
    /// epoll.
    Epoll,
}

/// The driver that is used.
#[derive(Clone, Copy, Debug)]
enum Backend {
    Uring,
    Epoll,
}

impl Backend {
    /// The driver for `kind`, and why it is not the preferred one, where it is not.
    fn choose(kind: DriverKind) -> Result<(Self, Option<String>), ServerError> {
        if kind == DriverKind::Epoll {
            return Ok((Self::Epoll, None));
        }
        match UringDriver::probe() {
            Ok(()) => Ok((Self::Uring, None)),
            Err(error) if kind == DriverKind::Auto => Ok((Self::Epoll, Some(error.to_string()))),
            Err(error) => Err(error.into()),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Uring => "io_uring",
            Self::Epoll => "epoll",
        }
    }

    /// How many threads serve each of `cores` cores, and how many connections each of them takes, for
    /// `asked` connections in all where one table of descriptors has room for `descriptors`.
    fn share_out(
        self,
        asked: Option<u32>,
        cores: u32,
        descriptors: u32,
    ) -> Result<Shares, ServerError> {
        let per_core = match self {
            // A ring has a table of its own.
            Self::Uring => descriptors,
            // All share the process's.
            Self::Epoll => (descriptors / cores).max(1),
        };
        let Some(asked) = asked else {
            return Ok(Shares {
                threads_per_core: 1,
                connections_max: per_core,
            });
        };
        if let Self::Epoll = self {
            if asked > descriptors {
                return Err(ServerError::Descriptors { asked, descriptors });
            }
            return Ok(Shares {
                threads_per_core: 1,
                connections_max: share(asked, cores),
            });
        }
        let most = asked.div_ceil(cores).max(1);
        let fitting = (1..=most).find(|threads| share(asked, threads * cores) <= descriptors);
        let threads_per_core = fitting.ok_or(ServerError::Descriptors { asked, descriptors })?;
        Ok(Shares {
            threads_per_core,
            connections_max: share(asked, threads_per_core * cores),
        })
    }
}

/// How many threads there are, and what each takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shares {
    threads_per_core: u32,
    connections_max: u32,
}

/// Room for the share of one of `threads` in `all` connections. The kernel deals them out by a hash
/// of their addresses: the largest share is six standard deviations of the binomial distribution above
/// the mean less than once in a million million times.
fn share(all: u32, threads: u32) -> u32 {
    if threads == 1 {
        return all;
    }
    let mean = all.div_ceil(threads);
    let spread = 6 * (mean.isqrt() + 1);
    mean.saturating_add(spread).min(all)
}

/// Why a server can't start, or had to end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The driver can't be had, can't listen, or can't go on.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// Flags that don't go together, or ask for what can't be: cause and remedy.
    #[error("{0}")]
    Flags(String),
    /// More connections were asked for than descriptors can be had.
    #[error(
        "{asked} connections do not fit the limit on descriptors, which leaves {descriptors}: raise it \
         (ulimit -Hn), or ask for fewer"
    )]
    Descriptors {
        /// Connections.
        asked: u32,
        /// Descriptors for them.
        descriptors: u32,
    },
    /// The list of cores names none.
    #[error("no core to serve on: name at least one, or none of them by `none`")]
    NoCores,
    /// A socket in the file system has one thread.
    #[error("{0} threads can't share a unix socket: name one core, and fewer connections")]
    UnixThreads(usize),
    /// What should be replayed can't be.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// The truth file can't be made.
    #[error("cannot write the truth to {}: {source}", path.display())]
    Truth {
        /// The file.
        path: PathBuf,
        /// The operating system's answer.
        source: io::Error,
    },
    /// A thread can't be pinned.
    #[error("cannot pin a thread to core {0}: is it one of those that this process may use?")]
    Pin(usize),
    /// The operating system refused something.
    #[error("cannot {what}: {source}")]
    Os {
        /// What was tried.
        what: &'static str,
        /// The operating system's answer.
        source: io::Error,
    },
    /// A shard's thread panicked; its message is on stderr.
    #[error("a shard of the server panicked")]
    Panicked,
}

/// A server at work on threads of its own. Dropping it stops it.
#[derive(Debug)]
pub struct Running {
    address: SocketAddr,
    is_secure: bool,
    /// Listened on in place of the address.
    unix: Option<Arc<Path>>,
    /// The same, once it is there.
    bound: Option<UnixSocket>,
    driver: &'static str,
    fallback: Option<String>,
    connections_max: u32,
    control: Arc<Control>,
    shards: Vec<JoinHandle<Result<Served, ServerError>>>,
    /// Ends when no shard has a recorder any more.
    truth: Option<JoinHandle<TruthCounts>>,
}

/// A socket in the file system, which is removed with this.
#[derive(Debug)]
struct UnixSocket(Arc<Path>);

impl UnixSocket {
    /// Makes room for one at `path`, where a server left its own that was killed.
    fn clear(path: &Path) {
        let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
        if UnixStream::connect(path).is_err_and(refused) {
            // If it stays, it is in the way of listening, which says so.
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Drop for UnixSocket {
    fn drop(&mut self) {
        // Whoever listens there later is told if it is still there.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Stops a server from another thread, any number of times.
#[derive(Clone, Debug)]
pub struct Stopper(Arc<Control>);

impl Stopper {
    pub(crate) fn new(control: &Arc<Control>) -> Self {
        Self(Arc::clone(control))
    }

    /// Asks all shards to end: every connection is closed, then the threads return.
    pub fn stop(&self) {
        self.0.go_on_to(Phase::Ending);
    }

    /// Asks all shards to take nothing more and to end when all that is under way is answered, or when
    /// [`ServerConfig::drain_max`] is over.
    pub fn drain(&self) {
        self.0.go_on_to(Phase::Draining);
    }
}

/// Where a server runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The address to listen on; port 0: any free one.
    pub listen: SocketAddr,
    /// A socket in the file system to listen on in its place. It is made, and removed at the end.
    pub unix: Option<Arc<Path>>,
    /// How to talk to the kernel.
    pub driver: DriverKind,
    /// The cores to pin threads to; `None`: one thread, not pinned.
    pub cores: Option<Vec<usize>>,
    /// Connections to have room for at one time, all threads together. As many threads per core are
    /// started as that takes: the kernel limits each ring to RLIMIT_NOFILE connections. `None`: one
    /// thread per core, and what it has room for.
    pub connections_max: Option<u32>,
}

impl Placement {
    /// One thread, not pinned, with what is the best driver here.
    #[must_use]
    pub fn at(listen: SocketAddr) -> Self {
        Self {
            listen,
            unix: None,
            driver: DriverKind::Auto,
            cores: None,
            connections_max: None,
        }
    }
}

/// Starts a server. All threads listen on the same port; the kernel spreads the connections. The
/// process's soft limit on descriptors is raised to the hard one.
///
/// # Errors
/// When the driver, the address, a core or room for the connections can't be had. Nothing is left
/// running then.
pub fn start(config: ServerConfig, placement: Placement) -> Result<Running, ServerError> {
    start_with(config, placement, None, None)
}

/// The same, for a config that `settings` led to, and with TLS where there is `tls`.
pub(crate) fn start_with(
    config: ServerConfig,
    placement: Placement,
    settings: Option<Settings>,
    tls: Option<tls::Server>,
) -> Result<Running, ServerError> {
    let Placement {
        listen,
        unix,
        driver,
        cores,
        connections_max,
    } = placement;
    let cores: Vec<_> = cores.map_or_else(|| vec![None], |c| c.into_iter().map(Some).collect());
    let cores_count = u32::try_from(cores.len()).unwrap_or(u32::MAX);
    if cores_count == 0 {
        return Err(ServerError::NoCores);
    }
    let (backend, fallback) = Backend::choose(driver)?;
    config.vocabulary.warm();
    let shares = backend.share_out(connections_max, cores_count, descriptors())?;
    let unasked_max = connections_max.map_or(config.limits.connections_max, |_| u32::MAX);
    let connections_max = shares.connections_max.min(unasked_max);
    let config = ServerConfig {
        limits: Limits {
            connections_max,
            ..config.limits
        },
        ..config
    };
    let places: Vec<_> = (0..shares.threads_per_core)
        .flat_map(|_| cores.iter().copied())
        .collect();
    if let Some(path) = &unix {
        if places.len() > 1 {
            return Err(ServerError::UnixThreads(places.len()));
        }
        UnixSocket::clear(path);
    }
    let control = Control::new(config, settings, places.len());
    let mut running = Running {
        address: listen,
        is_secure: tls.is_some(),
        unix,
        bound: None,
        driver: backend.name(),
        fallback,
        connections_max,
        control,
        shards: Vec::new(),
        truth: None,
    };
    let mut recorders = running.write_truth(&places)?.into_iter();
    let share_port = places.len() > 1;
    for (number, core) in places.into_iter().enumerate() {
        // Any port, where that was asked for, is chosen by the first shard.
        let shard = Shard {
            number,
            listen: running.listen(),
            share_port,
            core,
            control: Arc::clone(&running.control),
            recorder: recorders.next(),
            tls: tls.clone(),
        };
        running.add(shard, backend)?;
    }
    Ok(running)
}

/// What the kernel interface's set of cores has room for.
pub(crate) const CORES_MAX: usize = 1_024;

/// Descriptors that are left for everything that is not a connection.
const DESCRIPTORS_SPARE: u64 = 256;

/// How many connections the limit on descriptors allows one driver, once it is raised as far as
/// it may be.
fn descriptors() -> u32 {
    let left = raise_descriptor_limit().saturating_sub(DESCRIPTORS_SPARE);
    u32::try_from(left).unwrap_or(u32::MAX).max(1)
}

struct Shard {
    number: usize,
    listen: Peer,
    /// Others listen on the same port.
    share_port: bool,
    core: Option<usize>,
    control: Arc<Control>,
    recorder: Option<Recorder>,
    tls: Option<tls::Server>,
}

impl Shard {
    /// Pins the thread and serves. Tells `ready` where, once it listens.
    fn run(mut self, backend: Backend, ready: &mpsc::Sender<Peer>) -> Result<Served, ServerError> {
        // A wait ends when it should, not up to 50 us later to share a wake-up. Should this be
        // refused, the lateness that is counted shows it.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let ended = self.pin().and_then(|()| match backend {
            Backend::Uring => self.serve(UringDriver::new(self.uring())?, ready),
            Backend::Epoll => self.serve(EpollDriver::new(self.epoll())?, ready),
        });
        // One shard that can't go on ends the others, so that whoever joins is told.
        self.control.go_on_to(Phase::Ending);
        ended
    }

    fn pin(&self) -> Result<(), ServerError> {
        match self.core {
            Some(id)
                if id >= CORES_MAX
                    || !core_affinity::set_for_current(core_affinity::CoreId { id }) =>
            {
                Err(ServerError::Pin(id))
            }
            _ => Ok(()),
        }
    }

    fn uring(&self) -> UringConfig {
        let config = self.control.config();
        let plain = UringConfig::new(config.limits.connections_max);
        UringConfig {
            rx_timestamps: rx_timestamps(&config),
            reuse_port: self.share_port,
            // Each write is then handed over alone, just after the clock was read for it: of several at once
            // the later ones would wait for the earlier ones, and the truth would not tell.
            sq_entries: if config.truth.is_some() {
                1
            } else {
                plain.sq_entries
            },
            ..plain
        }
    }

    fn epoll(&self) -> EpollConfig {
        EpollConfig {
            connections_max: self.control.config().limits.connections_max,
            reuse_port: self.share_port,
            ..EpollConfig::default()
        }
    }

    fn serve<D: Driver>(
        &mut self,
        mut driver: D,
        ready: &mpsc::Sender<Peer>,
    ) -> Result<Served, ServerError> {
        let epoch = realtime_bracket().offset;
        let mut server = Server::of(Arc::clone(&self.control), self.number, epoch);
        server.record(self.recorder.take());
        server.secure(self.tls.take());
        let address = driver.listen(&self.listen)?;
        self.control.add(driver.waker());
        // Nobody is left to be told when the receiver is gone: then the server is being stopped.
        let _ = ready.send(address);
        serve(&mut driver, &mut server)?;
        Ok(server.served())
    }
}

/// Kernel stamps keep modelled times from the request's arrival even when the server is busy, and are
/// part of the truth. An instant answer has no times, and stamps would cost it speed.
fn rx_timestamps(config: &ServerConfig) -> bool {
    matches!(config.mode, Mode::Model(_)) || config.truth.is_some()
}

impl Running {
    /// Starts the truth file, if one is asked for. A recorder for each thread of `places`.
    fn write_truth(&mut self, places: &[Option<usize>]) -> Result<Vec<Recorder>, ServerError> {
        let config = self.control.config();
        let Some(path) = &config.truth else {
            return Ok(Vec::new());
        };
        let failed = |source| ServerError::Truth {
            path: path.clone(),
            source,
        };
        let realtime = realtime_bracket();
        let header = Header {
            driver: self.driver,
            rx_timestamps: self.driver == Backend::Uring.name() && rx_timestamps(&config),
            timebase: Timebase::read(),
            start: realtime.at,
            realtime,
        };
        let mut file = TruthFile::create(path, &header).map_err(failed)?;
        let limits = &config.limits;
        let requests = limits.connections_max as usize;
        let recorders = places
            .iter()
            .map(|_| file.recorder(limits.truth_queued_max, requests));
        let recorders = recorders.collect();
        let tell = |text: &str| {
            // Without a stderr there is nobody to tell.
            let _ = writeln!(io::stderr().lock(), "{text}");
        };
        let cores = places.iter().flatten().copied().collect();
        self.truth = Some(file.write(cores, tell).map_err(failed)?);
        Ok(recorders)
    }

    /// Starts a thread, and waits until it listens.
    fn add(&mut self, shard: Shard, backend: Backend) -> Result<(), ServerError> {
        let (ready, started) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name(format!("mock-server-{}", shard.number))
            .spawn(move || shard.run(backend, &ready))
            .map_err(|source| ServerError::Os {
                what: "start a thread",
                source,
            })?;
        self.shards.push(thread);
        if let Ok(listening) = started.recv() {
            match listening {
                Peer::Tcp(address) => self.address = address,
                Peer::Unix(path) => self.bound = Some(UnixSocket(path)),
            }
            return Ok(());
        }
        // The thread is gone, and returns why.
        self.control.go_on_to(Phase::Ending);
        Err(self.join_all().err().unwrap_or(ServerError::Panicked))
    }

    /// Where the next thread listens.
    fn listen(&self) -> Peer {
        match &self.unix {
            Some(path) => Peer::Unix(Arc::clone(path)),
            None => Peer::Tcp(self.address),
        }
    }

    /// The base URL, `http://127.0.0.1:PORT` or `unix:PATH`; `https://` where it speaks TLS.
    #[must_use]
    pub fn url(&self) -> String {
        match self.listen() {
            Peer::Tcp(address) if self.is_secure => format!("https://{address}"),
            Peer::Tcp(address) => format!("http://{address}"),
            socket @ Peer::Unix(_) => socket.to_string(),
        }
    }

    /// The address that is listened on, with the port that was chosen; on a socket in the file system, the one
    /// that it is in place of.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The driver in use: `io_uring` or `epoll`.
    #[must_use]
    pub fn driver(&self) -> &'static str {
        self.driver
    }

    /// Why epoll is used, where io_uring would have been preferred.
    #[must_use]
    pub fn fallback(&self) -> Option<&str> {
        self.fallback.as_deref()
    }

    /// Threads that serve.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.shards.len()
    }

    /// Connections that each thread takes at one time: its share of those that were asked for, or as
    /// many as the limit on descriptors allows.
    #[must_use]
    pub fn connections_max(&self) -> u32 {
        self.connections_max
    }

    /// A handle to stop the server with.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        Stopper::new(&self.control)
    }

    /// What it measures.
    pub(crate) fn watched(&self) -> Arc<Control> {
        Arc::clone(&self.control)
    }

    /// Stops the server and waits for it. Returns what it counted.
    ///
    /// # Errors
    /// The first error of a shard.
    pub fn stop(self) -> Result<Served, ServerError> {
        self.control.go_on_to(Phase::Ending);
        self.join()
    }

    /// Waits until the server was stopped, or failed. Returns what it counted.
    ///
    /// # Errors
    /// The first error of a shard.
    pub fn join(mut self) -> Result<Served, ServerError> {
        let mut served = self.join_all()?;
        if let Some(truth) = self.truth.take() {
            let counts = truth.join().map_err(|_| ServerError::Panicked)?;
            served.truth_lines = counts.lines;
            served.truth_dropped = counts.dropped;
        }
        Ok(served)
    }

    fn join_all(&mut self) -> Result<Served, ServerError> {
        let mut sum = Served::default();
        let mut failed = None;
        for shard in self.shards.drain(..) {
            match shard.join().unwrap_or(Err(ServerError::Panicked)) {
                Ok(served) => sum.merge(&served),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(sum), Err)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.control.go_on_to(Phase::Ending);
        for shard in self.shards.drain(..) {
            // Whoever wanted to know how it ended would have called `stop`.
            let _ = shard.join();
        }
        if let Some(truth) = self.truth.take() {
            let _ = truth.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_ring_serves_what_it_has_room_for() {
        let shares = |backend: Backend, asked, cores| {
            let shares = backend.share_out(asked, cores, 19_744).unwrap();
            (shares.threads_per_core, shares.connections_max)
        };
        assert_eq!(shares(Backend::Uring, None, 4), (1, 19_744));
        assert_eq!(shares(Backend::Epoll, None, 4), (1, 4_936));
        assert_eq!(shares(Backend::Uring, Some(10), 1), (1, 10));
        assert_eq!(shares(Backend::Uring, Some(19_744), 1), (1, 19_744));
        // Two rings would have room for no more than 19,744 each, and shares are not even.
        assert_eq!(shares(Backend::Uring, Some(39_000), 1), (3, 13_690));
        assert_eq!(shares(Backend::Uring, Some(30_000), 2), (1, 15_738));
        assert_eq!(shares(Backend::Epoll, Some(19_744), 1), (1, 19_744));
        assert!(Backend::Epoll.share_out(Some(19_745), 1, 19_744).is_err());
    }

    proptest! {
        #[test]
        fn there_is_room_for_all_and_some(
            asked in 1..3_000_000_u32,
            cores in 1..64_u32,
            descriptors in 500..100_000_u32,
        ) {
            if let Ok(shares) = Backend::Uring.share_out(Some(asked), cores, descriptors) {
                let threads = u64::from(shares.threads_per_core * cores);
                prop_assert!(shares.connections_max <= descriptors);
                prop_assert!(threads * u64::from(shares.connections_max) >= u64::from(asked));
                // One thread fewer per core would not do.
                let fewer = shares.threads_per_core - 1;
                prop_assert!(fewer == 0 || share(asked, fewer * cores) > descriptors);
            } else {
                prop_assert!(false, "any number can be spread over rings of 500");
            }
        }
    }
}
