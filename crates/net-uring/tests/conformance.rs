//! The suite that every driver must pass, for each way this one can be set up.

use ridgeline_clock::Nanos;
use ridgeline_net_uring::{UringConfig, UringDriver};

/// A driver, or the end of the run where there is no io_uring: what isn't there can't conform.
#[expect(clippy::print_stdout, reason = "a test that is skipped says so")]
fn driver(config: UringConfig) -> UringDriver {
    if let Err(missing) = UringDriver::probe() {
        println!("skipped: {missing}");
        std::process::exit(0);
    }
    UringDriver::new(config).expect("what the probe found is there")
}

mod plain {
    use super::*;
    use ridgeline_net::conformance::Loopback;

    ridgeline_net::conformance!(Loopback::new(|count| driver(UringConfig::new(count))));
}

/// Kernel stamps: another receive operation, another layout of buffers.
mod stamped {
    use super::*;
    use ridgeline_net::conformance::Loopback;

    fn config(count: u32) -> UringConfig {
        UringConfig {
            rx_timestamps: true,
            ..UringConfig::new(count)
        }
    }
    ridgeline_net::conformance!(Loopback::new(|count| driver(config(count))));
}

/// Queues and buffers too small for anything, and a busy wait.
mod tight {
    use super::*;
    use ridgeline_net::conformance::Loopback;

    fn config(count: u32) -> UringConfig {
        UringConfig {
            rx_timestamps: true,
            sq_entries: 2,
            cq_entries: 4,
            buffers_count: 2,
            buffer_bytes: 700,
            spin: Nanos::from_micros(100),
            ..UringConfig::new(count)
        }
    }
    ridgeline_net::conformance!(Loopback::new(|count| driver(config(count))));
}

/// Waits that go on for a while after something came.
mod gathering {
    use super::*;
    use ridgeline_net::Driver as _;
    use ridgeline_net::conformance::Loopback;

    fn gathering(count: u32) -> UringDriver {
        let mut driver = driver(UringConfig {
            rx_timestamps: true,
            ..UringConfig::new(count)
        });
        driver.gather(Nanos::from_micros(300));
        driver
    }
    ridgeline_net::conformance!(Loopback::new(gathering));
}
