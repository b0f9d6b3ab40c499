//! Progress on the terminal for work that takes longer than a second.
//!
//! [`Meter`] draws from a thread of its own, so that the work need not report
//! at regular intervals. Without a terminal it draws nothing.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Work that takes less time shows no progress.
const PATIENCE: Duration = Duration::from_secs(1);

/// Runs `work`, and shows a spinner on a terminal if it takes more than a
/// second.
pub(crate) fn with_spinner<T>(what: &'static str, work: impl FnOnce() -> T) -> T {
    let _meter = Meter::spinner(what);
    work()
}

/// Shows progress on a terminal, if the work takes more than a second.
pub(crate) struct Meter {
    bar: ProgressBar,
    drawn: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Meter {
    /// Returns a meter up to `total`. `None` if the total is unknown.
    pub(crate) fn new(what: &'static str, total: Option<u64>) -> Self {
        let style = match total {
            Some(_) => "{spinner} {msg} [{bar:40}] {percent} %, {elapsed}",
            None => "{spinner} {msg} {human_pos}",
        };
        Self::with_style(what, total, style)
    }

    /// Returns a meter that only shows a spinner.
    pub(crate) fn spinner(what: &'static str) -> Self {
        Self::with_style(what, None, "{spinner} {msg}")
    }

    fn with_style(what: &'static str, total: Option<u64>, style: &str) -> Self {
        let hidden = ProgressDrawTarget::hidden();
        let bar = ProgressBar::with_draw_target(total, hidden).with_message(what);
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style);
        }
        let (done, waiting) = mpsc::channel();
        let shown = bar.clone();
        let drawn = thread::spawn(move || {
            let timeout = Err(RecvTimeoutError::Timeout);
            if waiting.recv_timeout(PATIENCE) != timeout {
                return;
            }
            // Draws on standard error, and only when that is a terminal.
            shown.set_draw_target(ProgressDrawTarget::stderr());
            while waiting.recv_timeout(Duration::from_millis(100)) == timeout {
                shown.tick();
            }
        });
        let drawn = Some((done, drawn));
        Self { bar, drawn }
    }

    /// Shows how far it is.
    pub(crate) fn at(&self, position: u64) {
        self.bar.set_position(position);
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        if let Some((done, drawn)) = self.drawn.take() {
            drop(done);
            let _ = drawn.join();
        }
        self.bar.finish_and_clear();
    }
}
