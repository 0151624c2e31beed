//! Which driver a run uses, and the run on it.

use std::sync::Arc;

use clap::ValueEnum;
use ridgeline_clock::{MonotonicClock, Nanos};
use ridgeline_engine::{Control, EngineError, Feed, Plan, Record, Requests, RunResult, run, serve};
use ridgeline_metrics::Phase;
use ridgeline_net::{Driver, DriverError};
use ridgeline_net_epoll::{EpollConfig, EpollDriver};
#[cfg(feature = "glommio")]
use ridgeline_net_glommio::GlommioDriver;
#[cfg(feature = "monoio")]
use ridgeline_net_monoio::MonoioDriver;
#[cfg(any(feature = "monoio", feature = "glommio"))]
use ridgeline_net_tasks::TasksConfig;
use ridgeline_net_uring::{UringConfig, UringDriver};
use ridgeline_service::{Served, Service, ServiceError};
use ridgeline_transport::{Limits, TransportError};
use ridgeline_transport_zmq::{Address, Kind, Zmq};
use rtrb::Producer;

use crate::complaint::Complaint;
use crate::config::DriverKind;

/// The drivers that are built in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backend {
    Uring,
    Epoll,
    #[cfg(feature = "monoio")]
    Monoio,
    #[cfg(feature = "glommio")]
    Glommio,
}

impl Backend {
    /// Those that can be used here, as `--driver` names them.
    pub(crate) fn usable() -> Vec<String> {
        let kinds = [
            DriverKind::Uring,
            DriverKind::Epoll,
            DriverKind::Monoio,
            DriverKind::Glommio,
        ];
        let usable = kinds.iter().filter(|kind| Self::choose(**kind).is_ok());
        let names = usable.filter_map(ValueEnum::to_possible_value);
        names.map(|value| value.get_name().to_owned()).collect()
    }

    /// The driver for `kind`, and why it is not the preferred one, if so.
    pub(crate) fn choose(kind: DriverKind) -> Result<(Self, Option<String>), Complaint> {
        match kind {
            DriverKind::Epoll => Ok((Self::Epoll, None)),
            DriverKind::Uring => {
                UringDriver::probe()?;
                Ok((Self::Uring, None))
            }
            #[cfg(feature = "monoio")]
            DriverKind::Monoio => {
                MonoioDriver::probe()?;
                Ok((Self::Monoio, None))
            }
            #[cfg(not(feature = "monoio"))]
            DriverKind::Monoio => Err(absent("monoio")),
            #[cfg(feature = "glommio")]
            DriverKind::Glommio => {
                // glommio itself panics where there is no io_uring.
                UringDriver::probe()?;
                GlommioDriver::probe()?;
                Ok((Self::Glommio, None))
            }
            #[cfg(not(feature = "glommio"))]
            DriverKind::Glommio => Err(absent("glommio")),
            DriverKind::Auto => match UringDriver::probe() {
                Ok(()) => Ok((Self::Uring, None)),
                Err(missing) => {
                    let why = missing.to_string();
                    let what = why.split(": the epoll driver").next().unwrap_or(&why);
                    Ok((Self::Epoll, Some(format!("{what}: epoll is used instead"))))
                }
            },
        }
    }

    /// As reports name it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Uring => "io_uring",
            Self::Epoll => "epoll",
            #[cfg(feature = "monoio")]
            Self::Monoio => "monoio",
            #[cfg(feature = "glommio")]
            Self::Glommio => "glommio",
        }
    }

    /// Whether bytes can carry the kernel's receive stamps.
    pub(crate) const fn has_stamps(self) -> bool {
        matches!(self, Self::Uring | Self::Epoll)
    }

    /// Whether every open connection holds a receive buffer of its own.
    pub(crate) const fn holds_buffers(self) -> bool {
        !matches!(self, Self::Uring | Self::Epoll)
    }

    /// Runs this process's shards of the plan; `starts` says when phases begin.
    pub(crate) fn run(
        self,
        plan: &Arc<Plan>,
        requests: &Arc<Requests>,
        control: &Arc<Control>,
        records: Vec<Producer<Record>>,
        starts: impl Fn(Phase) -> Nanos + Sync,
    ) -> Result<RunResult, EngineError> {
        match self {
            Self::Uring => run(plan, requests, control, records, starts, uring),
            Self::Epoll => run(plan, requests, control, records, starts, epoll),
            #[cfg(feature = "monoio")]
            Self::Monoio => run(plan, requests, control, records, starts, monoio),
            #[cfg(feature = "glommio")]
            Self::Glommio => run(plan, requests, control, records, starts, glommio),
        }
    }

    /// Runs a service between these two addresses.
    pub(crate) fn serve(
        self,
        service: Service,
        ends: &Ends,
        engine: &Engine<'_>,
        ready: impl FnOnce(),
    ) -> Result<Served, ServiceError> {
        match self {
            Self::Uring => service.run(
                || ends.requests(UringDriver::new(ends.uring())?),
                || ends.responses(UringDriver::new(ends.uring())?),
                ready,
                |feeds| engine.serve(feeds, uring),
            ),
            Self::Epoll => ends.serve(service, engine, ready, epoll),
            #[cfg(feature = "monoio")]
            Self::Monoio => ends.serve(service, engine, ready, monoio),
            #[cfg(feature = "glommio")]
            Self::Glommio => ends.serve(service, engine, ready, glommio),
        }
    }
}

