//! The driver on glommio against the suite that every driver must pass.

use ridgeline_net::conformance::{Lab, Loopback};
use ridgeline_net_glommio::{GlommioDriver, TasksConfig};

/// A driver, or the end of the run where there is no io_uring: what isn't there can't conform.
#[expect(clippy::print_stdout, reason = "a test that is skipped says so")]
fn lab(read_buffer_bytes: usize) -> impl Lab {
    Loopback::new(move |connections_max| {
        let config = TasksConfig {
            connections_max,
            read_buffer_bytes,
            reuse_port: false,
        };
        // It panics where there is no io_uring at all.
        let made = std::panic::catch_unwind(|| GlommioDriver::new(config));
        let made = made.map_err(|_| "glommio has no io_uring here".to_owned());
        let made = made.and_then(|made| made.map_err(|missing| missing.to_string()));
        made.unwrap_or_else(|missing| {
            println!("skipped: {missing}");
            std::process::exit(0);
        })
    })
}

/// As it is used.
mod usual {
    use super::*;

    ridgeline_net::conformance!(lab(16 << 10));
}

/// With read buffers too small for anything.
mod tiny {
    use super::*;

    ridgeline_net::conformance!(lab(500));
}
