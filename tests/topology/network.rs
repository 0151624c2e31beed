//! Machines that are network namespaces of this one, each with a name, a boot and, if asked for, a clock
//! of its own: a coordinator, three workers and a router on one segment, and a server behind the router.
//!
//! ```text
//! coordinator .10 ┐
//! worker-0    .20 ┤
//! worker-1    .21 ┼ bridge 198.18.0.1 [router] 198.19.0.1 ── 198.19.0.10 server
//! worker-2    .22 ┘
//! ```
//!
//! The addresses are those that are set apart for measurements (RFC 2544). Nothing leads out of here.

use std::fs::{self, File};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd as _;
use std::process::{self, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, JoinHandle};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tempfile::TempDir;

/// What every name of a namespace begins with; after it the process that made it.
const PREFIX: &str = "ridgeline-test";

/// Where `ip` keeps the namespaces that have names.
const NAMED: &str = "/run/netns";

/// The machines that are no router, with their addresses.
pub(crate) const COORDINATOR: &str = "coordinator";
pub(crate) const WORKERS: [&str; 3] = ["worker-0", "worker-1", "worker-2"];
pub(crate) const SERVER: &str = "server";
pub(crate) const ROUTER: &str = "router";

/// Seconds that a machine's monotonic clock is ahead of this one's.
pub(crate) type Ahead = u32;

/// Where a machine is.
pub(crate) fn address(machine: &str) -> IpAddr {
    let (net, host) = match machine {
        COORDINATOR => (18, 10),
        SERVER => (19, 10),
        ROUTER => (18, 1),
        worker => {
            let index = WORKERS.iter().position(|name| *name == worker);
            let index = index.unwrap_or_else(|| panic!("no machine is {worker}"));
            (18, 20 + u8::try_from(index).expect("three workers"))
        }
    };
    Ipv4Addr::new(198, net, 0, host).into()
}

/// The machines. They are gone when it is dropped, and what still runs on them is without a network.
#[derive(Debug)]
pub(crate) struct Network {
    name: String,
    /// What each machine has in the place of files of this one.
    folder: TempDir,
}

