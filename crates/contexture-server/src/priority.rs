//! Work in the background, in threads of a lower priority than those of requests.

use std::io;
use std::thread::{Builder, JoinHandle};

/// The priority of background work: about a tenth of the time that a request gets
/// on a busy core, and all of an idle one.
#[cfg(target_os = "linux")]
const NICE: i32 = 10;

/// Starts a thread that leaves busy cores to requests.
pub(crate) fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    Builder::new().name(name.to_owned()).spawn(move || {
        lower();
        work()
    })
}

/// Lowers the priority of the calling thread, for good. Elsewhere than on Linux, the
/// call would change the priority of the whole process.
fn lower() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::setpriority_process(None, NICE);
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn only_the_thread_has_the_lower_priority() {
        let priority = || rustix::process::getpriority_process(None).unwrap();
        let before = priority();
        let lowered = spawn("test", priority).unwrap().join().unwrap();
        assert_eq!(lowered, before.max(NICE));
        assert_eq!(priority(), before);
    }
}
