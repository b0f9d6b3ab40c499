//! Thousands of calls that schemathesis generates from the document: valid
//! calls are accepted, invalid ones are rejected, every response matches its
//! schema, and none is a server error.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use crate::examples;
use crate::python::{beside, python};

/// Fewer cases would prove little.
const FEWEST_CASES: u64 = 2000;

#[test]
fn the_server_keeps_to_the_document() {
    let lab = examples::lab().with(|server| {
        // One key sends all of it.
        server.rate_per_second = 0;
    });
    let key = lab.key("harbour");
    let server = lab.serve();
    // The output can be read during the run, and afterwards.
    let told = Path::new(env!("CARGO_TARGET_TMPDIR")).join("schemathesis.txt");
    let out = File::create(&told).unwrap();
    let run = Command::new(python())
        .args(["-m", "schemathesis.cli", "--config-file"])
        .arg(beside("schemathesis.toml"))
        .args(["run", "--no-color", "--header"])
        .arg(format!("Authorization: Bearer {key}"))
        .arg(format!("http://{}/openapi.json", server.address))
        .current_dir(lab.path(""))
        .stderr(out.try_clone().unwrap())
        .stdout(out)
        .status()
        .unwrap();
    let told = fs::read_to_string(&told).unwrap();
    assert!(run.success(), "{told}");
    // Such as `4,321 generated, 4,321 passed`.
    let cases = told.lines().find_map(|line| line.split_once(" generated"));
    let digits = cases.map(|(number, _)| number.trim().replace(',', ""));
    let cases: u64 = digits.and_then(|digits| digits.parse().ok()).unwrap_or(0);
    println!("{cases} cases");
    assert!(
        cases >= FEWEST_CASES,
        "only {cases} cases were made up:\n{told}"
    );
}
