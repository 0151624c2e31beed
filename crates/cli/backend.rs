//! Which driver a run uses, and the run on it.

use std::sync::Arc;

use ridgeline_clock::{MonotonicClock, Nanos};
use ridgeline_engine::{Control, EngineError, Plan, Record, Requests, RunResult, run, serve};
use ridgeline_metrics::Phase;
use ridgeline_net::{Driver, DriverError};
use ridgeline_net_epoll::{EpollConfig, EpollDriver};
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
}

impl Backend {
    /// The driver for `kind`, and why it is not the preferred one, if so.
    pub(crate) fn choose(kind: DriverKind) -> Result<(Self, Option<String>), Complaint> {
        match kind {
            DriverKind::Epoll => Ok((Self::Epoll, None)),
            DriverKind::Uring => {
                UringDriver::probe()?;
                Ok((Self::Uring, None))
            }
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
        }
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
        let Engine {
            plan,
            requests,
            control,
        } = *engine;
        match self {
            Self::Uring => service.run(
                || ends.requests(UringDriver::new(ends.uring())?),
                || ends.responses(UringDriver::new(ends.uring())?),
                ready,
                |feeds| serve(plan, requests, control, feeds, uring).map(drop),
            ),
            Self::Epoll => service.run(
                || ends.requests(EpollDriver::new(ends.epoll())?),
                || ends.responses(EpollDriver::new(ends.epoll())?),
                ready,
                |feeds| serve(plan, requests, control, feeds, epoll).map(drop),
            ),
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
