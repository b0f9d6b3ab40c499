use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Runs `work`, showing on a terminal that it goes on when it takes more than
/// a second.
pub(crate) fn with_spinner<T>(what: &'static str, work: impl FnOnce() -> T) -> T {
    let (done, waiting) = std::sync::mpsc::channel::<()>();
    let spinner = std::thread::spawn(move || {
        let timeout = std::sync::mpsc::RecvTimeoutError::Timeout;
        if waiting.recv_timeout(Duration::from_secs(1)) != Err(timeout) {
            return;
        }
        // Draws on standard error, and only when that is a terminal.
        let bar = ProgressBar::new_spinner().with_message(what);
        bar.set_style(ProgressStyle::default_spinner());
        while waiting.recv_timeout(Duration::from_millis(100)) == Err(timeout) {
            bar.tick();
        }
        bar.finish_and_clear();
    });
    let result = work();
    drop(done);
    let _ = spinner.join();
    result
}
