//! A server that is asked to end in good order.

use bytes::Bytes;
use ridgeline_clock::{Arrival, Clock, Nanos};
use ridgeline_mock_server::{Server, ServerConfig, serve};
use ridgeline_net::sim::{SimConfig, SimNet, lockstep};
use ridgeline_net::{Close, Closed, Commands, Driver, Peer, Sink, Token};

use crate::fed::{Fed, chat, get, responses};

#[test]
fn what_is_under_way_is_finished_and_nothing_is_begun() {
    let mut fed = Fed::new(&ServerConfig::default());
    let (idle, busy) = (fed.accept(), fed.accept());
    fed.feed(idle, &get("/health"));
    assert_eq!(responses(&fed.take(idle))[0].status, 200);
    fed.feed(busy, &chat(r#","stream":true,"max_tokens":3"#));
    fed.run(Nanos::from_millis(22));
    fed.server.drain(&mut fed.commands);
    fed.settle();
    assert_eq!(fed.closes, [(fed.now, idle, Close::Fin)]);
    assert!(fed.server.accepted(&mut fed.commands, 0, fed.now).is_none());
    // Whoever is still connected is told.
    fed.feed(busy, &get("/health"));
    fed.run(Nanos::from_secs(1));
    let answers = responses(&fed.take(busy));
    assert_eq!(answers[0].text(), "A quiet river");
    assert_eq!(answers[1].status, 503);
    assert!(answers[1].head.contains("connection: close"));
    assert!(answers[1].head.contains("retry-after: 1"));
    assert_eq!(
        fed.closes.last().map(|(_, token, how)| (*token, *how)),
        Some((busy, Close::Fin))
    );
    let served = fed.server.served();
    assert_eq!((fed.server.open(), served.answers_cut), (0, 0));
    assert_eq!(
        (served.connections_refused, served.answers_abandoned),
        (1, 0)
    );
}

#[test]
fn a_connection_whose_answer_is_done_is_closed() {
    let mut fed = Fed::new(&ServerConfig::default());
    let token = fed.accept();
    fed.feed(token, &chat(r#","max_tokens":3"#));
    fed.server.drain(&mut fed.commands);
    fed.run(Nanos::from_millis(29));
    assert!(fed.closes.is_empty());
    fed.run(Nanos::from_millis(30));
    assert_eq!(fed.closes, [(Nanos::from_millis(30), token, Close::Fin)]);
    assert_eq!(responses(&fed.take(token))[0].status, 200);
}

/// A client that asks once, and then notes what comes.
#[derive(Default)]
struct Client {
    answer: Vec<u8>,
    /// Why its connections are gone, by their slots.
    closed: [Option<Closed>; 2],
}

impl Sink for Client {
    fn accepted(&mut self, _: &mut Commands, _: u32, _: Nanos) -> Option<Token> {
        None
    }
    fn opened(&mut self, commands: &mut Commands, token: Token, _: Nanos) {
        commands.send(
            token,
            chat(r#","stream":true,"max_tokens":50"#),
            Bytes::new(),
        );
    }
    fn submitted(&mut self, _: Token, _: Nanos) {}
    fn sent(&mut self, _: &mut Commands, _: Token, _: Vec<u8>, _: Nanos) {}
    fn received(&mut self, _: &mut Commands, _: Token, bytes: &[u8], _: Arrival) {
        self.answer.extend_from_slice(bytes);
    }
    fn ended(&mut self, commands: &mut Commands, token: Token, _: Arrival) {
        commands.close(token, Close::Fin);
    }
    fn closed(&mut self, _: &mut Commands, token: Token, cause: Closed, _: Nanos) {
        self.closed[token.index as usize] = Some(cause);
    }
}

/// Starts an answer of 265 ms, lets the server end by itself, and returns what it counted, when it
/// was over, and what the client has.
fn ends(drain_max: Nanos) -> (Server, Nanos, Client) {
    let net = SimNet::new(SimConfig::default());
    let (mut near, mut far) = (net.driver(8), net.driver(8));
    let any = Peer::Tcp(([10, 0, 0, 1], 0).into());
    let peer = far.listen(&any).unwrap();
    let token = Token {
        index: 0,
        generation: 0,
    };
    near.commands().open(token, peer.clone(), None);
    let config = ServerConfig {
        drain_max,
        ..ServerConfig::default()
    };
    let mut server = Server::new(&config, Nanos::ZERO);
    let mut client = Client::default();
    let (clock, middle) = (net.clock(), Nanos::from_millis(100));
    while clock.now() < middle {
        let deadline = server.step(clock.now(), far.commands()).min(middle);
        lockstep((&mut near, &mut client), (&mut far, &mut server), deadline).unwrap();
    }
    server.stopper().drain();
    serve(&mut far, &mut server).unwrap();
    let over = clock.now();
    // Nobody listens any more.
    let late = Token {
        index: 1,
        generation: 0,
    };
    near.commands().open(late, peer, None);
    while client.closed.contains(&None) {
        near.turn(Nanos::MAX, &mut client).unwrap();
    }
    assert_eq!(client.closed, [Some(Closed::Local), Some(Closed::Refused)]);
    (server, over, client)
}

#[test]
fn draining_takes_as_long_as_the_answers() {
    let (server, over, client) = ends(Nanos::from_secs(30));
    assert!(client.answer.ends_with(b"data: [DONE]\n\n\r\n0\r\n\r\n"));
    let served = server.served();
    assert_eq!(
        (served.answers, served.answers_cut, served.answers_abandoned),
        (1, 0, 0)
    );
    assert_eq!(served.tokens, 50);
    assert!(over < Nanos::from_millis(300), "{over}");
}

#[test]
fn draining_takes_no_longer_than_it_may() {
    let (server, over, client) = ends(Nanos::from_millis(50));
    assert!(!client.answer.ends_with(b"\r\n0\r\n\r\n"));
    let served = server.served();
    assert_eq!(
        (served.answers, served.answers_cut, served.answers_abandoned),
        (0, 1, 1)
    );
    assert!(served.tokens < 50);
    assert!(
        over < Nanos::from_millis(150) + Nanos::from_millis(250),
        "{over}"
    );
}
