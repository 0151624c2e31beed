use ridgeline_clock::Nanos;
use ridgeline_engine::{Http2, Outcome};
use ridgeline_net::sim::{SimConfig, SimNet};
use ridgeline_net::{Closed, Command, Commands, Sink, Token};
use ridgeline_wire::exchange::ErrorKind;

use crate::world::{MS, World, closed, plan};

/// The one connection that was asked for.
fn opened(commands: &mut Commands) -> Token {
    let tokens: Vec<_> = commands
        .drain()
        .filter_map(|command| match command {
            Command::Open { token, .. } => Some(token),
            _ => None,
        })
        .collect();
    assert_eq!(tokens.len(), 1, "{tokens:?}");
    tokens[0]
}

#[test]
fn a_connection_that_the_system_gave_up_takes_its_streams_with_it() {
    for cause in [Closed::Os(101), Closed::PeerReset, Closed::TimedOut] {
        let mut plan = plan(closed(2), 2);
        plan.target.http2 = Some(Http2 {
            limits: ridgeline_http2::Limits::default(),
            required: true,
        });
        let mut world = World::new(SimNet::new(SimConfig::default()), plan);
        let shard = &mut world.shard;
        let mut commands = Commands::with_capacity(8);
        shard.begin_measured(MS, Nanos::from_secs(1)).unwrap();
        shard.step(MS, &mut commands);
        // The second request waits for the room that the first one's connection will have, and is not lost with it.
        for at in [MS * 2, MS * 3] {
            let token = opened(&mut commands);
            shard.opened(&mut commands, token, at);
            shard.closed(&mut commands, token, cause, at);
        }
        shard.step(MS * 4, &mut commands);
        assert!(shard.is_done(), "{cause:?}");
        let outcome = world.finish(MS);
        assert_eq!(outcome.counts().failed, 2);
        for record in &outcome.records {
            assert_eq!(record.outcome, Outcome::Error(ErrorKind::Reset));
        }
        assert_eq!(outcome.result.http2.connections, 2);
    }
}
