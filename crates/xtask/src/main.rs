//! Developer commands: `cargo xtask COMMAND`.
//!
//! What this is: the commands of CONTRIBUTING.md under one roof, so that a person and CI run the
//! same ones. What this is not: a build system; every command is a short list of cargo calls.
#![forbid(unsafe_code)]
#![expect(
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a command-line tool"
)]

mod perf_gate;

use std::env;
use std::process::{Command, ExitCode};

const HELP: &str = "\
usage: cargo xtask COMMAND

  check            format, lints and documents, as CI checks them
  test [FILTER]    all tests, or those whose name has FILTER
  mutate [SECS]    feed mutated input to every decoder for SECS seconds each (600)
  ceilings PRESET  measure ridgeline against the bare ceilings (perf/METHOD.md); client presets:
                   request coalesced paced offline wrk self lag memory; server presets:
                   serve-request serve-coalesced serve-paced serve-self lateness nginx
                   endpoints-server
  perf-gate        does a change make anything slower? --help says more
  ci               everything CI runs";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let (command, rest) = match arguments.split_first() {
        Some((command, rest)) => (command.as_str(), rest),
        None => ("", &[][..]),
    };
    let done = match command {
        "check" => check(),
        "test" => test(rest),
        "mutate" => mutate(rest),
        "ceilings" => ceilings(rest),
        "perf-gate" => return perf_gate::run(rest),
        "ci" => run(Command::new("bash").arg(".ci/run")),
        _ => {
            eprintln!("{HELP}");
            return ExitCode::from(2);
        }
    };
    if done {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn check() -> bool {
    run(&mut cargo(&["fmt", "--all", "--check"]))
        && run(&mut cargo(&[
            "clippy",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ]))
        && run(cargo(&["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"))
}

fn test(rest: &[String]) -> bool {
    run(cargo(&["test", "--workspace"]).args(rest))
}

/// The mutation tests are part of every test run, for a second or so; this lets them go on.
fn mutate(rest: &[String]) -> bool {
    let secs = rest.first().map_or("600", String::as_str);
    run(cargo(&[
        "test",
        "--release",
        "-p",
        "ridgeline-wire",
        "--",
        "mutat",
        "--nocapture",
    ])
    .env("RIDGELINE_MUTATE_SECS", secs))
}

fn ceilings(rest: &[String]) -> bool {
    run(&mut cargo(&["build", "--release", "--bins"]))
        && run(&mut cargo(&[
            "build",
            "--release",
            "-p",
            "ridgeline-perf",
            "--bins",
        ]))
        && run(cargo(&[
            "run",
            "--release",
            "-q",
            "-p",
            "ridgeline-perf",
            "--bin",
            "versus",
            "--",
        ])
        .args(rest))
}

fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments);
    command
}

/// Runs a command in the workspace's root and says which one failed.
fn run(command: &mut Command) -> bool {
    match command.status() {
        Ok(status) if status.success() => true,
        Ok(status) => {
            eprintln!("xtask: {command:?} ended with {status}");
            false
        }
        Err(error) => {
            eprintln!("xtask: cannot start {command:?}: {error}");
            false
        }
    }
}
