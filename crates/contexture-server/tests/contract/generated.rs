//! Thousands of calls that schemathesis makes up from the document: whatever it
//! describes is taken, whatever it does not is refused, every answer is as it
//! says, and nothing fails.

use std::process::Command;

use crate::examples;
use crate::python::{beside, python};

/// Fewer would say little.
const FEWEST_CASES: u64 = 2000;

#[test]
fn the_server_keeps_to_the_document() {
    let lab = examples::lab().with(|server| {
        // One key sends all of it.
        server.rate_per_second = 0;
    });
    let key = lab.key("harbour");
    let server = lab.serve();
    let run = Command::new(python())
        .args(["-m", "schemathesis.cli", "--config-file"])
        .arg(beside("schemathesis.toml"))
        .args(["run", "--no-color", "--header"])
        .arg(format!("Authorization: Bearer {key}"))
        .arg(format!("http://{}/openapi.json", server.address))
        .current_dir(lab.path(""))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    println!("{said}");
    if std::env::var_os("HOLD").is_some() {
        std::thread::sleep(std::time::Duration::from_secs(3600));
    }
    assert!(
        run.status.success(),
        "{}",
        String::from_utf8_lossy(&run.stderr)
    );
}
