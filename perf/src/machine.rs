//! What a process asks of the machine: a core, its CPU time, its timer slack.

use std::fmt;
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use ridgeline_clock::Nanos;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_setaffinity};
use serde::Serialize;

/// CPU time, as the kernel accounts it to a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cpu {
    /// In user space, in nanoseconds.
    pub user_ns: u64,
    /// In the kernel on the process's behalf, in nanoseconds.
    pub system_ns: u64,
}

impl Cpu {
    /// Both together. Their sum is exact; how it is split is sampled.
    #[must_use]
    pub fn total_ns(self) -> u64 {
        self.user_ns + self.system_ns
    }

    /// What was used since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            user_ns: self.user_ns.saturating_sub(earlier.user_ns),
            system_ns: self.system_ns.saturating_sub(earlier.system_ns),
        }
    }

    fn of(usage: &libc::rusage) -> Self {
        let nanos = |time: libc::timeval| {
            let secs = u64::try_from(time.tv_sec).unwrap_or(0);
            let micros = u64::try_from(time.tv_usec).unwrap_or(0);
            secs * 1_000_000_000 + micros * 1_000
        };
        Self {
            user_ns: nanos(usage.ru_utime),
            system_ns: nanos(usage.ru_stime),
        }
    }
}

/// The CPU time of this process so far (`getrusage`).
///
/// # Errors
/// None in practice.
pub fn own_cpu() -> io::Result<Cpu> {
    let mut usage = MaybeUninit::uninit();
    // SAFETY: room for one rusage.
    let answer = unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) };
    if answer != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: filled in, as the call succeeded.
    let usage = unsafe { usage.assume_init() };
    Ok(Cpu::of(&usage))
}

/// Lets the threads of a running process whose names begin with `name` go before all others on their cores, but
/// for those of the kernel (`SCHED_FIFO`). How many there are.
///
/// # Errors
/// When there is no such process, or without the right to do so.
pub fn go_first(pid: u32, name: &str) -> io::Result<u32> {
    let parameters = libc::sched_param { sched_priority: 1 };
    let mut count = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let task = task?;
        if !fs::read_to_string(task.path().join("comm"))?.starts_with(name) {
            continue;
        }
        let id = task.file_name().to_str().and_then(|id| id.parse().ok());
        let id: libc::pid_t = id.ok_or(io::ErrorKind::InvalidData)?;
        // SAFETY: reads one struct, which outlives the call.
        if unsafe { libc::sched_setscheduler(id, libc::SCHED_FIFO, &raw const parameters) } != 0 {
            return Err(io::Error::last_os_error());
        }
        count += 1;
    }
    Ok(count)
}

/// The CPU time so far of a running process and of the processes it started: a master's workers are
/// its own work. In nanoseconds, all threads, by the kernel's CPU clock of each process
/// (`clock_getcpuclockid`), which is the account that `wait4` gives in the end.
///
/// # Errors
/// When there is no such process. A child that ends meanwhile is not counted.
pub fn cpu_of(pid: u32) -> io::Result<Nanos> {
    let own = cpu_clock(pid)?;
    let children = children(pid).into_iter();
    Ok(children.fold(own, |sum, child| sum + cpu_of(child).unwrap_or(Nanos::ZERO)))
}

fn cpu_clock(pid: u32) -> io::Result<Nanos> {
    let pid = libc::pid_t::try_from(pid).map_err(io::Error::other)?;
    let mut clock = 0;
    // SAFETY: room for a clock's id.
    let error = unsafe { libc::clock_getcpuclockid(pid, &raw mut clock) };
    if error != 0 {
        return Err(io::Error::from_raw_os_error(error));
    }
    let mut time = MaybeUninit::uninit();
    // SAFETY: room for one timespec.
    let answer = unsafe { libc::clock_gettime(clock, time.as_mut_ptr()) };
    if answer != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: filled in, as the call succeeded.
    let time = unsafe { time.assume_init() };
    let part = |number: i64| u64::try_from(number).unwrap_or(0);
    Ok(Nanos::from_secs(part(time.tv_sec)) + Nanos(part(time.tv_nsec)))
}

/// The processes that the threads of `pid` started, as far as the kernel lists them.
fn children(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task"));
    let lists = threads.into_iter().flatten().flatten();
    lists
        .filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok())
        .flat_map(|list| {
            list.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
        .filter_map(|child| child.parse().ok())
        .collect()
}

/// What a child process used, known when it has ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// How it ended.
    pub status: ExitStatus,
    /// Its CPU time, all threads, start-up included.
    pub cpu: Cpu,
    /// Its largest resident set.
    pub resident_bytes_max: u64,
}

