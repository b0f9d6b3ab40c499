//! The crates depend on each other as the map in ARCHITECTURE.md shows, and
//! every crate is on the map.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

type Arrows = BTreeMap<String, BTreeSet<String>>;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Reads the lines `a -> b, c` of the block marked `arrows`.
fn drawn() -> Arrows {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let block = text
        .split("```arrows\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next())
        .expect("ARCHITECTURE.md has a block marked `arrows`");
    block
        .lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| {
            let (from, to) = line.split_once("->").expect("an arrow in every line");
            let to = to.split(',').map(str::trim).filter(|name| !name.is_empty());
            (from.trim().to_owned(), to.map(str::to_owned).collect())
        })
        .collect()
}

/// Reads the dependencies of the workspace's crates, without those of tests and
/// builds.
fn real() -> Arrows {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version",
            "1",
            "--no-deps",
            "--offline",
        ])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let ours: BTreeSet<&str> = packages
        .iter()
        .map(|p| p["name"].as_str().unwrap())
        .collect();
    packages
        .iter()
        .map(|package| {
            let depends = package["dependencies"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|dependency| dependency["kind"].is_null())
                .map(|dependency| dependency["name"].as_str().unwrap())
                .filter(|name| ours.contains(name))
                .map(str::to_owned)
                .collect();
            (package["name"].as_str().unwrap().to_owned(), depends)
        })
        .collect()
}

#[test]
fn dependencies_are_as_drawn() {
    assert_eq!(
        real(),
        drawn(),
        "left: cargo metadata, right: ARCHITECTURE.md"
    );
}

#[test]
fn every_folder_has_its_crates_name_and_is_on_the_map() {
    let map = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let crates = real();
    for entry in std::fs::read_dir(root().join("crates")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(crates.contains_key(&name), "{name} is no crate");
        assert!(
            map.contains(&format!("`{name}`")),
            "{name} is not on the map"
        );
    }
}

#[test]
fn the_core_reaches_nothing_of_the_world() {
    let output = Command::new(env!("CARGO"))
        .args([
            "tree",
            "-p",
            "contexture-core",
            "-e",
            "normal",
            "--prefix",
            "none",
            "--offline",
        ])
        .current_dir(root())
        .output()
        .unwrap();
    let tree = String::from_utf8(output.stdout).unwrap();
    assert!(tree.contains("contexture-core"));
    for world in ["tokio", "reqwest", "rusqlite", "cap-std", "rustix", "jiff"] {
        assert!(!tree.contains(world), "the core depends on {world}");
    }
}
