//! Models whose orderings are weakened, which must fail.

use std::process::Command;

/// Runs an ignored test of this file in a process of its own, since loom aborts on a deadlock, and
/// returns what it printed on its way down.
pub fn failure_of(name: &str) -> String {
    let itself = std::env::current_exe().unwrap();
    let run = Command::new(itself).args(["--ignored", "--exact", name]).output().unwrap();
    assert!(!run.status.success(), "the weakened model held");
    String::from_utf8_lossy(&[run.stdout, run.stderr].concat()).into_owned()
}
