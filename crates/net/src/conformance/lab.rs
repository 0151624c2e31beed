use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ridgeline_clock::{Clock, MonotonicClock, Nanos};

use crate::sim::{Fate, SimConfig, SimDriver, SimNet};
use crate::{Driver, Peer};

/// Where drivers of one kind are tried: how they are made, their clock, and addresses for them.
pub trait Lab {
    /// The kind.
    type Driver: Driver;

    /// A new driver. Every driver of a lab is made and turned on the calling thread.
    fn driver(&mut self, connections_max: u32) -> Self::Driver;

    /// The time on the drivers' clock.
    fn now(&self) -> Nanos;

    /// Where to listen: any free port.
    fn tcp(&mut self) -> Peer;

    /// Where to listen: a free name.
    fn unix(&mut self) -> Peer;

    /// Where nobody listens.
    fn deserted(&mut self) -> Peer;

    /// Where a connection attempt is never answered, if the lab has such a place.
    fn silent(&mut self) -> Option<Peer>;

    /// When a connection attempt at a silent place is given up, if that is worth waiting for.
    fn times_out_after(&self) -> Option<Nanos>;

    /// Whether sockets of `std::net` can reach the drivers.
    fn is_real(&self) -> bool;
}

/// The sockets of this machine, for real drivers.
#[derive(Debug)]
pub struct Loopback<F> {
    make: F,
    paths: Vec<PathBuf>,
    silent: Option<(TcpListener, Vec<TcpStream>)>,
}

impl<F> Loopback<F> {
    /// A lab whose drivers `make` makes, each for the given number of connections.
    pub fn new(make: F) -> Self {
        Self {
            make,
            paths: Vec::new(),
            silent: None,
        }
    }

    /// A listener whose queue of connections is full: the kernel drops further attempts.
    fn fill(&mut self) -> Option<SocketAddr> {
        const QUEUE_MAX: usize = 5_000;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).ok()?;
        let address = listener.local_addr().ok()?;
        let mut queue = Vec::new();
        while queue.len() < QUEUE_MAX {
            match TcpStream::connect_timeout(&address, Duration::from_millis(200)) {
                Ok(stream) => queue.push(stream),
                Err(_) => {
                    self.silent = Some((listener, queue));
                    return Some(address);
                }
            }
        }
        None
    }
}

impl<D: Driver, F: FnMut(u32) -> D> Lab for Loopback<F> {
    type Driver = D;

    fn driver(&mut self, connections_max: u32) -> D {
        (self.make)(connections_max)
    }

    fn now(&self) -> Nanos {
        MonotonicClock.now()
    }

    fn tcp(&mut self) -> Peer {
        Peer::Tcp((Ipv4Addr::LOCALHOST, 0).into())
    }

    fn unix(&mut self) -> Peer {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("ridgeline-{}-{number}.sock", std::process::id());
        let path = std::env::temp_dir().join(name);
        self.paths.push(path.clone());
        Peer::Unix(path.into())
    }

    fn deserted(&mut self) -> Peer {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        Peer::Tcp(
            listener
                .local_addr()
                .expect("a bound listener has an address"),
        )
    }

    fn silent(&mut self) -> Option<Peer> {
        self.fill().map(Peer::Tcp)
    }

    fn times_out_after(&self) -> Option<Nanos> {
        None // Minutes, with the usual tcp_syn_retries.
    }

    fn is_real(&self) -> bool {
        true
    }
}

impl<F> Drop for Loopback<F> {
    fn drop(&mut self) {
        for path in &self.paths {
            // Gone already if its listener removed it.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// A virtual network, for the virtual driver.
#[derive(Debug)]
pub struct SimLab {
    net: SimNet,
    timeout: Nanos,
    places: u16,
}

impl SimLab {
    /// A lab on a network of this kind.
    #[must_use]
    pub fn new(config: SimConfig) -> Self {
        Self {
            net: SimNet::new(config),
            timeout: config.connect_timeout,
            places: 0,
        }
    }

    fn next(&mut self) -> Peer {
        self.places += 1;
        Peer::Tcp(([10, 1, 0, 1], self.places).into())
    }
}

impl Default for SimLab {
    fn default() -> Self {
        Self::new(SimConfig::default())
    }
}

impl Lab for SimLab {
    type Driver = SimDriver;

    fn driver(&mut self, connections_max: u32) -> SimDriver {
        self.net.driver(connections_max)
    }

    fn now(&self) -> Nanos {
        self.net.clock().now()
    }

    fn tcp(&mut self) -> Peer {
        Peer::Tcp(([10, 0, 0, 1], 0).into())
    }

    fn unix(&mut self) -> Peer {
        self.places += 1;
        Peer::Unix(Arc::from(Path::new(&format!("/run/{}.sock", self.places))))
    }

    fn deserted(&mut self) -> Peer {
        self.next()
    }

    fn silent(&mut self) -> Option<Peer> {
        let peer = self.next();
        self.net.fate(&peer, Fate::Silent);
        Some(peer)
    }

    fn times_out_after(&self) -> Option<Nanos> {
        Some(self.timeout)
    }

    fn is_real(&self) -> bool {
        false
    }
}
