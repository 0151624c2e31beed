//! The seccomp profile: the program itself runs under it, on io_uring, and without its last part on epoll.

use std::fs;
use std::thread;

use seccompiler::{BpfProgram, compile_from_json};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::kustomize::{manifests, text};
use crate::program;

/// The calls of a ring, which is what runtimes' own profiles leave out.
const RING: [&str; 3] = ["io_uring_enter", "io_uring_register", "io_uring_setup"];

/// As container runtimes read it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Profile {
    default_action: String,
    default_errno_ret: u32,
    architectures: Vec<String>,
    syscalls: Vec<Rule>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    comment: String,
    names: Vec<String>,
    action: String,
    #[serde(default)]
    args: Vec<Argument>,
}

/// Allowed where the argument, masked by `value`, is `value_two`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Argument {
    index: u8,
    value: u64,
    value_two: u64,
    op: String,
}

fn profile() -> Profile {
    serde_json::from_str(&text(&manifests().join("seccomp/ridgeline.json"))).unwrap()
}

/// The filter of the profile without the calls in `without`, for this machine.
fn compile(profile: &Profile, without: &[&str]) -> BpfProgram {
    let is_known = |name: &str| {
        let alone = filter(vec![json!({"syscall": name})], 1);
        compile_from_json(alone.as_bytes(), this_machine()).is_ok()
    };
    let mut rules = Vec::new();
    for rule in &profile.syscalls {
        let arguments = rule.args.iter().map(|argument| {
            assert_eq!(argument.op, "SCMP_CMP_MASKED_EQ");
            json!({
                "index": argument.index, "type": "qword",
                "op": {"masked_eq": argument.value}, "val": argument.value_two,
            })
        });
        let arguments: Vec<Value> = arguments.collect();
        for name in rule
            .names
            .iter()
            .filter(|name| !without.contains(&name.as_str()))
        {
            // Other machines have fewer: those that the older of two calls is left out on.
            if !is_known(name) {
                assert_ne!(std::env::consts::ARCH, "x86_64", "no system call is {name}");
                continue;
            }
            rules.push(if arguments.is_empty() {
                json!({"syscall": name})
            } else {
                json!({"syscall": name, "args": arguments})
            });
        }
    }
    let filter = filter(rules, profile.default_errno_ret);
    let mut compiled = compile_from_json(filter.as_bytes(), this_machine()).unwrap();
    compiled.remove("all").unwrap()
}

fn filter(rules: Vec<Value>, errno: u32) -> String {
    json!({"all": {"mismatch_action": {"errno": errno}, "match_action": "allow", "filter": rules}})
        .to_string()
}

fn this_machine() -> seccompiler::TargetArch {
    std::env::consts::ARCH.try_into().unwrap()
}

/// Runs the program on a thread that has the filter, which its children inherit.
fn run_under(filter: BpfProgram, arguments: &[&str]) -> program::Exit {
    let arguments: Vec<String> = arguments.iter().map(|&word| word.to_owned()).collect();
    let run = move || {
        seccompiler::apply_filter(&filter).unwrap();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        program::run(&arguments)
    };
    thread::spawn(run).join().unwrap()
}

#[test]
fn the_profile_is_a_list_of_what_is_allowed() {
    let profile = profile();
    assert_eq!(profile.default_action, "SCMP_ACT_ERRNO");
    // ENOSYS: libraries then do without, as on an older kernel.
    assert_eq!(profile.default_errno_ret, 38);
    assert_eq!(
        profile.architectures,
        ["SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64"]
    );
    let mut names: Vec<&str> = Vec::new();
    for rule in &profile.syscalls {
        assert_eq!(rule.action, "SCMP_ACT_ALLOW");
        assert!(!rule.comment.is_empty());
        names.extend(rule.names.iter().map(String::as_str));
    }
    assert!(RING.iter().all(|name| names.contains(name)));
    // What no load needs, and what a container must not do.
    for name in [
        "clone3",
        "mount",
        "unshare",
        "setns",
        "ptrace",
        "bpf",
        "keyctl",
        "kexec_load",
    ] {
        assert!(!names.contains(&name), "{name}");
    }
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count, "one is named twice");
}

/// A short load with some flags more, whose results go to `out`.
fn load<'a>(out: &'a str, flags: &[&'a str]) -> Vec<&'a str> {
    let short = "bench --mock --isl 8 --osl 3 --request-count 12 --output-dir";
    let short = short.split(' ').chain([out]);
    short.chain(flags.iter().copied()).collect()
}

#[test]
fn the_program_runs_under_the_profile_on_io_uring_and_without_that_part_on_epoll() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out").display().to_string();
    let load = load(&out, &["--driver", "auto"]);
    let driver = || -> String {
        let report = fs::read(folder.path().join("out/report.json")).unwrap();
        let report: Value = serde_json::from_slice(&report).unwrap();
        assert_eq!(report["load"]["completed"], 12);
        report["harness"]["driver"].as_str().unwrap().to_owned()
    };
    let exit = program::run(&load);
    assert_eq!(exit.code, Some(0), "{}", exit.said);
    let usual = driver();
    let profile = profile();
    let exit = run_under(compile(&profile, &[]), &load);
    assert_eq!(exit.code, Some(0), "{}", exit.said);
    assert_eq!(driver(), usual, "{}", exit.said);
    if usual == "epoll" {
        println!("skipped: io_uring is not to be had here anyway");
        return;
    }
    let exit = run_under(compile(&profile, &RING), &load);
    assert_eq!(exit.code, Some(0), "{}", exit.said);
    assert_eq!(driver(), "epoll", "{}", exit.said);
    assert!(exit.said.contains("epoll is used instead"), "{}", exit.said);
}

#[test]
fn worker_processes_are_started_under_the_profile() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out").display().to_string();
    let load = load(&out, &["--workers", "2", "--shards", "2"]);
    let exit = run_under(compile(&profile(), &[]), &load);
    // Too many for the cores of a small machine, the numbers are another test's.
    assert!(matches!(exit.code, Some(0 | 3)), "{}", exit.said);
    let report = fs::read(folder.path().join("out/report.json")).unwrap();
    let report: Value = serde_json::from_slice(&report).unwrap();
    assert_eq!(report["load"]["completed"], 12, "{}", exit.said);
}
