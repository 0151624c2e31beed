//! Tells the program which commit it was built from, where git knows.

use std::process::Command;

fn main() {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        let text = text.trim().to_owned();
        (output.status.success() && !text.is_empty()).then_some(text)
    };
    // Every commit and every change of branch is a line of this file.
    println!("cargo::rerun-if-changed=crates/cli/build.rs");
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
    if let Some(revision) = git(&["rev-parse", "--short=12", "HEAD"]) {
        println!("cargo::rustc-env=RIDGELINE_REVISION={revision}");
    }
}
