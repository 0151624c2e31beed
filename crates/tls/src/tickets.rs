use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustls::NamedGroup;
use rustls::client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::ServerName;

/// What is remembered of the one server of a client, so that its next connection is resumed.
///
/// rustls's own store keeps eight tickets of a server, and a ticket is used once: connections that are
/// set up together would mostly not be resumed.
pub(crate) struct Tickets {
    kept: Mutex<Kept>,
    tickets_max: usize,
}

#[derive(Default)]
struct Kept {
    group: Option<NamedGroup>,
    session: Option<Tls12ClientSessionValue>,
    /// Oldest first.
    tickets: VecDeque<Tls13ClientSessionValue>,
}

impl Tickets {
    pub(crate) fn new(tickets_max: usize) -> Self {
        Self {
            kept: Mutex::default(),
            tickets_max,
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // Each change is whole: what a thread that panicked left is good.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Tickets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tickets").finish_non_exhaustive()
    }
}

impl ClientSessionStore for Tickets {
    fn set_kx_hint(&self, _: ServerName<'static>, group: NamedGroup) {
        self.kept().group = Some(group);
    }

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        self.kept().group
    }

    fn set_tls12_session(&self, _: ServerName<'static>, value: Tls12ClientSessionValue) {
        if self.tickets_max > 0 {
            self.kept().session = Some(value);
        }
    }

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.kept().session.clone()
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {
        self.kept().session = None;
    }

    fn insert_tls13_ticket(&self, _: ServerName<'static>, value: Tls13ClientSessionValue) {
        if self.tickets_max == 0 {
            return;
        }
        let mut kept = self.kept();
        if kept.tickets.len() >= self.tickets_max {
            kept.tickets.pop_front();
        }
        kept.tickets.push_back(value);
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.kept().tickets.pop_back()
    }
}
