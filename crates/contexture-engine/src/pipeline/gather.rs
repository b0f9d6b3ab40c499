//! Calls the sources for their items.
//!
//! Sources that wait for a disk, a command or a network run concurrently, each
//! in a thread. The offers are returned in the order of the layers, whichever
//! source was first. A panic in a source becomes an error of this request.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

use contexture_core::Layer;

use super::Call;
use crate::advice::Advice;
use crate::error::{Cause, Error};
use crate::source::Offer;

impl Call<'_> {
    /// Calls every source for its layer. Sources that wait are called
    /// concurrently.
    pub(super) fn gather_all(&self) -> Result<Vec<Offer>, Error> {
        let waiting = |at: &usize| !self.sources[*at].1.is_immediate();
        let slow: Vec<usize> = (0..self.sources.len()).filter(waiting).collect();
        let mut offers: Vec<Option<Result<Offer, Error>>> = Vec::new();
        offers.resize_with(self.sources.len(), || None);
        let call = contexture_store::Call::current();
        let gather = |at| contexture_store::Call::run_in(call.as_ref(), || self.gather(at));
        std::thread::scope(|scope| {
            let threads: Vec<_> = (slow.iter())
                .map(|&at| (at, scope.spawn(move || gather(at))))
                .collect();
            for at in (0..self.sources.len()).filter(|at| !slow.contains(at)) {
                offers[at] = Some(self.gather(at));
            }
            for (at, thread) in threads {
                // A panic was caught inside the thread.
                offers[at] = thread.join().ok();
            }
        });
        offers
            .into_iter()
            .enumerate()
            .map(|(at, offer)| {
                offer.unwrap_or_else(|| Err(panicked(self.sources[at].1.name(), "")))
            })
            .collect()
    }

    fn gather(&self, at: usize) -> Result<Offer, Error> {
        let ask = self.ask(at);
        let source = self.sources[at].1;
        let offer = guarded(source.name(), || source.gather(&ask))?;
        self.checked(at, offer)
    }

    /// Fails if an offer has an id twice, or more items than are allowed.
    pub(super) fn checked(&self, at: usize, offer: Offer) -> Result<Offer, Error> {
        let (layer, source, _) = &self.sources[at];
        fn ids<'o>(layers: &'o [Layer], all: &mut Vec<&'o str>) {
            for layer in layers {
                all.extend(layer.items.iter().map(|item| &*item.id));
                ids(&layer.layers, all);
            }
        }
        let mut all: Vec<&str> = offer.items.iter().map(|item| &*item.id).collect();
        ids(&offer.layers, &mut all);
        let most = self.engine.config().limits.max_items;
        if all.len() as u64 > most {
            return Err(Error::input(format!(
                "the source `{}` offers {} items for the layer `{}`, more than {most}",
                source.name(),
                all.len(),
                layer.name
            ))
            .advise(Advice::configure("limits.max_items")));
        }
        // The set is only used for lookups, never iterated, so its order does
        // not matter.
        #[allow(clippy::disallowed_types)]
        let mut seen = std::collections::HashSet::with_capacity(all.len());
        if let Some(twice) = all.iter().find(|id| !seen.insert(**id)) {
            return Err(Error::input(format!(
                "the source `{}` offers the id `{twice}` twice for the layer `{}`",
                source.name(),
                layer.name
            ))
            .because(Cause::Failure));
        }
        Ok(offer)
    }
}

/// Calls a source. A panic in it becomes an error of this request only.
pub(super) fn guarded<T>(name: &str, call: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        let message = (panic.downcast_ref::<&str>().copied())
            .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        Err(panicked(name, message.unwrap_or_default()))
    })
}

fn panicked(name: &str, message: &str) -> Error {
    let colon = if message.is_empty() { "" } else { ": " };
    Error::damage(format!("the source `{name}` panicked{colon}{message}"))
}

/// Does `work` for each of `wanted`, in as many threads as are worthwhile.
pub(super) fn in_parallel<T: Send>(wanted: &[usize], work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    // Finding the number of cores reads files, too.
    let threads = match wanted.len() / 4 {
        0 | 1 => 1,
        most => std::thread::available_parallelism().map_or(1, |cores| most.min(cores.get())),
    };
    if threads == 1 {
        return wanted.iter().map(|&i| work(i)).collect();
    }
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let take = || wanted.get(next.fetch_add(1, Ordering::Relaxed)).copied();
                    std::iter::from_fn(take).map(&work).collect::<Vec<_>>()
                })
            })
            .collect();
        workers
            .into_iter()
            .flat_map(|worker| match worker.join() {
                Ok(done) => done,
                Err(panic) => std::panic::resume_unwind(panic),
            })
            .collect()
    })
}
