//! When it is answered: exact times, fed by hand and on the virtual network.

use bytes::Bytes;
use ridgeline_clock::{Arrival, Clock, Nanos};
use ridgeline_mock_server::{Mode, PaceConfig, Server, ServerConfig, serve, text};
use ridgeline_net::sim::{SimConfig, SimNet, lockstep};
use ridgeline_net::{Closed, Commands, Driver, Peer, Sink, Token};

use crate::fed::{Fed, chat, responses};

const TTFT: Nanos = Nanos::from_micros(750);
const ITL: Nanos = Nanos::from_micros(125);

fn modelled() -> ServerConfig {
    let mode = Mode::Model(PaceConfig::fixed(TTFT, ITL));
    ServerConfig {
        mode,
        ..ServerConfig::default()
    }
}

/// The times of the writes, relative to `start`, with the content of the tokens in each.
fn writes(fed: &Fed, start: Nanos) -> Vec<(Nanos, String)> {
    let writes = fed.sent.iter().map(|(at, _, bytes)| {
        let bytes = String::from_utf8_lossy(bytes);
        let pieces = bytes.split(r#""content":""#).skip(1);
        let contents = pieces.map(|piece| piece.split('"').next().unwrap());
        (*at - start, contents.collect::<Vec<_>>().concat())
    });
    writes.collect()
}

#[test]
fn every_token_is_sent_when_it_is_due() {
    let mut fed = Fed::new(&modelled());
    let token = fed.accept();
    let request = chat(r#","stream":true,"max_tokens":4"#);
    let (first, last) = request.split_at(90);
    // The times count from the last byte of the request.
    fed.feed(token, first);
    fed.run(Nanos::from_millis(7));
    let start = fed.now;
    fed.feed(token, last);
    fed.run(Nanos::from_secs(1));
    let expected = [
        (Nanos::ZERO, ""), // The head.
        (TTFT, "A"),
        (TTFT + ITL, " quiet"),
        (TTFT + ITL * 2, " river"),
        (TTFT + ITL * 3, " moves"),
    ];
    assert_eq!(
        writes(&fed, start),
        expected.map(|(at, text)| (at, text.to_owned()))
    );
    assert!(
        fed.sent
            .last()
            .unwrap()
            .2
            .ends_with(b"data: [DONE]\n\n\r\n0\r\n\r\n")
    );
}

#[test]
fn a_whole_answer_is_sent_when_its_last_token_is_due() {
    let mut fed = Fed::new(&modelled());
    let token = fed.accept();
    fed.feed(token, &chat(r#","max_tokens":9"#));
    fed.run(Nanos::from_secs(1));
    assert_eq!(writes(&fed, Nanos::ZERO), [(TTFT + ITL * 8, text(9))]);
}

#[test]
fn a_late_turn_sends_all_that_is_due_and_then_is_on_time_again() {
    let mut fed = Fed::new(&modelled());
    let token = fed.accept();
    fed.feed(token, &chat(r#","stream":true,"max_tokens":7"#));
    // The turn that should have come at TTFT comes 2.5 tokens late.
    fed.now = TTFT + ITL * 2 + ITL / 2;
    fed.run(Nanos::from_secs(1));
    let expected = [
        (Nanos::ZERO, ""),
        (TTFT + ITL * 2 + ITL / 2, "A quiet river"),
        (TTFT + ITL * 3, " moves"),
        (TTFT + ITL * 4, " small"),
        (TTFT + ITL * 5, " boats"),
        (TTFT + ITL * 6, " past"),
    ];
    assert_eq!(
        writes(&fed, Nanos::ZERO),
        expected.map(|(at, text)| (at, text.to_owned()))
    );
}

#[test]
fn no_latency_means_one_write() {
    let mode = Mode::Model(PaceConfig::fixed(Nanos::ZERO, Nanos::ZERO));
    let mut fed = Fed::new(&ServerConfig {
        mode,
        ..ServerConfig::default()
    });
    let token = fed.accept();
    fed.feed(token, &chat(r#","stream":true,"max_tokens":7"#));
    assert_eq!(writes(&fed, Nanos::ZERO), [(Nanos::ZERO, text(7))]);
}

#[test]
fn a_pipelined_request_has_its_own_times_and_waits_only_for_its_turn() {
    let mut fed = Fed::new(&modelled());
    let token = fed.accept();
    fed.feed(token, &chat(r#","stream":true,"max_tokens":3"#));
    fed.run(ITL);
    fed.feed(token, &chat(r#","stream":true,"max_tokens":5"#));
    fed.run(Nanos::from_secs(1));
    let expected = [
        (Nanos::ZERO, ""),
        (TTFT, "A"),
        (TTFT + ITL, " quiet"),
        (TTFT + ITL * 2, " river"),
        // It arrived at ITL: its head and what is due already follow the first answer at once.
        (TTFT + ITL * 2, "A quiet"),
        (TTFT + ITL * 3, " river"),
        (TTFT + ITL * 4, " moves"),
        (TTFT + ITL * 5, " small"),
    ];
    assert_eq!(
        writes(&fed, Nanos::ZERO),
        expected.map(|(at, text)| (at, text.to_owned()))
    );
}

/// A client on the virtual network: one request on each of some connections, at the start.
struct Client {
    request: Vec<u8>,
    /// Bytes and their arrival, by connection.
    read: Vec<Vec<(Nanos, Vec<u8>)>>,
}

impl Sink for Client {
    fn accepted(&mut self, _: &mut Commands, _: u32, _: Nanos) -> Option<Token> {
        None
    }
    fn opened(&mut self, commands: &mut Commands, token: Token, _: Nanos) {
        commands.send(token, self.request.clone(), Bytes::new());
    }
    fn submitted(&mut self, _: Token, _: Nanos) {}
    fn sent(&mut self, _: &mut Commands, _: Token, _: Vec<u8>, _: Nanos) {}
    fn received(&mut self, _: &mut Commands, token: Token, bytes: &[u8], arrival: Arrival) {
        self.read[token.index as usize].push((arrival.at, bytes.to_vec()));
    }
    fn ended(&mut self, _: &mut Commands, _: Token, _: Arrival) {}
    fn closed(&mut self, _: &mut Commands, _: Token, _: Closed, _: Nanos) {}
}

#[test]
fn a_thousand_streams_on_the_network_keep_every_time_to_the_nanosecond() {
    const STREAMS: u32 = 1_000;
    const TOKENS: u32 = 20;
    let net = SimNet::new(SimConfig::default());
    let (mut near, mut far) = (net.driver(STREAMS), net.driver(STREAMS));
    let peer = far.listen(&Peer::Tcp(([10, 0, 0, 1], 80).into())).unwrap();
    let mut client = Client {
        request: chat(&format!(r#","stream":true,"max_tokens":{TOKENS}"#)),
        read: vec![Vec::new(); STREAMS as usize],
    };
    for index in 0..STREAMS {
        near.commands().open(
            Token {
                index,
                generation: 0,
            },
            peer.clone(),
            None,
        );
    }
    let mut server = Server::new(&modelled(), Nanos::ZERO);
    let clock = net.clock();
    let end = Nanos::from_millis(10);
    while clock.now() < end {
        let deadline = server.step(clock.now(), far.commands()).min(end);
        lockstep((&mut near, &mut client), (&mut far, &mut server), deadline).unwrap();
    }
    // One way takes 10 us: SYN, SYN-ACK, the request, and back again whatever is sent.
    let trip = Nanos::from_micros(10);
    let complete = trip * 3;
    for read in &client.read {
        let times: Vec<_> = read.iter().map(|(at, _)| *at - trip - complete).collect();
        let expected: Vec<_> = std::iter::once(Nanos::ZERO)
            .chain((0..TOKENS).map(|token| TTFT + ITL * u64::from(token)))
            .collect();
        assert_eq!(times, expected);
        let bytes: Vec<_> = read.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
        assert_eq!(responses(&bytes)[0].text(), text(TOKENS));
    }
    assert_eq!(server.served().tokens, u64::from(STREAMS * TOKENS));
    assert_eq!(server.open(), STREAMS as usize);
}

#[test]
fn the_loop_serves_until_it_is_stopped_and_then_ends_its_connections() {
    let net = SimNet::new(SimConfig::default());
    let (mut near, mut far) = (net.driver(1), net.driver(1));
    let peer = far.listen(&Peer::Tcp(([10, 0, 0, 1], 80).into())).unwrap();
    let request = chat(r#","stream":true,"max_tokens":20"#);
    let mut client = Client {
        request,
        read: vec![Vec::new()],
    };
    near.commands().open(
        Token {
            index: 0,
            generation: 0,
        },
        peer,
        None,
    );
    let mut server = Server::new(&modelled(), Nanos::ZERO);
    let middle = TTFT + ITL * 3;
    let clock = net.clock();
    while clock.now() < middle {
        let deadline = server.step(clock.now(), far.commands()).min(middle);
        lockstep((&mut near, &mut client), (&mut far, &mut server), deadline).unwrap();
    }
    assert_eq!(server.open(), 1);
    server.stopper().stop();
    serve(&mut far, &mut server).unwrap();
    assert_eq!(server.open(), 0);
    assert_eq!(server.served().answers_cut, 1);
}
