//! `ridgeline pipe`: one end of a pipe of messages, which a roofline times.

use clap::Args;
use ridgeline_clock::MonotonicClock;
use ridgeline_net::Driver;
use ridgeline_net_epoll::{EpollConfig, EpollDriver};
use ridgeline_net_uring::{UringConfig, UringDriver};
use ridgeline_perf::pipe::{End, PipeArgs};
use ridgeline_roofline::pipe::{self, Load};
use ridgeline_transport::Limits;
use ridgeline_transport_zmq::{Address, Kind, Zmq};

use crate::backend::Backend;
use crate::complaint::Complaint;
use crate::config::DriverKind;
use crate::terminal;

/// The one peer, and one that comes too early.
const CONNECTIONS: u32 = 4;

/// The flags of `ridgeline pipe`.
#[derive(Args, Debug)]
pub(crate) struct RidgelinePipeArgs {
    #[command(flatten)]
    pipe: PipeArgs,
    /// The driver
    #[arg(long, value_enum)]
    driver: Option<DriverKind>,
}

/// Runs one end. The exit code.
pub(crate) fn command(args: &RidgelinePipeArgs) -> Result<u8, Complaint> {
    match Backend::choose(args.driver.unwrap_or(DriverKind::Auto))?.0 {
        Backend::Uring => run(
            args,
            UringDriver::new(UringConfig::for_messages(CONNECTIONS))?,
        ),
        // For comparison there is `bench`.
        _ => {
            let config = EpollConfig {
                connections_max: CONNECTIONS,
                ..EpollConfig::default()
            };
            run(args, EpollDriver::new(config)?)
        }
    }
}

fn run<D: Driver>(args: &RidgelinePipeArgs, driver: D) -> Result<u8, Complaint> {
    let args = &args.pipe;
    let record_bytes = args
        .record_bytes()
        .map_err(|error| Complaint::new(error.to_string()))?;
    let load = Load {
        messages: args.messages,
        records: args.records,
        record_bytes,
    };
    let limits = Limits {
        peers_max: CONNECTIONS,
        message_bytes_max: args.message_bytes,
        ..Limits::data()
    };
    let address: Address = args.address.parse()?;
    let kind = match args.end {
        End::Push => Kind::Push,
        End::Pull => Kind::Pull,
    };
    let mut end = Zmq::new(driver, MonotonicClock, kind, limits);
    match args.end {
        End::Push => {
            end.connect(&address)?;
            pipe::push(&mut end, load)?;
        }
        End::Pull => {
            end.bind(&address)?;
            let crossed = pipe::pull(&mut end, load)?;
            terminal::print(&format!("{}\n", serde_json::to_string(&crossed)?))?;
        }
    }
    Ok(0)
}
