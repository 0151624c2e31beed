//! The scripts beside the peers: what they read and draw, without any peer.

use std::process::Command;

#[test]
fn the_scripts_read_what_peers_print() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/peers");
    let new_enough = "import sys; sys.exit(sys.version_info < (3, 9))";
    let python = Command::new("python3").args(["-c", new_enough]).status();
    if !python.is_ok_and(|status| status.success()) {
        println!("no Python 3.9: skipped");
        return;
    }
    let output = Command::new("python3")
        .args(["-B", "-m", "unittest", "test_peers"])
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
