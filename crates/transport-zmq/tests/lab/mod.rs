//! Where pairs of ends are made, for the tests of this crate.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::sync::LazyLock;

use ridgeline_clock::{Clock, MonotonicClock, Nanos};
use ridgeline_net::Driver;
use ridgeline_net::sim::{Shape, SimConfig, SimDriver, SimNet};
use ridgeline_net_epoll::{EpollConfig, EpollDriver};
use ridgeline_net_uring::{UringConfig, UringDriver};
use ridgeline_transport::Limits;
use ridgeline_transport::conformance::Lab;
use ridgeline_transport_zmq::{Address, Keys, Kind, Zmq};
use tempfile::TempDir;

/// What kinds the two ends are, and who listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// PUSH connects to PULL.
    OneWay,
    /// DEALER connects to ROUTER.
    BothWays,
    /// ROUTER connects to DEALER, and sends first.
    BothWaysTurned,
}

/// Which kind of address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Ipc,
    Tcp,
}

/// Derived once: it takes a while.
pub(crate) fn keys() -> Keys {
    static KEYS: LazyLock<Keys> =
        LazyLock::new(|| Keys::from_token("a token for tests alone").unwrap());
    KEYS.clone()
}

/// Drivers of one kind, with their clock.
pub(crate) trait World {
    type Driver: Driver;
    type Clock: Clock + Clone;
    fn driver(&self) -> Self::Driver;
    fn clock(&self) -> Self::Clock;
}

#[derive(Debug)]
pub(crate) struct Sim(SimNet);

impl World for Sim {
    type Driver = SimDriver;
    type Clock = ridgeline_clock::SimClock;

    fn driver(&self) -> SimDriver {
        self.0.driver(64)
    }

    fn clock(&self) -> Self::Clock {
        self.0.clock()
    }
}

/// A network without faults.
pub(crate) fn sim() -> Sim {
    Sim(SimNet::new(SimConfig::default()))
}

/// A network that cuts and merges everything, and is late.
pub(crate) fn sim_rough() -> Sim {
    let shape = Shape {
        jitter: Nanos::from_micros(300),
        segment_bytes_max: 3_000,
        split_ppm: 400_000,
        merge_ppm: 300_000,
        stall_ppm: 1_000,
        stall: Nanos::from_millis(30),
        ..Shape::default()
    };
    Sim(SimNet::new(SimConfig {
        seed: 7,
        shape,
        read_bytes_max: 10_000,
        ..SimConfig::default()
    }))
}

/// A driver of this machine, made by the function.
#[derive(Debug)]
pub(crate) struct Machine<F>(F);

impl<D: Driver, F: Fn() -> D> World for Machine<F> {
    type Driver = D;
    type Clock = MonotonicClock;

    fn driver(&self) -> D {
        (self.0)()
    }

    fn clock(&self) -> MonotonicClock {
        MonotonicClock
    }
}

/// io_uring, or the end of the test where there is none.
#[expect(clippy::print_stdout, reason = "a test that is skipped says so")]
pub(crate) fn uring() -> impl World {
    Machine(|| {
        if let Err(missing) = UringDriver::probe() {
            println!("skipped: {missing}");
            std::process::exit(0);
        }
        UringDriver::new(UringConfig {
            buffers_count: 64,
            ..UringConfig::new(64)
        })
        .unwrap()
    })
}

pub(crate) fn epoll() -> impl World {
    Machine(|| {
        EpollDriver::new(EpollConfig {
            connections_max: 64,
            ..EpollConfig::default()
        })
        .unwrap()
    })
}

/// Pairs of ends.
#[derive(Debug)]
pub(crate) struct ZmqLab<W> {
    world: W,
    direction: Direction,
    way: Way,
    folder: TempDir,
    names: u32,
    /// Of a token that both ends have.
    keys: Option<Keys>,
}

impl<W: World> ZmqLab<W> {
    pub(crate) fn new(world: W, direction: Direction, way: Way) -> Self {
        Self {
            world,
            direction,
            way,
            folder: tempfile::tempdir().unwrap(),
            names: 0,
            keys: None,
        }
    }

    /// The same with a token.
    pub(crate) fn secured(self) -> Self {
        Self {
            keys: Some(keys()),
            ..self
        }
    }

    fn end(&self, kind: Kind, limits: Limits) -> Zmq<W::Driver, W::Clock> {
        let end = Zmq::new(self.world.driver(), self.world.clock(), kind, limits);
        match &self.keys {
            Some(keys) => end.secured(keys.clone()),
            None => end,
        }
    }

    fn address(&mut self) -> Address {
        self.names += 1;
        match self.way {
            Way::Ipc => Address::Ipc(self.folder.path().join(format!("{}.sock", self.names))),
            Way::Tcp => "tcp://127.0.0.1:0".parse().unwrap(),
        }
    }
}

impl<W: World> Lab for ZmqLab<W> {
    type End = Zmq<W::Driver, W::Clock>;

    fn pair(&mut self, limits: Limits) -> (Self::End, Self::End) {
        let (near, far) = match self.direction {
            Direction::OneWay => (Kind::Push, Kind::Pull),
            Direction::BothWays => (Kind::Dealer, Kind::Router),
            Direction::BothWaysTurned => (Kind::Router, Kind::Dealer),
        };
        let address = self.address();
        let mut near = self.end(near, limits);
        let mut far = self.end(far, limits);
        let bound = far.bind(&address).unwrap();
        near.connect(&bound).unwrap();
        (near, far)
    }

    fn alone(&mut self, limits: Limits) -> Self::End {
        let address = self.address();
        let mut end = self.end(Kind::Push, limits);
        end.bind(&address).unwrap();
        end
    }

    fn now(&self) -> Nanos {
        self.world.clock().now()
    }

    fn is_two_way(&self) -> bool {
        self.direction != Direction::OneWay
    }
}
