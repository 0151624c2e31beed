//! The scripts beside the peers and the verdicts: what they read and draw, without any peer or run.

use std::process::Command;

#[test]
fn the_scripts_read_what_peers_print() {
    tested(concat!(env!("CARGO_MANIFEST_DIR"), "/peers"), "test_peers");
}

#[test]
fn lateness_is_recounted_from_files() {
    tested(
        concat!(env!("CARGO_MANIFEST_DIR"), "/verdicts"),
        "test_recount",
    );
}

#[expect(clippy::print_stdout, clippy::unwrap_used, reason = "a test")]
fn tested(folder: &str, tests: &str) {
    let new_enough = "import sys; sys.exit(sys.version_info < (3, 9))";
    let python = Command::new("python3").args(["-c", new_enough]).status();
    if !python.is_ok_and(|status| status.success()) {
        println!("no Python 3.9: skipped");
        return;
    }
    let output = Command::new("python3")
        .args(["-B", "-m", "unittest", tests])
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