/// What the shards of a service are made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Engine<'a> {
    pub(crate) plan: &'a Arc<Plan>,
    pub(crate) requests: &'a Arc<Requests>,
    pub(crate) control: &'a Arc<Control>,
}

impl Engine<'_> {
    fn serve<D: Driver>(
        &self,
        feeds: Vec<Feed>,
        driver: impl Fn(&Plan, u32) -> Result<D, DriverError> + Sync,
    ) -> Result<(), EngineError> {
        serve(self.plan, self.requests, self.control, feeds, driver).map(drop)
    }
}

/// The two addresses of a service, and the bounds of what stands there.
#[derive(Clone, Debug)]
pub(crate) struct Ends {
    pub(crate) requests: Address,
    pub(crate) responses: Address,
    pub(crate) limits: Limits,
}

impl Ends {
    /// Connections that are closing have a place besides.
    fn connections(&self) -> u32 {
        2 * self.limits.peers_max
    }

    fn uring(&self) -> UringConfig {
        UringConfig {
            rx_timestamps: false,
            ..UringConfig::for_messages(self.connections())
        }
    }

    fn epoll(&self) -> EpollConfig {
        EpollConfig {
            connections_max: self.connections(),
            rx_timestamps: false,
            ..EpollConfig::default()
        }
    }

    /// Messages go over epoll, whatever drives the shards.
    fn serve<D: Driver>(
        &self,
        service: Service,
        engine: &Engine<'_>,
        ready: impl FnOnce(),
        driver: impl Fn(&Plan, u32) -> Result<D, DriverError> + Sync,
    ) -> Result<Served, ServiceError> {
        service.run(
            || self.requests(EpollDriver::new(self.epoll())?),
            || self.responses(EpollDriver::new(self.epoll())?),
            ready,
            |feeds| engine.serve(feeds, driver),
        )
    }

    fn requests<D: Driver>(&self, driver: D) -> Result<Zmq<D, MonotonicClock>, TransportError> {
        let mut end = Zmq::new(driver, MonotonicClock, Kind::Pull, self.limits);
        end.bind(&self.requests)?;
        Ok(end)
    }

    fn responses<D: Driver>(&self, driver: D) -> Result<Zmq<D, MonotonicClock>, TransportError> {
        let mut end = Zmq::new(driver, MonotonicClock, Kind::Push, self.limits);
        end.bind(&self.responses)?;
        Ok(end)
    }
}

#[cfg(not(all(feature = "monoio", feature = "glommio")))]
fn absent(driver: &str) -> Complaint {
    Complaint::new(format!(
        "--driver {driver}: this ridgeline was built without it; build one that has it by `cargo build --release \
         --features {driver}`, or use --driver uring or epoll"
    ))
}

fn connections(plan: &Plan, k: u32) -> u32 {
    plan.connections_of(k)
}

/// The ring of one shard.
fn uring(plan: &Plan, k: u32) -> Result<UringDriver, DriverError> {
    let limits = &plan.limits;
    let buffer_bytes = u32::try_from(limits.receive_buffer_bytes).unwrap_or(u32::MAX);
    UringDriver::new(UringConfig {
        rx_timestamps: plan.rx_timestamps,
        buffer_bytes,
        buffers_count: limits.receive_buffers,
        ..UringConfig::new(connections(plan, k))
    })
}

/// The sockets of one shard, where there is no ring.
fn epoll(plan: &Plan, k: u32) -> Result<EpollDriver, DriverError> {
    EpollDriver::new(EpollConfig {
        connections_max: connections(plan, k),
        rx_timestamps: plan.rx_timestamps,
        ..EpollConfig::default()
    })
}

/// How a driver on a runtime is made.
#[cfg(any(feature = "monoio", feature = "glommio"))]
fn tasks(plan: &Plan, k: u32) -> TasksConfig {
    TasksConfig {
        connections_max: connections(plan, k),
        read_buffer_bytes: plan.limits.receive_buffer_bytes,
        ..TasksConfig::default()
    }
}

#[cfg(feature = "monoio")]
fn monoio(plan: &Plan, k: u32) -> Result<MonoioDriver, DriverError> {
    MonoioDriver::new(tasks(plan, k))
}

#[cfg(feature = "glommio")]
fn glommio(plan: &Plan, k: u32) -> Result<GlommioDriver, DriverError> {
    GlommioDriver::new(tasks(plan, k))
}
