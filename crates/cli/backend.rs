//! Which driver a run uses, and the run on it.

use std::sync::Arc;

use ridgeline_engine::{Control, EngineError, Plan, Record, Requests, RunResult, run};
use ridgeline_net_epoll::{EpollConfig, EpollDriver};
use ridgeline_net_uring::{UringConfig, UringDriver};
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

    /// Whether bytes can carry the kernel's receive stamps.
    pub(crate) const fn has_stamps(self) -> bool {
        matches!(self, Self::Uring)
    }

    /// Runs the plan.
    pub(crate) fn run(
        self,
        plan: &Arc<Plan>,
        requests: &Arc<Requests>,
        control: &Arc<Control>,
        records: Vec<Producer<Record>>,
    ) -> Result<RunResult, EngineError> {
        let connections = |plan: &Plan, k| plan.limits.connections(plan.slots_of(k));
        match self {
            Self::Uring => run(plan, requests, control, records, |plan, k| {
                let limits = &plan.limits;
                let buffer_bytes = u32::try_from(limits.receive_buffer_bytes).unwrap_or(u32::MAX);
                UringDriver::new(UringConfig {
                    rx_timestamps: plan.rx_timestamps,
                    buffer_bytes,
                    buffers_count: limits.receive_buffers,
                    ..UringConfig::new(connections(plan, k))
                })
            }),
            Self::Epoll => run(plan, requests, control, records, |plan, k| {
                EpollDriver::new(EpollConfig {
                    connections_max: connections(plan, k),
                    rx_timestamps: plan.rx_timestamps,
                    ..EpollConfig::default()
                })
            }),
        }
    }
}
