//! The virtual driver against the suite that every driver must pass, on several networks.

/// No faults.
mod plain {
    use ridgeline_net::conformance::SimLab;

    ridgeline_net::conformance!(SimLab::default());
}

/// Segments cut, held up and told together; programs told late; small buffers.
mod rough {
    use ridgeline_clock::Nanos;
    use ridgeline_net::conformance::SimLab;
    use ridgeline_net::sim::{Shape, SimConfig};

    fn lab() -> SimLab {
        SimLab::new(SimConfig {
            seed: 7,
            shape: Shape {
                jitter: Nanos::from_micros(30),
                segment_bytes_max: 1_448,
                split_ppm: 300_000,
                merge_ppm: 500_000,
                stall_ppm: 1_000,
                stall: Nanos::from_millis(1),
                send_buffer_bytes: 20_000,
                ..Shape::default()
            },
            wake_delay: Nanos::from_micros(5),
            wake_jitter: Nanos::from_micros(50),
            read_bytes_max: 4_000,
            ..SimConfig::default()
        })
    }

    ridgeline_net::conformance!(lab());
}

/// No latency at all, reads stamped by reaping, one read for everything.
mod instant {
    use ridgeline_clock::Nanos;
    use ridgeline_net::conformance::SimLab;
    use ridgeline_net::sim::{Shape, SimConfig};

    fn lab() -> SimLab {
        SimLab::new(SimConfig {
            shape: Shape {
                latency: Nanos::ZERO,
                ..Shape::default()
            },
            rx_timestamps: false,
            read_bytes_max: 1 << 20,
            ..SimConfig::default()
        })
    }

    ridgeline_net::conformance!(lab());
}