/// Waits for a child and takes its account (`wait4`).
///
/// # Errors
/// When `pid` is no child of this process.
pub fn reap(pid: u32) -> io::Result<Ended> {
    let pid = libc::pid_t::try_from(pid).map_err(io::Error::other)?;
    let mut status = 0;
    let mut usage = MaybeUninit::uninit();
    loop {
        // SAFETY: room for a status and one rusage.
        let answer = unsafe { libc::wait4(pid, &raw mut status, 0, usage.as_mut_ptr()) };
        if answer == pid {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    // SAFETY: filled in, as the call succeeded.
    let usage = unsafe { usage.assume_init() };
    let kibibytes = u64::try_from(usage.ru_maxrss).unwrap_or(0);
    Ok(Ended {
        status: ExitStatus::from_raw(status),
        cpu: Cpu::of(&usage),
        resident_bytes_max: kibibytes * 1024,
    })
}

/// Entries that the table of a ring may have: the process's limit on descriptors, which is raised as
/// far as it may be.
pub fn raise_files_max() -> u32 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    let current = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    current.map_or(u32::MAX, |current| {
        u32::try_from(current).unwrap_or(u32::MAX)
    })
}

/// Keeps the calling thread, and what it starts from now on, on one core.
///
/// # Errors
/// When there is no such core or it is not allowed.
pub fn pin(core: usize) -> io::Result<()> {
    if core >= CpuSet::MAX_CPU {
        return Err(io::Error::other(format!("there is no core {core}")));
    }
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set)
        .map_err(|error| io::Error::other(format!("cannot use core {core}: {error}")))
}

/// Sets how late the kernel may end a wait of the calling thread so as to batch wake-ups; the
/// default of a normal thread is 50 us.
///
/// # Errors
/// None in practice.
pub fn set_timer_slack(slack: Nanos) -> io::Result<()> {
    // SAFETY: takes two numbers, touches no memory of this process.
    let answer = unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack.0.max(1)) };
    if answer == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// What of the machine moves the numbers: two runs that differ in it can't be compared.
#[derive(Clone, Debug, Serialize)]
pub struct Environment {
    /// The processor, as it names itself.
    pub processor: String,
    /// Processors online.
    pub cores: usize,
    /// The kernel's release.
    pub kernel: String,
    /// The default congestion control of TCP.
    pub congestion_control: String,
    /// The load of the last minute before the run.
    pub load_average: String,
}

impl Environment {
    /// Reads it from /proc; what can't be read is "unknown".
    #[must_use]
    pub fn read() -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let word = |text: &str| match text.split_whitespace().next() {
            Some(word) => word.to_owned(),
            None => "unknown".to_owned(),
        };
        let processors = text("/proc/cpuinfo");
        let processor = processors
            .lines()
            .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
            .map_or_else(|| "unknown".to_owned(), |(_, name)| name.to_owned());
        Self {
            processor,
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: word(&text("/proc/sys/kernel/osrelease")),
            congestion_control: word(&text("/proc/sys/net/ipv4/tcp_congestion_control")),
            load_average: word(&text("/proc/loadavg")),
        }
    }
}

impl fmt::Display for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            processor,
            cores,
            kernel,
            congestion_control,
            load_average,
        } = self;
        write!(
            f,
            "{processor}, {cores} cores, Linux {kernel}, {congestion_control}, load {load_average}"
        )
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn own_time_only_grows() {
        let before = own_cpu().unwrap();
        let sum = (0..1_000_000_u64).fold(0, |sum, i| sum ^ std::hint::black_box(i));
        std::hint::black_box(sum);
        assert!(own_cpu().unwrap().total_ns() >= before.total_ns());
    }

    #[test]
    fn a_running_process_is_accounted_for_with_its_children() {
        let busy = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
        // What runs in the background gets no input but by another number, and would end at once.
        let script = format!("exec 3<&0; {busy}; ({busy}; echo; read end <&3) & wait");
        let mut child = Command::new("sh")
            .args(["-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // The grandchild's line says that both have done their work.
        let read = child.stdout.as_mut().unwrap().read(&mut [0]).unwrap();
        assert_eq!(read, 1);
        let (own, both) = (cpu_clock(child.id()).unwrap(), cpu_of(child.id()).unwrap());
        assert!(own > Nanos::ZERO && both > own, "{own} of {both}");
        drop(child.stdin.take());
        let pid = child.id();
        child.wait().unwrap();
        assert!(cpu_of(pid).is_err(), "it is gone");
    }

    #[test]
    #[expect(clippy::zombie_processes, reason = "`reap` waits for it")]
    fn a_child_is_accounted_for() {
        let child = Command::new("sh").args(["-c", "exit 3"]).spawn().unwrap();
        let ended = reap(child.id()).unwrap();
        assert_eq!(ended.status.code(), Some(3));
        assert!(ended.resident_bytes_max > 0);
        assert!(reap(child.id()).is_err(), "it is gone");
    }
}
