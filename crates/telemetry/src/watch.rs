use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ridgeline_clock::{Clock, MonotonicClock, Nanos};

use crate::figures::{CoreFigures, MachineFigures, ThreadFigures, share};
use crate::files::Files;
use crate::proc::{CoreTicks, NetCounts, Switches, Throttling};
use crate::series::{Sample, Series};
use crate::stall::Stall;

/// How often threads are looked at: the least span that a cause can be told of.
const PERIOD: Duration = Duration::from_millis(100);

/// Shorter stalls are lost in what else happens between two looks.
const STALL_MIN: Nanos = Nanos::from_millis(1);

/// Of so many looks at the shards one is at every thread of the process.
const ACCOUNT_EVERY: u32 = 5;

/// A thread that looks at the shards and the machine until it is told to finish. Start it where it stays
/// off the shards' cores.
#[derive(Debug)]
pub struct Watch {
    state: Arc<Mutex<State>>,
    over: Sender<()>,
    thread: JoinHandle<()>,
}

impl Watch {
    /// Starts to watch a run of `shards` shards.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub fn start(shards: u32) -> io::Result<Self> {
        let state = Arc::new(Mutex::new(State::new(Files::new(Path::new("/")), shards)));
        let (over, told) = mpsc::channel::<()>();
        let watched = state.clone();
        let look = move || {
            while told.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                lock(&watched).look(MonotonicClock.now());
            }
        };
        let thread = thread::Builder::new()
            .name("watch".to_owned())
            .spawn(look)?;
        Ok(Self {
            state,
            over,
            thread,
        })
    }

    /// What every shard is to call, with its number, on its own thread: when its measured phase begins and
    /// when it is over, never between.
    pub fn edge(&self) -> impl Fn(u32) + Send + Sync + use<> {
        let state = self.state.clone();
        move |shard| {
            let thread = rustix::thread::gettid().as_raw_nonzero().get();
            lock(&state).edge(shard, thread, MonotonicClock.now());
        }
    }

    /// Ends it; what was found.
    #[must_use]
    pub fn finish(self) -> Watched {
        drop(self.over);
        // A watcher that panicked found less.
        let _ = self.thread.join();
        let mut state = lock(&self.state);
        Watched {
            machine: state.machine(),
            threads: std::mem::take(&mut state.threads),
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What was found.
#[derive(Debug)]
pub struct Watched {
    machine: Option<MachineFigures>,
    threads: Vec<Option<Thread>>,
}

impl Watched {
    /// The machine; `None` if no shard began to measure.
    #[must_use]
    pub fn machine(&self) -> Option<&MachineFigures> {
        self.machine.as_ref()
    }

    /// The thread of a shard; `None` if it did not begin to measure.
    #[must_use]
    pub fn thread(&self, shard: u32) -> Option<ThreadFigures> {
        let thread = self.of(shard)?;
        let (first, last) = (thread.series.first(), thread.series.last());
        let sched = first.sched.zip(last.sched);
        let switches = thread.switches_first.zip(thread.switches_last);
        Some(ThreadFigures {
            span_ns: (last.at - first.at).0,
            ran_ns: sched.map(|(first, last)| (last.ran - first.ran).0),
            queue_wait_ns: sched.map(|(first, last)| (last.waited - first.waited).0),
            timeslices: sched.map(|(first, last)| last.timeslices.saturating_sub(first.timeslices)),
            switches_voluntary: switches
                .map(|(first, last)| last.voluntary.saturating_sub(first.voluntary)),
            switches_involuntary: switches
                .map(|(first, last)| last.involuntary.saturating_sub(first.involuntary)),
            faults_minor: last.faults_minor.saturating_sub(first.faults_minor),
            faults_major: last.faults_major.saturating_sub(first.faults_major),
        })
    }

    /// Why a shard stood still for `length` until `end`. Of less than a millisecond nobody can tell.
    #[must_use]
    pub fn stall(&self, shard: u32, end: Nanos, length: Nanos) -> Stall {
        let thread = self.of(shard).filter(|_| length >= STALL_MIN);
        let explained = thread.and_then(|thread| {
            let (before, after) = thread.series.around(end - length, end)?;
            let usual = thread.runs_in(after.at - before.at - length);
            Some(Stall::explain(before, after, length, usual))
        });
        explained.unwrap_or(Stall::UNKNOWN)
    }

    fn of(&self, shard: u32) -> Option<&Thread> {
        self.threads.get(shard as usize)?.as_ref()
    }
}

/// The thread of one shard.
#[derive(Debug)]
struct Thread {
    id: i32,
    series: Series,
    switches_first: Option<Switches>,
    switches_last: Option<Switches>,
    is_over: bool,
}

impl Thread {
    /// What it ran in so long, in the mean of its phase.
    fn runs_in(&self, span: Nanos) -> Nanos {
        let (first, last) = (self.series.first(), self.series.last());
        let ran = first.sched.zip(last.sched);
        let ran = ran.map_or(Nanos::ZERO, |(first, last)| last.ran - first.ran);
        let phase = u128::from((last.at - first.at).0.max(1));
        let share = u128::from(span.0) * u128::from(ran.0) / phase;
        Nanos(u64::try_from(share).unwrap_or(u64::MAX))
    }
}

/// The machine at one moment. All of it counts up.
#[derive(Clone, Debug, Default)]
struct Moment {
    at: Nanos,
    cores: Vec<CoreTicks>,
    /// What threads of this process ran, by the core on which they were last seen.
    own: BTreeMap<usize, Nanos>,
    throttling: Option<Throttling>,
    net: NetCounts,
}

#[derive(Debug)]
struct State {
    files: Files,
    threads: Vec<Option<Thread>>,
    /// Of each thread of this process, how long it had run when it was last seen.
    ran: HashMap<i32, Nanos>,
    own: BTreeMap<usize, Nanos>,
    first: Option<Moment>,
    last: Option<Moment>,
    /// Those on which a shard was seen.
    shard_cores: BTreeSet<usize>,
    looks: u32,
}

impl State {
    fn new(files: Files, shards: u32) -> Self {
        let mut state = Self {
            files,
            threads: (0..shards).map(|_| None).collect(),
            ran: HashMap::new(),
            own: BTreeMap::new(),
            first: None,
            last: None,
            shard_cores: BTreeSet::new(),
            looks: 0,
        };
        state.account();
        state
    }

    /// A shard's measured phase begins, or is over.
    fn edge(&mut self, shard: u32, id: i32, now: Nanos) {
        let (cores, throttled) = (self.files.cores(), self.throttled());
        let sample = self.sample(id, now, &cores, throttled);
        let switches = self.files.switches(id);
        self.account();
        let moment = self.moment(now, cores);
        let Some(place) = self.threads.get_mut(shard as usize) else {
            return;
        };
        if let Some(thread) = place {
            thread.series.push_always(sample);
            thread.switches_last = switches;
            thread.is_over = true;
            self.last = Some(moment);
        } else {
            *place = Some(Thread {
                id,
                series: Series::new(sample),
                switches_first: switches,
                switches_last: None,
                is_over: false,
            });
            self.first.get_or_insert(moment);
        }
    }

    /// Looks at the threads of all shards, and now and then counts what every thread of the process ran.
    fn look(&mut self, now: Nanos) {
        self.looks = self.looks.wrapping_add(1);
        if self.looks.is_multiple_of(ACCOUNT_EVERY) {
            self.account();
        }
        let (cores, throttled) = (self.files.cores(), self.throttled());
        let under_way = |thread: &Option<Thread>| thread.as_ref().is_some_and(|t| !t.is_over);
        let places = (0..self.threads.len()).filter(|&place| under_way(&self.threads[place]));
        for place in places.collect::<Vec<_>>() {
            let Some(id) = self.threads[place].as_ref().map(|thread| thread.id) else {
                continue;
            };
            let sample = self.sample(id, now, &cores, throttled);
            if let Some(thread) = &mut self.threads[place] {
                thread.series.push(sample);
            }
        }
    }

    fn throttled(&self) -> Option<Nanos> {
        self.files.throttling().map(|throttling| throttling.time)
    }

    fn sample(
        &mut self,
        id: i32,
        at: Nanos,
        cores: &[CoreTicks],
        throttled: Option<Nanos>,
    ) -> Sample {
        let (sched, stat) = (self.files.sched(id), self.files.stat(id));
        let core = stat.map(|stat| stat.core);
        self.shard_cores.extend(core);
        let ticks = cores.iter().find(|ticks| Some(ticks.core) == core);
        let stat = stat.unwrap_or_default();
        Sample {
            at,
            sched,
            faults_minor: stat.faults_minor,
            faults_major: stat.faults_major,
            core,
            stolen: ticks.map(|ticks| self.files.tick() * ticks.stolen),
            throttled,
        }
    }

    /// Counts what each thread of this process ran since the last time for the core it is on now.
    fn account(&mut self) {
        for id in self.files.threads() {
            let (Some(sched), Some(stat)) = (self.files.sched(id), self.files.stat(id)) else {
                continue;
            };
            let before = self.ran.insert(id, sched.ran).unwrap_or_default();
            *self.own.entry(stat.core).or_default() += sched.ran - before;
        }
    }

    fn moment(&self, at: Nanos, cores: Vec<CoreTicks>) -> Moment {
        Moment {
            at,
            cores,
            own: self.own.clone(),
            throttling: self.files.throttling(),
            net: self.files.net(),
        }
    }

    fn machine(&self) -> Option<MachineFigures> {
        let first = self.first.as_ref()?;
        let last = self.last.as_ref().unwrap_or(first);
        let span = last.at - first.at;
        let tick = self.files.tick();
        let pairs: Vec<_> = last
            .cores
            .iter()
            .filter_map(|last| {
                let first = first.cores.iter().find(|first| first.core == last.core)?;
                Some((first, last))
            })
            .collect();
        let core = |&(before, after): &(&CoreTicks, &CoreTicks)| {
            let since = |of: fn(&CoreTicks) -> u64| tick * of(after).saturating_sub(of(before));
            let (idle, stolen) = (since(|ticks| ticks.idle), since(|ticks| ticks.stolen));
            // Busy ticks are samples, idle ones are exact.
            let busy = span - idle - stolen;
            let ran = |moment: &Moment| moment.own.get(&after.core).copied().unwrap_or_default();
            let own = ran(last) - ran(first);
            CoreFigures {
                core: after.core,
                has_shard: self.shard_cores.contains(&after.core),
                busy_share: share(busy, span),
                foreign_busy_share: share(busy - own, span),
                steal_share: share(stolen, span),
            }
        };
        let cores: Vec<CoreFigures> = pairs.iter().map(core).collect();
        let throttling = first.throttling.zip(last.throttling);
        let net = |of: fn(&NetCounts) -> Option<u64>| {
            let (before, after) = of(&first.net).zip(of(&last.net))?;
            Some(after.saturating_sub(before))
        };
        Some(MachineFigures {
            span_ns: span.0,
            steal_share: mean(cores.iter().map(|core| core.steal_share)),
            cores,
            throttled_ns: throttling.map(|(before, after)| (after.time - before.time).0),
            throttled_periods: throttling
                .map(|(before, after)| after.periods.saturating_sub(before.periods)),
            governor: self.governor(),
            segments_sent: net(|counts| counts.segments_sent),
            retransmits: net(|counts| counts.retransmits),
            listen_drops: net(|counts| counts.listen_drops),
            backlog_drops: net(|counts| counts.backlog_drops),
            receive_drops: net(|counts| counts.receive_drops),
        })
    }

    fn governor(&self) -> Option<String> {
        let cores = self.shard_cores.iter();
        let names: BTreeSet<String> = cores
            .filter_map(|&core| self.files.governor(core))
            .collect();
        let names: Vec<String> = names.into_iter().collect();
        (!names.is_empty()).then(|| names.join(", "))
    }
}

#[expect(clippy::cast_precision_loss, reason = "a number of cores")]
fn mean(shares: impl ExactSizeIterator<Item = f64>) -> Option<f64> {
    let count = shares.len();
    (count > 0).then(|| shares.sum::<f64>() / count as f64)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::Cause;

    /// A machine of two cores, in files; `idle` in ticks of each core.
    fn write(root: &Path, ran_ms: u64, waited_ms: u64, idle: [u64; 2], stolen: u64) {
        let put = |path: &str, text: String| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let task = "proc/self/task/77";
        let ms = |ms: u64| ms * 1_000_000;
        put(
            &format!("{task}/schedstat"),
            format!("{} {} {}\n", ms(ran_ms), ms(waited_ms), ran_ms + 1),
        );
        let zeros = "0 ".repeat(25);
        put(
            &format!("{task}/stat"),
            format!("77 (shard 0) R 1 1 1 0 -1 64 {ran_ms} 0 0 0 {zeros} 1 0 0\n"),
        );
        put(
            &format!("{task}/status"),
            format!("voluntary_ctxt_switches:\t{ran_ms}\nnonvoluntary_ctxt_switches:\t3\n"),
        );
        let [zero, one] = idle;
        put(
            "proc/stat",
            format!("cpu0 0 0 0 {zero} 0 0 0 0 0 0\ncpu1 0 0 0 {one} 0 0 0 {stolen} 0 0\n"),
        );
        put(
            "proc/net/snmp",
            format!("Tcp: OutSegs RetransSegs\nTcp: {} 4\n", ms(ran_ms)),
        );
    }

    fn ms(ms: u64) -> Nanos {
        Nanos::from_millis(ms)
    }

    #[test]
    fn a_run_is_what_happened_between_its_edges() {
        let root = tempfile::tempdir().unwrap();
        let files = || Files::new(root.path());
        write(root.path(), 100, 10, [0, 0], 5);
        let mut state = State::new(files(), 2);
        let ticks = |span: Nanos| span.0 / files().tick().0;
        state.edge(0, 77, ms(1_000));
        // Core 1 ran for 600 of 1,000 ms, 400 of them for this process; core 0 did nothing.
        write(root.path(), 400, 10, [ticks(ms(500)), ticks(ms(200))], 5);
        state.look(ms(1_500));
        write(root.path(), 500, 90, [ticks(ms(1_000)), ticks(ms(400))], 5);
        state.edge(0, 77, ms(2_000));
        state.look(ms(2_100));
        let machine = state.machine().unwrap();
        let watched = Watched {
            machine: Some(machine.clone()),
            threads: state.threads,
        };
        let found = watched.thread(0).unwrap();
        assert_eq!(
            (found.span_ns, found.ran_ns, found.queue_wait_ns),
            (ms(1_000).0, Some(ms(400).0), Some(ms(80).0))
        );
        assert_eq!(
            (
                found.faults_minor,
                found.switches_voluntary,
                found.switches_involuntary
            ),
            (400, Some(400), Some(0))
        );
        assert_eq!(watched.thread(1), None);

        let near = |a: f64, b: f64| (a - b).abs() < 0.011;
        let [zero, one] = &machine.cores[..] else {
            panic!("{machine:?}")
        };
        assert!(near(zero.busy_share, 0.0) && !zero.has_shard, "{zero:?}");
        assert!(near(one.busy_share, 0.6) && one.has_shard, "{one:?}");
        assert!(near(one.foreign_busy_share, 0.2), "{one:?}");
        assert_eq!(machine.steal_share, Some(0.0));
        assert_eq!((machine.retransmits, machine.listen_drops), (Some(0), None));
        assert_eq!((machine.throttled_ns, &machine.governor), (None, &None));

        let stall = |end, length| watched.stall(0, ms(end), ms(length)).cause;
        assert_eq!(stall(1_800, 100), Cause::Scheduler);
        assert_eq!(stall(1_300, 100), Cause::OwnWork);
        assert_eq!(stall(2_050, 100), Cause::Unknown, "nobody looked any more");
        assert_eq!(watched.stall(1, ms(1_800), ms(100)).cause, Cause::Unknown);
        let short = watched.stall(0, ms(1_800), Nanos::from_micros(999));
        assert_eq!(short.cause, Cause::Unknown);
    }

    #[test]
    fn a_machine_without_files_is_an_absence() {
        let root = tempfile::tempdir().unwrap();
        let mut state = State::new(Files::new(root.path()), 1);
        assert_eq!(state.machine(), None);
        state.edge(0, 77, ms(1));
        state.look(ms(2));
        state.edge(0, 77, ms(3));
        state.edge(9, 77, ms(4));
        let machine = state.machine().unwrap();
        assert_eq!((machine.steal_share, machine.cores.len()), (None, 0));
        let watched = Watched {
            machine: None,
            threads: state.threads,
        };
        let found = watched.thread(0).unwrap();
        assert_eq!((found.ran_ns, found.faults_minor), (None, 0));
        assert_eq!(watched.stall(0, ms(2), ms(1)).cause, Cause::Unknown);
    }

    #[test]
    fn a_quota_is_found_through_the_mounts() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put("proc/self/cgroup", "0::/a/b\n");
        put(
            "proc/self/mountinfo",
            "30 23 0:26 / /cg rw - cgroup2 cgroup2 rw\n",
        );
        put("cg/a/cpu.stat", "nr_throttled 1\nthrottled_usec 10\n");
        put("cg/a/b/cpu.stat", "nr_throttled 2\nthrottled_usec 5\n");
        let found = Files::new(root.path()).throttling();
        let expected = Throttling {
            periods: 3,
            time: Nanos::from_micros(15),
        };
        assert_eq!(found, Some(expected));
    }
}
