use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use glommio::timer::Timer;
use glommio::{GlommioError, LocalExecutor, LocalExecutorBuilder, Placement};
use ridgeline_clock::{Clock, MonotonicClock, Nanos};
use ridgeline_net::{Commands, Counters, Driver, DriverError, Peer, Sink, Turn};
use ridgeline_net_tasks::{Tasks, TasksConfig, TasksWaker};
use rustix::process::{Resource, getrlimit};

use crate::socket::Glommio;

/// glommio starts with no less.
const LOCKED_BYTES_MIN: u64 = 512 << 10;

/// What is spent on closing what is open: rounds of glommio's loop, a timer of this length each.
const LAST_ROUNDS: u32 = 200;
const CLOSING_ROUNDS: u32 = 2;
const ROUND: Duration = Duration::from_micros(200);

/// See the crate's page.
pub struct GlommioDriver {
    // Dropped before the executor.
    tasks: Tasks<Glommio>,
    executor: LocalExecutor,
}

impl fmt::Debug for GlommioDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GlommioDriver")
            .field("tasks", &self.tasks)
            .finish_non_exhaustive()
    }
}

impl GlommioDriver {
    /// A driver for the calling thread.
    ///
    /// # Errors
    /// [`DriverError::Unavailable`] where glommio can't have its rings, [`DriverError::Os`] when there is no
    /// descriptor for the waker.
    ///
    /// # Panics
    /// Where io_uring is forbidden altogether: glommio asserts that it is there. Ask another driver first.
    pub fn new(config: TasksConfig) -> Result<Self, DriverError> {
        // Registered buffers are for files; this is the least that it takes.
        let executor = LocalExecutorBuilder::new(Placement::Unbound)
            .io_memory(0)
            .make()
            .map_err(|error| refused(&error))?;
        let tasks = executor
            .run(async { Tasks::new(config) })
            .map_err(os("socketpair"))?;
        Ok(Self { executor, tasks })
    }

    /// Whether this machine has what the driver needs; the error is one line that says what is missing.
    ///
    /// # Errors
    /// [`DriverError::Unavailable`].
    ///
    /// # Panics
    /// As [`GlommioDriver::new`].
    pub fn probe() -> Result<(), DriverError> {
        Self::new(TasksConfig {
            connections_max: 1,
            ..TasksConfig::default()
        })
        .map(drop)
    }
}

fn refused(error: &GlommioError<()>) -> DriverError {
    let limit = getrlimit(Resource::Memlock).current;
    // Kernels before 5.12 count rings against it, too: with several drivers the last one gets none.
    let all_taken =
        matches!(error, GlommioError::IoError(error) if error.kind() == io::ErrorKind::OutOfMemory);
    match limit {
        Some(limit) if limit < LOCKED_BYTES_MIN || all_taken => DriverError::Unavailable {
            what: format!(
                "glommio can't start here: each driver wants {} KiB of locked memory, and the limit is {} KiB",
                LOCKED_BYTES_MIN >> 10,
                limit >> 10
            ),
            remedy: "raise the limit (ulimit -l), or use the epoll driver (--driver epoll)",
        },
        _ => DriverError::Unavailable {
            what: format!("glommio can't start here: {error}"),
            remedy: "the epoll driver works here (--driver epoll)",
        },
    }
}

fn os(call: &'static str) -> impl Fn(io::Error) -> DriverError {
    move |source| DriverError::Os { call, source }
}

/// Waits for something to tell, at most until `deadline`.
async fn wait(tasks: &Tasks<Glommio>, now: Nanos, deadline: Nanos) {
    let left = (deadline < Nanos::MAX).then(|| Timer::new((deadline - now).into()));
    let mut timer = left;
    poll_fn(|context| {
        if tasks.poll(context).is_ready() {
            return Poll::Ready(());
        }
        match &mut timer {
            Some(timer) => Pin::new(timer).poll(context).map(drop),
            None => Poll::Pending,
        }
    })
    .await;
}

/// Lets tasks that can run do so, once.
async fn look() {
    let mut looked = false;
    poll_fn(|context| {
        if looked {
            return Poll::Ready(());
        }
        looked = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

impl Driver for GlommioDriver {
    type Waker = TasksWaker;

    fn listen(&mut self, peer: &Peer) -> Result<Peer, DriverError> {
        self.executor.run(async { self.tasks.listen(peer) })
    }

    fn stop_listening(&mut self) -> Result<(), DriverError> {
        self.executor.run(async { self.tasks.stop_listening() });
        Ok(())
    }

    fn commands(&mut self) -> &mut Commands {
        self.tasks.commands()
    }

    fn turn<S: Sink>(&mut self, deadline: Nanos, sink: &mut S) -> Result<Turn, DriverError> {
        let tasks = &mut self.tasks;
        let turn = self.executor.run(async {
            let mut turn = Turn::default();
            loop {
                let now = tasks.begin(sink);
                if tasks.is_idle() && now < deadline {
                    wait(tasks, now, deadline).await;
                    turn.waited += MonotonicClock.now() - now;
                } else {
                    look().await;
                }
                if tasks.end(sink, deadline, &mut turn) {
                    return turn;
                }
            }
        });
        Ok(turn)
    }

    fn waker(&self) -> TasksWaker {
        self.tasks.waker()
    }

    fn counters(&self) -> Counters {
        self.tasks.counters()
    }
}

impl Drop for GlommioDriver {
    /// Sockets are closed by tasks that end, and by a ring that cancels what they waited for.
    fn drop(&mut self) {
        let tasks = &mut self.tasks;
        self.executor.run(async {
            tasks.stop();
            let mut closing = CLOSING_ROUNDS;
            for _ in 0..LAST_ROUNDS {
                Timer::new(ROUND).await;
                if tasks.running() == 0 {
                    closing -= 1;
                }
                if closing == 0 {
                    break;
                }
            }
        });
    }
}
