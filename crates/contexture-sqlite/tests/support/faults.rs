//! Writes that end at a chosen byte: see `tests/faults.rs`.

use std::fs;
use std::path::Path;
use std::process::Command;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::child;

/// Copies all files of a store.
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for file in fs::read_dir(from).unwrap() {
        let file = file.unwrap().path();
        if file.is_dir() {
            copy(&file, &to.join(file.file_name().unwrap()));
        } else {
            fs::copy(&file, to.join(file.file_name().unwrap())).unwrap();
        }
    }
}

/// Limits the size of every file of this process to the value from the parent.
pub fn limit_files() {
    let limit: u64 = std::env::var("CONTEXTURE_TEST_LIMIT")
        .unwrap()
        .parse()
        .unwrap();
    let now = getrlimit(Resource::Fsize);
    let limits = Rlimit {
        current: Some(limit),
        ..now
    };
    setrlimit(Resource::Fsize, limits).unwrap();
}

/// Returns a command that runs a test as a child with a limit. With `ignore`,
/// the child ignores the signal of the system.
pub fn limited(name: &str, path: &Path, limit: u64, ignore: bool) -> Command {
    let inner = child(name, path);
    let mut command = Command::new("sh");
    let trap = if ignore { "trap '' XFSZ; " } else { "" };
    command
        .arg("-c")
        .arg(format!("{trap}exec \"$@\""))
        .arg("sh");
    command.arg(inner.get_program()).args(inner.get_args());
    for (name, value) in inner.get_envs() {
        command.env(name, value.unwrap());
    }
    command.env("CONTEXTURE_TEST_LIMIT", limit.to_string());
    command
}
