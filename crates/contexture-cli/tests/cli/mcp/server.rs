//! A server that runs as long as a test needs it.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use crate::support::Project;

pub(crate) struct Server {
    child: Child,
    address: String,
}

impl Server {
    /// Serves a project on a port that is free.
    pub(crate) fn start(project: &Project) -> Self {
        let mut child = project
            .command(&["serve", "--addr", "127.0.0.1:0"])
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = lines.by_ref().map_while(Result::ok).find_map(|line| {
            let (_, behind) = line.split_once("serving on ")?;
            Some(behind.split(' ').next()?.to_owned())
        });
        // Further output must be read, so that the process does not block.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        Self {
            child,
            address: address.expect("the server says where it is"),
        }
    }

    /// Returns how a client calls it.
    pub(crate) fn with_key(&self, key: &str) -> Value {
        let headers = json!({"Authorization": format!("Bearer {key}")});
        json!({"url": format!("{}/mcp?tools=all", self.address), "headers": headers})
    }

    /// Returns how many bytes of memory and how many files it has.
    pub(crate) fn holds(&self) -> (u64, usize) {
        let dir = format!("/proc/{}", self.child.id());
        let status = std::fs::read_to_string(format!("{dir}/status")).unwrap();
        let resident = status.lines().find(|line| line.starts_with("VmRSS:"));
        let kilobytes = resident.unwrap().split_whitespace().nth(1).unwrap();
        let files = std::fs::read_dir(format!("{dir}/fd")).unwrap().count();
        (kilobytes.parse::<u64>().unwrap() * 1024, files)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