impl Network {
    /// Makes the machines, or says on the output why it may not.
    pub(crate) fn make() -> Option<Self> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        if !rustix::process::geteuid().is_root() {
            println!("skipped: only root makes network namespaces");
            return None;
        }
        if Command::new("ip").arg("-V").output().is_err() {
            println!("skipped: there is no `ip`; it comes with the package iproute2");
            return None;
        }
        remove_what_others_left();
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let network = Self {
            name: format!("{PREFIX}-{}-{number}", process::id()),
            folder: tempfile::tempdir().expect("a temporary folder"),
        };
        let first = ip(&format!("netns add {}", network.of(ROUTER)));
        if !first.status.success() {
            let why = String::from_utf8_lossy(&first.stderr);
            println!(
                "skipped: no network namespace can be made here: {}",
                why.trim()
            );
            return None;
        }
        network.build();
        Some(network)
    }

    fn build(&self) {
        let router = self.of(ROUTER);
        must(&format!("-n {router} link set lo up"));
        must(&format!("-n {router} link add segment type bridge"));
        must(&format!("-n {router} link set segment up"));
        must(&format!(
            "-n {router} address add {}/24 dev segment",
            address(ROUTER)
        ));
        for machine in [COORDINATOR].into_iter().chain(WORKERS) {
            self.plug_in(machine, address(ROUTER));
            must(&format!("-n {router} link set {machine} master segment"));
        }
        let gateway = Ipv4Addr::new(198, 19, 0, 1).into();
        must(&format!("netns add {}", self.of(SERVER)));
        self.plug(SERVER, gateway);
        must(&format!(
            "-n {router} address add {gateway}/24 dev {SERVER}"
        ));
        let forward = "echo 1 > /proc/sys/net/ipv4/ip_forward";
        let forwards = Command::new("ip")
            .args(["netns", "exec", &router, "sh", "-c", forward])
            .status();
        assert!(forwards.is_ok_and(|status| status.success()), "the router");
        let hosts = [COORDINATOR, SERVER].into_iter().chain(WORKERS);
        let hosts: String = hosts
            .map(|machine| format!("{} {machine}\n", address(machine)))
            .collect();
        for (number, machine) in [COORDINATOR, SERVER].into_iter().chain(WORKERS).enumerate() {
            let folder = self.folder.path().join(machine);
            fs::create_dir(&folder).expect("a folder");
            let boot = format!("00000000-0000-4000-8000-{number:012}\n");
            for (file, text) in [
                ("boot_id", boot.as_str()),
                ("hosts", &format!("127.0.0.1 localhost\n{hosts}")),
                // Names that are not among the hosts are unknown at once.
                ("resolv.conf", "nameserver 127.0.0.1\n"),
            ] {
                fs::write(folder.join(file), text).expect("a file");
            }
        }
    }

    /// Makes a machine and connects it to the router.
    fn plug_in(&self, machine: &str, gateway: IpAddr) {
        must(&format!("netns add {}", self.of(machine)));
        self.plug(machine, gateway);
    }

    fn plug(&self, machine: &str, gateway: IpAddr) {
        let (own, router) = (self.of(machine), self.of(ROUTER));
        must(&format!(
            "-n {own} link add eth0 type veth peer name {machine} netns {router}"
        ));
        must(&format!(
            "-n {own} address add {}/24 dev eth0",
            address(machine)
        ));
        must(&format!("-n {own} link set lo up"));
        must(&format!("-n {own} link set eth0 up"));
        must(&format!("-n {router} link set {machine} up"));
        must(&format!("-n {own} route add default via {gateway}"));
    }

    fn of(&self, machine: &str) -> String {
        format!("{}-{machine}", self.name)
    }

    /// Pulls the machine's cable: nothing that is sent over it comes any more, and nobody is told.
    pub(crate) fn cut(&self, machine: &str) {
        must(&format!("-n {} link set {machine} down", self.of(ROUTER)));
    }

    /// Makes a name known to all machines from now on.
    pub(crate) fn name(&self, name: &str, machine: &str) {
        use std::io::Write as _;
        for at in [COORDINATOR, SERVER].into_iter().chain(WORKERS) {
            // The same file: it is seen where it is mounted.
            let path = self.folder.path().join(at).join("hosts");
            let file = File::options().append(true).open(path);
            let added = file.and_then(|mut file| writeln!(file, "{} {name}", address(machine)));
            added.expect("the hosts of a machine are known");
        }
    }

    /// A program on a machine.
    pub(crate) fn command(&self, machine: &str, ahead: Ahead, program: &str) -> Command {
        const START: &str = "set -e\n\
            echo \"$1\" > /proc/sys/kernel/hostname\n\
            mount --bind \"$0/boot_id\" /proc/sys/kernel/random/boot_id\n\
            mount --bind \"$0/hosts\" /etc/hosts\n\
            if [ -e /etc/resolv.conf ]; then mount --bind \"$0/resolv.conf\" /etc/resolv.conf; fi\n\
            shift\n\
            exec \"$@\"";
        let mut command = Command::new("ip");
        // `ip netns exec` makes a mount namespace: what is mounted here is seen by nobody else.
        command.args(["netns", "exec", &self.of(machine), "unshare", "--uts"]);
        command.args(["sh", "-c", START]);
        command.arg(self.folder.path().join(machine));
        command.arg(machine);
        if ahead > 0 {
            // A clock is its children's, so the program is one; it dies with its parent.
            let ahead = ahead.to_string();
            command.args(["unshare", "--time", "--monotonic", &ahead]);
            command.args(["--fork", "--kill-child=KILL"]);
        }
        command.arg(program).stdin(Stdio::null());
        command
    }

    /// A thread of this test that is on a machine.
    pub(crate) fn thread<T: Send + 'static>(
        &self,
        machine: &str,
        run: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let namespace = File::open(format!("{NAMED}/{}", self.of(machine)));
        let namespace = namespace.expect("the machine is there");
        thread::spawn(move || {
            let moved =
                move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network));
            moved.expect("root may go there");
            run()
        })
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        remove(&self.name);
    }
}

/// Removes the namespaces whose names begin so.
fn remove(name: &str) {
    for namespace in namespaces().iter().filter(|known| known.starts_with(name)) {
        // Nothing else can be done about one that stays.
        let _ = ip(&format!("netns delete {namespace}"));
    }
}

/// Removes what a test left that was killed before it could do so.
fn remove_what_others_left() {
    for namespace in namespaces() {
        let of = namespace.strip_prefix(&format!("{PREFIX}-"));
        let Some((process, _)) = of.and_then(|of| of.split_once('-')) else {
            continue;
        };
        if !fs::exists(format!("/proc/{process}")).unwrap_or(true) {
            remove(&format!("{PREFIX}-{process}-"));
        }
    }
}

/// The names of all network namespaces that have one.
fn namespaces() -> Vec<String> {
    let Ok(entries) = fs::read_dir(NAMED) else {
        return Vec::new();
    };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.collect()
}

fn ip(arguments: &str) -> Output {
    let output = Command::new("ip").args(arguments.split(' ')).output();
    output.unwrap_or_else(|error| panic!("ip {arguments}: {error}"))
}

fn must(arguments: &str) {
    let output = ip(arguments);
    let why = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {arguments}: {why}");
}
