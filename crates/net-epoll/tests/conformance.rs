//! The epoll driver against the suite that every driver must pass.

/// As it is used.
mod usual {
    use ridgeline_net::conformance::{Lab, Loopback};
    use ridgeline_net_epoll::{EpollConfig, EpollDriver};

    fn lab() -> impl Lab {
        Loopback::new(|connections_max| {
            EpollDriver::new(EpollConfig {
                connections_max,
                ..EpollConfig::default()
            })
            .expect("this machine has epoll")
        })
    }

    ridgeline_net::conformance!(lab());
}

/// With a read buffer so small that every rule of edge-triggering is met.
mod tiny {
    use ridgeline_net::conformance::{Lab, Loopback};
    use ridgeline_net_epoll::{EpollConfig, EpollDriver};

    fn lab() -> impl Lab {
        Loopback::new(|connections_max| {
            EpollDriver::new(EpollConfig {
                connections_max,
                read_buffer_bytes: 500,
                rx_timestamps: true,
                reuse_port: false,
            })
            .expect("this machine has epoll")
        })
    }

    ridgeline_net::conformance!(lab());
}
