//! What time brings: handshakes that take too long, peers that fall silent.

use ridgeline_clock::Nanos;
use ridgeline_net::{Close, Commands};
use ridgeline_transport::Cause;

use super::connection::{Connection, way};
use super::peers::Peers;
use crate::zmtp::{command, frame};

/// What is to be done about a connection.
enum Verdict {
    /// Nothing until then.
    Wait(Nanos),
    /// It is asked whether it is there.
    Ask,
    /// It is given up.
    Give(Cause),
}

impl Peers {
    /// Looks at every connection, if one is due. After a driver's turn: what had arrived by then was
    /// heard.
    pub(super) fn check_peers(&mut self, now: Nanos, commands: &mut Commands) {
        if now < self.peers_due {
            return;
        }
        self.peers_due = Nanos::MAX;
        for index in 0..u32::try_from(self.places.len()).unwrap_or(u32::MAX) {
            let Some(connection) = self.places[index as usize].connection.as_deref() else {
                continue;
            };
            match self.judge(connection, now) {
                Verdict::Wait(at) => self.peers_due = self.peers_due.min(at),
                Verdict::Ask => self.ask(index, now, commands),
                Verdict::Give(cause) => {
                    let token = self.token(index);
                    self.end(token, cause, Close::Reset, commands);
                }
            }
        }
    }

    fn judge(&self, connection: &Connection, now: Nanos) -> Verdict {
        let limits = &self.limits;
        if connection.is_closed {
            return Verdict::Wait(Nanos::MAX);
        }
        if let Some(since) = connection.parting {
            return give_at(since, limits.silence_max, now, |_| Cause::Local);
        }
        if connection.ending.is_some() {
            // An end in order, with a reason, that the peer does not take.
            return give_at(connection.heard, limits.handshake_max, now, Cause::Silent);
        }
        if !connection.is_up {
            if connection.is_paused {
                return Verdict::Wait(now + limits.handshake_max);
            }
            return give_at(connection.began, limits.handshake_max, now, Cause::Silent);
        }
        let Some(heartbeat) = limits.heartbeat else {
            return Verdict::Wait(Nanos::MAX);
        };
        if !connection.answers_pings || connection.is_paused || connection.is_behind {
            return Verdict::Wait(now + heartbeat);
        }
        if let Verdict::Give(cause) =
            give_at(connection.heard, limits.silence_max, now, Cause::Silent)
        {
            return Verdict::Give(cause);
        }
        let ask_at = connection.heard.max(connection.asked) + heartbeat;
        if ask_at <= now {
            return Verdict::Ask;
        }
        Verdict::Wait(ask_at.min(connection.heard + limits.silence_max))
    }

    fn ask(&mut self, index: u32, now: Nanos, commands: &mut Commands) {
        let token = self.token(index);
        let limits = self.limits;
        let Some(connection) = self.places[index as usize].connection.as_deref_mut() else {
            return;
        };
        connection.asked = now;
        let tenths = limits.silence_max.0 / Nanos::from_millis(100).0;
        let mut ping = Vec::new();
        let body = command::ping_body(u16::try_from(tenths).unwrap_or(u16::MAX));
        connection.session.seal(frame::COMMAND, &body, &mut ping);
        let mut way = way(commands, token, &mut self.spare);
        connection.outbox.put_bytes(&ping, &mut way);
        connection.outbox.flush(&mut way);
        let next = limits.heartbeat.unwrap_or(limits.silence_max);
        let silent = connection.heard + limits.silence_max;
        self.peers_due = self.peers_due.min(now + next).min(silent);
    }
}

fn give_at(since: Nanos, span: Nanos, now: Nanos, cause: impl FnOnce(Nanos) -> Cause) -> Verdict {
    let at = since + span;
    if at <= now {
        Verdict::Give(cause(now - since))
    } else {
        Verdict::Wait(at)
    }
}
