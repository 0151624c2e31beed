use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ridgeline_net::Wake;
use serde_json::Value;

use crate::admin::Settings;
use crate::config::ServerConfig;
use crate::fault::FaultCounts;
use crate::gauges::{Gauges, Page, Snapshot};
use crate::refusal::Refusal;

/// What the shards of a server share: what they are to do, and what they measured. On the path of a
/// request a shard reads one atomic number of it and writes its own gauges; the locks are for whoever
/// asks or changes something.
pub(crate) struct Control {
    phase: AtomicU8,
    /// Counts the changes of the config.
    version: AtomicU64,
    board: Mutex<Board>,
    gauges: Box<[Gauges]>,
    /// By shard.
    faults: Box<[Mutex<FaultCounts>]>,
    wakers: Mutex<Vec<Box<dyn Fn() + Send>>>,
}

/// What can be changed.
struct Board {
    config: Arc<ServerConfig>,
    /// The flags behind the config; `None`: it has none, and is not to be changed.
    settings: Option<Settings>,
    /// What had been counted at the last reset.
    reset: Snapshot,
}

/// What a server is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Serving,
    /// What is under way is finished, nothing is begun.
    Draining,
    Ending,
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control")
            .field("phase", &self.phase())
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Control {
    /// For `shards` shards of `config`, which `settings` led to.
    pub(crate) fn new(
        config: ServerConfig,
        settings: Option<Settings>,
        shards: usize,
    ) -> Arc<Self> {
        let gauges: Box<[_]> = (0..shards).map(|_| Gauges::default()).collect();
        let reset = Snapshot::of(gauges.iter());
        Arc::new(Self {
            phase: AtomicU8::new(Phase::Serving as u8),
            version: AtomicU64::new(0),
            board: Mutex::new(Board {
                config: Arc::new(config),
                settings,
                reset,
            }),
            gauges,
            faults: (0..shards).map(|_| Mutex::default()).collect(),
            wakers: Mutex::default(),
        })
    }
}

/// What the server is at.
impl Control {
    pub(crate) fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Serving,
            1 => Phase::Draining,
            _ => Phase::Ending,
        }
    }

    /// Goes on to `phase`; there is no way back.
    pub(crate) fn go_on_to(&self, phase: Phase) {
        self.phase.fetch_max(phase as u8, Ordering::AcqRel);
        self.wake();
    }

    /// Adds a shard to those that are woken when something changes.
    pub(crate) fn add(&self, waker: impl Wake) {
        lock(&self.wakers).push(Box::new(move || waker.wake()));
    }

    fn wake(&self) {
        for wake in lock(&self.wakers).iter() {
            wake();
        }
    }
}

/// The config.
impl Control {
    /// A number that changes with the config.
    #[inline]
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&lock(&self.board).config)
    }

    /// The flags in effect.
    ///
    /// # Errors
    /// 404 when the server was started without any, or with `--no-admin`.
    pub(crate) fn settings(&self) -> Result<Value, Refusal> {
        let board = lock(&self.board);
        board
            .settings
            .as_ref()
            .map(Settings::to_json)
            .ok_or_else(nothing_here)
    }

    /// Changes the flags that `body` names and returns all. A shard that reads a request after this
    /// returned reads it under the new flags.
    ///
    /// # Errors
    /// 400 when `body` asks for what can't be; 404 when there are no flags. Nothing is changed then.
    pub(crate) fn change(&self, body: &[u8]) -> Result<Value, Refusal> {
        let shown = {
            let mut board = lock(&self.board);
            let settings = board.settings.as_ref().ok_or_else(nothing_here)?;
            let args = settings.patched(body)?;
            // What is replayed is read once.
            let mut config = args
                .config_with(board.config.replay.clone())
                .map_err(|error| Refusal::invalid(None, error.to_string()))?;
            // What was allocated at the start.
            config.limits.connections_max = board.config.limits.connections_max;
            board.config = Arc::new(config);
            let shown = args.settings.to_json();
            board.settings = Some(args.settings);
            self.version.fetch_add(1, Ordering::AcqRel);
            shown
        };
        self.wake();
        Ok(shown)
    }
}

/// What was measured.
impl Control {
    /// How many shards there are.
    pub(crate) fn shards(&self) -> usize {
        self.gauges.len()
    }

    /// The cells of shard number `shard`.
    pub(crate) fn gauges(&self, shard: usize) -> &Gauges {
        &self.gauges[shard]
    }

    /// Shows what shard number `shard` injected so far.
    #[cold]
    pub(crate) fn show_faults(&self, shard: usize, faults: &FaultCounts) {
        lock(&self.faults[shard]).clone_from(faults);
    }

    /// All shards' cells, since the start.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot::of(self.gauges.iter());
        for shard in &self.faults {
            for (fault, count) in lock(shard).iter() {
                *snapshot.faults.entry(fault).or_default() += count;
            }
        }
        snapshot
    }

    /// From now on what is counted counts from 0.
    ///
    /// # Errors
    /// As [`settings`](Self::settings).
    pub(crate) fn reset(&self) -> Result<(), Refusal> {
        let mut board = lock(&self.board);
        if board.settings.is_none() {
            return Err(nothing_here());
        }
        board.reset = self.snapshot();
        Ok(())
    }

    /// `/metrics`.
    pub(crate) fn page(&self) -> String {
        let board = lock(&self.board);
        Page::of(&board.config).render(&self.snapshot().since(&board.reset))
    }
}

fn nothing_here() -> Refusal {
    Refusal::request(404, "There is nothing at this path")
}
