//! Conversations with libzmq, the library that most other languages' ZeroMQ is.
#![expect(clippy::unwrap_used, reason = "a test")]

mod interop;

use interop::{Job, Line, MESSAGES, Place, message};

/// Sends and receives give up after this long.
const PATIENCE_MS: i32 = 120_000;

fn socket(context: &zmq::Context, job: Job, place: &Place, line: &Line) -> zmq::Socket {
    let kind = match job {
        Job::Pull => zmq::PULL,
        Job::Push => zmq::PUSH,
        Job::RouterEcho => zmq::ROUTER,
        Job::DealerEcho => zmq::DEALER,
    };
    let socket = context.socket(kind).unwrap();
    socket.set_sndtimeo(PATIENCE_MS).unwrap();
    socket.set_rcvtimeo(PATIENCE_MS).unwrap();
    // Pings of theirs are answered, too.
    socket.set_heartbeat_ivl(50).unwrap();
    socket.set_heartbeat_timeout(PATIENCE_MS).unwrap();
    match place {
        Place::Connect(address) => socket.connect(address).unwrap(),
        Place::Bind(address) => {
            socket.bind(&address.replace(":0", ":*")).unwrap();
            line.address
                .send(socket.get_last_endpoint().unwrap().unwrap())
                .unwrap();
        }
    }
    socket
}

fn foreign(job: Job, place: &Place, line: &Line) {
    let context = zmq::Context::new();
    let socket = socket(&context, job, place, line);
    for number in 0..MESSAGES {
        match job {
            Job::Push => socket.send(message(number), 0).unwrap(),
            Job::Pull => assert!(socket.recv_bytes(0).unwrap() == message(number)),
            Job::RouterEcho | Job::DealerEcho => {
                let parts = socket.recv_multipart(0).unwrap();
                assert!(
                    parts.last().unwrap() == &message(number),
                    "message {number}"
                );
                socket.send_multipart(&parts, 0).unwrap();
            }
        }
    }
    // Until everything has come at the other side.
    let _ = line.over.recv();
}

#[test]
fn every_kind_talks_to_libzmq() {
    interop::converse(foreign);
}

/// REQ puts an empty frame before its messages, and wants one before the answer.
#[test]
fn a_request_socket_is_answered() {
    use ridgeline_clock::{MonotonicClock, Nanos};
    use ridgeline_net_epoll::{EpollConfig, EpollDriver};
    use ridgeline_transport::conformance::Log;
    use ridgeline_transport::{Limits, To, Transport};
    use ridgeline_transport_zmq::{Address, Kind, Zmq};

    let driver = EpollDriver::new(EpollConfig::default()).unwrap();
    let mut router = Zmq::new(driver, MonotonicClock, Kind::Router, Limits::control());
    let any: Address = "tcp://127.0.0.1:0".parse().unwrap();
    let address = router.bind(&any).unwrap().to_string();
    let theirs = std::thread::spawn(move || {
        let context = zmq::Context::new();
        let socket = context.socket(zmq::REQ).unwrap();
        socket.set_rcvtimeo(PATIENCE_MS).unwrap();
        socket.set_identity(b"asker").unwrap();
        socket.connect(&address).unwrap();
        (0..10).for_each(|number: u8| {
            socket.send(vec![number], 0).unwrap();
            assert_eq!(socket.recv_bytes(0).unwrap(), [number, number]);
        });
    });
    let mut log = Log::default();
    let mut answered = 0;
    while answered < 10 {
        router.turn(Nanos::MAX, &mut log).unwrap();
        let came: Vec<u8> = log.messages()[answered..].iter().map(|m| m[0]).collect();
        for number in came {
            let peer = log.peer().unwrap();
            router.send(To::Peer(peer), &[number, number]).unwrap();
            answered += 1;
        }
    }
    while log.left().is_none() {
        router.turn(Nanos::MAX, &mut log).unwrap();
    }
    assert_eq!(log.seen(log.joined()[0]).who, "asker");
    theirs.join().unwrap();
}
