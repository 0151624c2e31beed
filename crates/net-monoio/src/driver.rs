use std::fmt;
use std::io;

use monoio::{IoUringDriver, Runtime, RuntimeBuilder};
use ridgeline_clock::{Clock, MonotonicClock, Nanos};
use ridgeline_net::{Commands, Counters, Driver, DriverError, Peer, Sink, Turn};
use ridgeline_net_tasks::{Tasks, TasksConfig, TasksWaker};

use crate::socket::Monoio;
use crate::timer::Timer;

/// Visits to the runtime that its tasks are given to end in.
const LAST_VISITS: u32 = 1_000;
/// And those in which what they dropped is cancelled, then closed.
const CLOSING_VISITS: u32 = 4;

/// See the crate's page.
pub struct MonoioDriver {
    // Dropped before the runtime.
    tasks: Tasks<Monoio>,
    timer: Timer,
    runtime: Runtime<IoUringDriver>,
}

impl fmt::Debug for MonoioDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MonoioDriver")
            .field("tasks", &self.tasks)
            .finish_non_exhaustive()
    }
}

impl MonoioDriver {
    /// A driver for the calling thread.
    ///
    /// # Errors
    /// [`DriverError::Unavailable`] where there is no io_uring, [`DriverError::Os`] when there is no descriptor for
    /// the waker or the timer.
    pub fn new(config: TasksConfig) -> Result<Self, DriverError> {
        let mut runtime = RuntimeBuilder::<IoUringDriver>::new()
            .build()
            .map_err(|error| refused(&error))?;
        let made = runtime.block_on(async {
            let tasks = Tasks::new(config)?;
            let timer = Timer::start(tasks.nudge())?;
            Ok::<_, io::Error>((tasks, timer))
        });
        let (tasks, timer) = made.map_err(os("timerfd_create"))?;
        Ok(Self {
            runtime,
            tasks,
            timer,
        })
    }

    /// Whether this machine has what the driver needs; the error is one line that says what is missing.
    ///
    /// # Errors
    /// [`DriverError::Unavailable`].
    pub fn probe() -> Result<(), DriverError> {
        Self::new(TasksConfig {
            connections_max: 1,
            ..TasksConfig::default()
        })
        .map(drop)
    }

    /// Waits for something to tell, at most until `deadline`; from a deadline that has passed, looks.
    fn wait(&mut self, deadline: Nanos, waits: bool) -> Result<(), DriverError> {
        if !waits {
            // A task that is awaited keeps the runtime from sleeping, and has it enter the kernel once.
            self.runtime
                .block_on(async { monoio::spawn(async {}).await });
            return Ok(());
        }
        if deadline < Nanos::MAX {
            self.timer.arm(deadline).map_err(os("timerfd_settime"))?;
        }
        let tasks = &self.tasks;
        self.runtime
            .block_on(std::future::poll_fn(|context| tasks.poll(context)));
        Ok(())
    }
}

fn refused(error: &io::Error) -> DriverError {
    DriverError::Unavailable {
        what: format!("monoio can't have an io_uring here: {error}"),
        remedy: "the epoll driver works here (--driver epoll)",
    }
}

fn os(call: &'static str) -> impl Fn(io::Error) -> DriverError {
    move |source| DriverError::Os { call, source }
}

impl Driver for MonoioDriver {
    type Waker = TasksWaker;

    fn listen(&mut self, peer: &Peer) -> Result<Peer, DriverError> {
        self.runtime.block_on(async { self.tasks.listen(peer) })
    }

    fn stop_listening(&mut self) -> Result<(), DriverError> {
        self.runtime.block_on(async { self.tasks.stop_listening() });
        Ok(())
    }

    fn commands(&mut self) -> &mut Commands {
        self.tasks.commands()
    }

    fn turn<S: Sink>(&mut self, deadline: Nanos, sink: &mut S) -> Result<Turn, DriverError> {
        let mut turn = Turn::default();
        loop {
            let now = self.runtime.block_on(async { self.tasks.begin(sink) });
            let waits = self.tasks.is_idle() && now < deadline;
            self.wait(deadline, waits)?;
            if waits {
                turn.waited += MonotonicClock.now() - now;
            }
            let tasks = &mut self.tasks;
            let over = self
                .runtime
                .block_on(async { tasks.end(sink, deadline, &mut turn) });
            if over {
                return Ok(turn);
            }
        }
    }

    fn waker(&self) -> TasksWaker {
        self.tasks.waker()
    }

    fn counters(&self) -> Counters {
        self.tasks.counters()
    }
}

impl Drop for MonoioDriver {
    /// What the kernel may still write to belongs to tasks: they end before the runtime does.
    fn drop(&mut self) {
        let stopped = self.runtime.block_on(async {
            self.tasks.stop();
            self.timer.stop()
        });
        debug_assert!(stopped.is_ok(), "{stopped:?}");
        let mut closing = CLOSING_VISITS;
        for _ in 0..LAST_VISITS {
            self.runtime
                .block_on(async { monoio::spawn(async {}).await });
            if self.tasks.running() == 0 {
                closing -= 1;
            }
            if closing == 0 {
                break;
            }
        }
    }
}
