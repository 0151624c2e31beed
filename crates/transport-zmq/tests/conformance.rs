//! ZeroMQ ends against the suite that every transport must pass, on each driver, over each kind of
//! address, in both roles.
#![expect(clippy::unwrap_used, reason = "a test")]

mod lab;

/// PUSH to PULL, one way, on the virtual network.
mod sim_push {
    use crate::lab::{Direction, Way, ZmqLab, sim};

    ridgeline_transport::transport_conformance!(ZmqLab::new(sim(), Direction::OneWay, Way::Tcp));
}

/// DEALER and ROUTER, both ways, where bytes are cut, merged and late.
mod sim_dealer {
    use crate::lab::{Direction, Way, ZmqLab, sim_rough};

    ridgeline_transport::transport_conformance!(ZmqLab::new(
        sim_rough(),
        Direction::BothWays,
        Way::Ipc
    ));
}

/// ROUTER sends by name; the dealer listens.
mod sim_router {
    use crate::lab::{Direction, Way, ZmqLab, sim};

    ridgeline_transport::transport_conformance!(ZmqLab::new(
        sim(),
        Direction::BothWaysTurned,
        Way::Tcp
    ));
}

mod uring_ipc {
    use crate::lab::{Direction, Way, ZmqLab, uring};

    ridgeline_transport::transport_conformance!(ZmqLab::new(uring(), Direction::OneWay, Way::Ipc));
}

mod uring_tcp {
    use crate::lab::{Direction, Way, ZmqLab, uring};

    ridgeline_transport::transport_conformance!(ZmqLab::new(
        uring(),
        Direction::BothWays,
        Way::Tcp
    ));
}

mod epoll_ipc {
    use crate::lab::{Direction, Way, ZmqLab, epoll};

    ridgeline_transport::transport_conformance!(ZmqLab::new(
        epoll(),
        Direction::BothWays,
        Way::Ipc
    ));
}

mod epoll_tcp {
    use crate::lab::{Direction, Way, ZmqLab, epoll};

    ridgeline_transport::transport_conformance!(ZmqLab::new(epoll(), Direction::OneWay, Way::Tcp));
}

/// Everything encrypted, where bytes are cut, merged and late.
mod sim_secured {
    use crate::lab::{Direction, Way, ZmqLab, sim_rough};

    ridgeline_transport::transport_conformance!(
        ZmqLab::new(sim_rough(), Direction::BothWays, Way::Tcp).secured()
    );
}

mod uring_secured {
    use crate::lab::{Direction, Way, ZmqLab, uring};

    ridgeline_transport::transport_conformance!(
        ZmqLab::new(uring(), Direction::OneWay, Way::Tcp).secured()
    );
}
