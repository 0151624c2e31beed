use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;

use ridgeline_clock::realtime_bracket;
use ridgeline_net::{Driver, DriverError, Peer, Wake, raise_descriptor_limit};
use ridgeline_net_epoll::{EpollConfig, EpollDriver};
use ridgeline_net_uring::{UringConfig, UringDriver};

use crate::config::{Limits, Mode, ServerConfig};
use crate::served::Served;
use crate::server::{Server, serve};

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

    /// How many connections one of `shards` drivers can have with this many descriptors. A ring
    /// has a table of its own; with epoll all share the process's.
    fn connections_max(self, descriptors: u32, shards: usize) -> u32 {
        match self {
            Self::Uring => descriptors,
            Self::Epoll => descriptors / u32::try_from(shards).unwrap_or(u32::MAX).max(1),
        }
    }
}

/// Why a server can't start, or had to end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The driver can't be had, can't listen, or can't go on.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// The list of cores names none.
    #[error("no core to serve on: name at least one, or none of them by `none`")]
    NoCores,
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
    driver: &'static str,
    fallback: Option<String>,
    connections_max: u32,
    stopper: Stopper,
    shards: Vec<JoinHandle<Result<Served, ServerError>>>,
}

/// Stops a server from another thread, any number of times.
#[derive(Clone, Debug, Default)]
pub struct Stopper(Arc<Stop>);

#[derive(Default)]
struct Stop {
    asked: AtomicBool,
    wakers: Mutex<Vec<Box<dyn Fn() + Send>>>,
}

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stop")
            .field("asked", &self.asked)
            .finish_non_exhaustive()
    }
}

impl Stopper {
    /// Asks all shards to end: every connection is closed, then the threads return.
    pub fn stop(&self) {
        self.0.asked.store(true, Ordering::Release);
        for wake in self
            .0
            .wakers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
        {
            wake();
        }
    }

    fn add(&self, waker: impl Wake) {
        let mut wakers = self.0.wakers.lock().unwrap_or_else(PoisonError::into_inner);
        wakers.push(Box::new(move || waker.wake()));
    }
}

/// Starts a server: one shard without `cores`, else one per core, pinned to it. All listen on the
/// same port; the kernel spreads the connections. The process's soft limit on descriptors is raised
/// to the hard one.
///
/// # Errors
/// When the driver, the address or a core can't be had. Nothing is left running then.
pub fn start(
    config: ServerConfig,
    listen: SocketAddr,
    driver: DriverKind,
    cores: Option<Vec<usize>>,
) -> Result<Running, ServerError> {
    let cores: Vec<_> = cores.map_or_else(|| vec![None], |c| c.into_iter().map(Some).collect());
    if cores.is_empty() {
        return Err(ServerError::NoCores);
    }
    let (backend, fallback) = Backend::choose(driver)?;
    let connections_max = config
        .limits
        .connections_max
        .min(backend.connections_max(descriptors(), cores.len()));
    let config = ServerConfig {
        limits: Limits {
            connections_max,
            ..config.limits
        },
        ..config
    };
    let share_port = cores.len() > 1;
    let mut running = Running {
        address: listen,
        driver: backend.name(),
        fallback,
        connections_max,
        stopper: Stopper::default(),
        shards: Vec::new(),
    };
    for (number, core) in cores.into_iter().enumerate() {
        // Any port, where that was asked for, is chosen by the first shard.
        let shard = Shard {
            config: config.clone(),
            listen: running.address,
            share_port,
            core,
            stopper: running.stopper.clone(),
        };
        let (ready, started) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name(format!("mock-server-{number}"))
            .spawn(move || shard.run(backend, &ready))
            .map_err(|source| ServerError::Os {
                what: "start a thread",
                source,
            })?;
        running.shards.push(thread);
        match started.recv() {
            Ok(address) => running.address = address,
            // The thread is gone, and returns why.
            Err(mpsc::RecvError) => {
                return Err(running.stop().err().unwrap_or(ServerError::Panicked));
            }
        }
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
    config: ServerConfig,
    listen: SocketAddr,
    /// Others listen on the same port.
    share_port: bool,
    core: Option<usize>,
    stopper: Stopper,
}

impl Shard {
    /// Pins the thread and serves. Tells `ready` where, once it listens.
    fn run(
        self,
        backend: Backend,
        ready: &mpsc::Sender<SocketAddr>,
    ) -> Result<Served, ServerError> {
        let ended = self.pin().and_then(|()| match backend {
            Backend::Uring => self.serve(UringDriver::new(self.uring())?, ready),
            Backend::Epoll => self.serve(EpollDriver::new(self.epoll())?, ready),
        });
        // One shard that can't go on ends the others, so that whoever joins is told.
        self.stopper.stop();
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

    /// Kernel stamps keep modelled times from the request's arrival even when the server is busy.
    /// An instant answer has no times, and stamps would cost it speed.
    fn uring(&self) -> UringConfig {
        UringConfig {
            rx_timestamps: matches!(self.config.mode, Mode::Model(_)),
            reuse_port: self.share_port,
            ..UringConfig::new(self.config.limits.connections_max)
        }
    }

    fn epoll(&self) -> EpollConfig {
        EpollConfig {
            connections_max: self.config.limits.connections_max,
            reuse_port: self.share_port,
            ..EpollConfig::default()
        }
    }

    fn serve<D: Driver>(
        &self,
        mut driver: D,
        ready: &mpsc::Sender<SocketAddr>,
    ) -> Result<Served, ServerError> {
        let mut server = Server::new(&self.config, realtime_bracket().offset);
        let address = match driver.listen(&Peer::Tcp(self.listen))? {
            Peer::Tcp(address) => address,
            Peer::Unix(_) => self.listen,
        };
        self.stopper.add(driver.waker());
        // Nobody is left to be told when the receiver is gone: then the server is being stopped.
        let _ = ready.send(address);
        serve(&mut driver, &mut server, &self.stopper.0.asked)?;
        Ok(server.served())
    }
}

impl Running {
    /// The base URL, `http://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The address that is listened on, with the port that was chosen.
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

    /// Connections that each shard takes at one time: as configured, or as many as the limit on
    /// descriptors allows.
    #[must_use]
    pub fn connections_max(&self) -> u32 {
        self.connections_max
    }

    /// A handle to stop the server with.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Stops the server and waits for it. Returns what it counted.
    ///
    /// # Errors
    /// The first error of a shard.
    pub fn stop(self) -> Result<Served, ServerError> {
        self.stopper.stop();
        self.join()
    }

    /// Waits until the server was stopped, or failed. Returns what it counted.
    ///
    /// # Errors
    /// The first error of a shard.
    pub fn join(mut self) -> Result<Served, ServerError> {
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
        self.stopper.stop();
        for shard in self.shards.drain(..) {
            // Whoever wanted to know how it ended would have called `stop`.
            let _ = shard.join();
        }
    }
}
