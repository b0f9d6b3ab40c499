//! The memory of the indexes of all tenants, with a limit in bytes.
//!
//! Indexes stay in memory between recalls while all together are within the
//! limit ([`set_limit`]). Above it, indexes that exceed their share are evicted
//! first, then the least recently used ones. An evicted index is loaded again by
//! the next recall, from its file or from the store.
//!
//! The share of an index is the limit divided by the number of indexes in
//! memory, by at most four. An index above its share uses only memory that
//! others leave free. Where there is none, the index is loaded for one recall at
//! a time: such recalls wait for each other, and evict no other index.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{
    Arc, Condvar, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak,
};
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::lock;
use crate::view::View;

/// The largest number that the limit is divided by: the number of indexes in
/// memory, or this one.
const MOST_PARTS: u64 = 4;

static ALL: Pool = Pool::new();

/// Sets how many bytes the memory indexes of the process may use together.
/// Without a call there is no limit.
pub fn set_limit(bytes: u64) {
    ALL.limit.store(bytes, Ordering::Relaxed);
    ALL.trim(None);
}

/// Returns the size of the memory indexes of the process.
pub fn stats() -> IndexStats {
    ALL.stats()
}

/// The size of the memory indexes of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IndexStats {
    /// The number of indexes in memory.
    pub indexes: u64,
    /// About the size of all indexes in memory, in bytes.
    pub bytes: u64,
    /// The bound on `bytes`, except for one index that is loaded for one recall.
    pub limit: u64,
    /// The size from which an index is evicted before smaller ones, in bytes.
    pub share: u64,
    /// The size of the largest index in memory, in bytes.
    pub largest: u64,
    /// The number of evicted indexes.
    pub evictions: u64,
    /// The number of times that an index was loaded for one recall.
    pub passing: u64,
}

/// Indexes that share a limit.
struct Pool {
    limit: AtomicU64,
    uses: AtomicU64,
    evictions: AtomicU64,
    passing: AtomicU64,
    // True if the indexes exceeded the limit when they were last counted.
    is_over: AtomicBool,
    cells: Mutex<Vec<Weak<ViewCell>>>,
    // True while an index is in memory beyond the limit, for one recall.
    is_occupied: Mutex<bool>,
    vacated: Condvar,
}

impl Pool {
    const fn new() -> Self {
        Self {
            limit: AtomicU64::new(u64::MAX),
            uses: AtomicU64::new(0),
            evictions: AtomicU64::new(0),
            passing: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            cells: Mutex::new(Vec::new()),
            is_occupied: Mutex::new(false),
            vacated: Condvar::new(),
        }
    }

    fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    fn cells(&self) -> Vec<Arc<ViewCell>> {
        let mut cells = lock(&self.cells);
        cells.retain(|cell| cell.strong_count() > 0);
        cells.iter().filter_map(Weak::upgrade).collect()
    }

    fn share(&self, cells: &[Arc<ViewCell>]) -> u64 {
        let loaded = cells.iter().filter(|cell| cell.counted() > 0).count() as u64;
        self.limit() / loaded.clamp(1, MOST_PARTS)
    }

    /// Evicts indexes until the rest is within the limit. Returns false when
    /// `growing` is above its share and there is no room for it.
    fn trim(&self, growing: Option<&ViewCell>) -> bool {
        let limit = self.limit();
        if limit == u64::MAX {
            return true;
        }
        let mut cells = self.cells();
        cells.sort_unstable_by_key(|cell| cell.last_used.load(Ordering::Relaxed));
        let share = self.share(&cells);
        let is_large = |cell: &ViewCell| cell.bytes() > share;
        let growing_is_large = growing.is_some_and(is_large);
        let mut total: u64 = cells.iter().map(|cell| cell.counted()).sum();
        // An index above its share makes no smaller one leave.
        let least = match growing {
            Some(growing) if growing_is_large => growing.bytes(),
            _ => share,
        };
        let large = || cells.iter().filter(|cell| cell.bytes() > least);
        let gain: u64 = large().map(|cell| cell.counted()).sum();
        if growing_is_large && total.saturating_sub(gain) > limit {
            return false;
        }
        for cell in large() {
            if total <= limit {
                break;
            }
            let bytes = cell.counted();
            // An index in use is evicted after its last use. No other index makes
            // room for it meanwhile.
            if !self.evict(cell) {
                cell.is_passing.store(true, Ordering::Relaxed);
            }
            total = total.saturating_sub(bytes);
        }
        if !growing_is_large {
            for cell in cells.iter().filter(|cell| !is_large(cell)) {
                if total <= limit {
                    break;
                }
                let bytes = cell.counted();
                if bytes > 0 && self.evict(cell) {
                    total = total.saturating_sub(bytes);
                }
            }
        }
        self.is_over.store(total > limit, Ordering::Relaxed);
        true
    }

    /// Drops an index that is not in use. Returns false when it is.
    fn evict(&self, cell: &ViewCell) -> bool {
        if cell.users.load(Ordering::SeqCst) > 0 {
            return false;
        }
        let Ok(mut view) = cell.view.try_write() else {
            return false;
        };
        if view.take().is_some() {
            self.evictions.fetch_add(1, Ordering::Relaxed);
        }
        cell.bytes.store(0, Ordering::Relaxed);
        true
    }

    /// Waits until no index is in memory beyond the limit.
    fn wait(&'static self, deadline: Option<Instant>) -> Result<PassingPlace, Error> {
        let mut occupied = lock(&self.is_occupied);
        while *occupied {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Err(Error::late(
                    "another recall loads an index beyond server.index_bytes, and did not end \
                     within memory.deadline_ms",
                ));
            }
            occupied = match left {
                None => (self.vacated.wait(occupied)).unwrap_or_else(PoisonError::into_inner),
                Some(left) => {
                    let waited = self.vacated.wait_timeout(occupied, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        *occupied = true;
        self.passing.fetch_add(1, Ordering::Relaxed);
        Ok(PassingPlace(self))
    }

    fn try_take(&'static self) -> Option<PassingPlace> {
        let mut occupied = lock(&self.is_occupied);
        (!std::mem::replace(&mut *occupied, true)).then(|| {
            self.passing.fetch_add(1, Ordering::Relaxed);
            PassingPlace(self)
        })
    }

    fn stats(&self) -> IndexStats {
        let cells = self.cells();
        let sizes = || cells.iter().map(|cell| cell.bytes());
        IndexStats {
            indexes: sizes().filter(|bytes| *bytes > 0).count() as u64,
            bytes: sizes().sum(),
            limit: self.limit(),
            share: self.share(&cells),
            largest: sizes().max().unwrap_or(0),
            evictions: self.evictions.load(Ordering::Relaxed),
            passing: self.passing.load(Ordering::Relaxed),
        }
    }
}

/// The permission to have one index in memory beyond the limit.
struct PassingPlace(&'static Pool);

impl Drop for PassingPlace {
    fn drop(&mut self) {
        *lock(&self.0.is_occupied) = false;
        self.0.vacated.notify_one();
    }
}

/// The [`ViewCell`] of a cache.
pub(crate) struct CachedView(Arc<ViewCell>);

impl Default for CachedView {
    fn default() -> Self {
        Self(ViewCell::among(&ALL))
    }
}

impl Deref for CachedView {
    type Target = ViewCell;

    fn deref(&self) -> &ViewCell {
        &self.0
    }
}

/// The view of one memory, which can be evicted between its uses.
pub(crate) struct ViewCell {
    pool: &'static Pool,
    view: RwLock<Option<View>>,
    bytes: AtomicU64,
    last_used: AtomicU64,
    users: AtomicUsize,
    // True if the view is loaded for one use at a time.
    is_passing: AtomicBool,
    // True while a use has the place beyond the limit.
    is_beyond: AtomicBool,
}

impl ViewCell {
    fn among(pool: &'static Pool) -> Arc<Self> {
        let cell = Arc::new(Self {
            pool,
            view: RwLock::new(None),
            bytes: AtomicU64::new(0),
            last_used: AtomicU64::new(0),
            users: AtomicUsize::new(0),
            is_passing: AtomicBool::new(false),
            is_beyond: AtomicBool::new(false),
        });
        lock(&pool.cells).push(Arc::downgrade(&cell));
        cell
    }

    fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns the bytes that count towards the limit.
    fn counted(&self) -> u64 {
        match self.is_beyond.load(Ordering::Relaxed) {
            true => 0,
            false => self.bytes(),
        }
    }

    /// Returns true when an index of this many bytes fits next to the others.
    pub(crate) fn has_room_for(&self, bytes: u64) -> bool {
        let cells = self.pool.cells();
        let total: u64 = cells.iter().map(|cell| cell.counted()).sum();
        total.saturating_add(bytes) <= self.pool.limit()
    }

    /// Begins a use: the view is not evicted before its end. Waits while another
    /// recall uses the place for an index that does not fit, if this one does
    /// not.
    pub(crate) fn begin_use(&self, deadline: Option<Instant>) -> Result<ViewUse<'_>, Error> {
        let place = match self.is_passing.load(Ordering::Relaxed) {
            true => Some(self.pool.wait(deadline)?),
            false => None,
        };
        self.users.fetch_add(1, Ordering::SeqCst);
        self.is_beyond.fetch_or(place.is_some(), Ordering::Relaxed);
        let now = self.pool.uses.fetch_add(1, Ordering::Relaxed);
        self.last_used.store(now, Ordering::Relaxed);
        Ok(ViewUse { cell: self, place })
    }

    /// Locks the view for reading.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Option<View>> {
        self.view.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the view for changes. The end of the lock counts its bytes.
    pub(crate) fn write(&self) -> ViewMut<'_> {
        ViewMut {
            view: self.view.write().unwrap_or_else(PoisonError::into_inner),
            cell: self,
        }
    }
}

/// A view that is locked for changes.
pub(crate) struct ViewMut<'e> {
    view: RwLockWriteGuard<'e, Option<View>>,
    cell: &'e ViewCell,
}

impl Deref for ViewMut<'_> {
    type Target = Option<View>;

    fn deref(&self) -> &Option<View> {
        &self.view
    }
}

impl DerefMut for ViewMut<'_> {
    fn deref_mut(&mut self) -> &mut Option<View> {
        &mut self.view
    }
}

impl Drop for ViewMut<'_> {
    fn drop(&mut self) {
        let bytes = self.view.as_ref().map_or(0, View::memory_bytes);
        self.cell.bytes.store(bytes, Ordering::Relaxed);
    }
}

/// A use of a view, which is not evicted meanwhile.
pub(crate) struct ViewUse<'e> {
    cell: &'e ViewCell,
    place: Option<PassingPlace>,
}

impl ViewUse<'_> {
    /// Notes the size of the view, and evicts others if needed. Returns false
    /// when the view has no room: it must be dropped, and the use must
    /// [wait](Self::wait).
    pub(crate) fn grow(&mut self, bytes: u64) -> bool {
        self.cell.bytes.store(bytes, Ordering::Relaxed);
        if self.place.is_some() || self.cell.pool.trim(Some(self.cell)) {
            return true;
        }
        self.cell.is_passing.store(true, Ordering::Relaxed);
        self.place = self.cell.pool.try_take();
        let has_place = self.place.is_some();
        self.cell.is_beyond.fetch_or(has_place, Ordering::Relaxed);
        has_place
    }

    /// Waits for the place of an index that does not fit.
    pub(crate) fn wait(&mut self, deadline: Option<Instant>) -> Result<(), Error> {
        if self.place.is_none() {
            self.place = Some(self.cell.pool.wait(deadline)?);
            self.cell.is_beyond.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Returns true when the view is dropped after this use unless there is room
    /// by then.
    pub(crate) fn is_passing(&self) -> bool {
        self.place.is_some()
    }
}

impl Drop for ViewUse<'_> {
    fn drop(&mut self) {
        let (cell, pool) = (self.cell, self.cell.pool);
        if self.place.is_some() {
            cell.is_beyond.store(false, Ordering::Relaxed);
        }
        let is_last = cell.users.fetch_sub(1, Ordering::SeqCst) == 1;
        if cell.is_passing.load(Ordering::Relaxed) && is_last {
            // The view stays if there is room by now.
            cell.is_passing.store(false, Ordering::Relaxed);
            if !pool.trim(Some(cell)) {
                cell.is_passing.store(true, Ordering::Relaxed);
                pool.evict(cell);
                pool.trim(None);
            }
        } else if pool.is_over.load(Ordering::Relaxed) {
            pool.trim(None);
        }
        // The place is free after the view was dropped.
        self.place = None;
    }
}

/// A view that is locked for reading, and is not evicted meanwhile.
pub(crate) struct ViewGuard<'e> {
    // Unlocked before the end of the use, which may evict the view.
    view: RwLockReadGuard<'e, Option<View>>,
    _in_use: ViewUse<'e>,
}

impl<'e> ViewGuard<'e> {
    pub(crate) fn new(view: RwLockReadGuard<'e, Option<View>>, in_use: ViewUse<'e>) -> Self {
        Self {
            view,
            _in_use: in_use,
        }
    }
}

impl Deref for ViewGuard<'_> {
    type Target = Option<View>;

    fn deref(&self) -> &Option<View> {
        &self.view
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(limit: u64) -> &'static Pool {
        let pool = Box::leak(Box::new(Pool::new()));
        pool.limit.store(limit, Ordering::Relaxed);
        pool
    }

    /// Loads a view of a size, unless it is loaded, and ends the use.
    fn load(cell: &ViewCell, bytes: u64) {
        drop(begin(cell, bytes));
    }

    fn begin(cell: &ViewCell, bytes: u64) -> ViewUse<'_> {
        let mut begun = cell.begin_use(None).unwrap();
        let _ = cell.view.write().unwrap().insert(View::default());
        if !begun.grow(bytes) {
            begun.wait(None).unwrap();
            assert!(begun.grow(bytes));
        }
        begun
    }

    fn loaded(cells: &[Arc<ViewCell>]) -> Vec<usize> {
        let cells = cells.iter().enumerate();
        let loaded = cells.filter(|(_, cell)| cell.read().is_some());
        loaded.map(|(at, _)| at).collect()
    }

    fn cells(pool: &'static Pool, count: usize) -> Vec<Arc<ViewCell>> {
        (0..count).map(|_| ViewCell::among(pool)).collect()
    }

    #[test]
    fn one_index_can_use_the_whole_limit() {
        let cells = cells(pool(100), 1);
        load(&cells[0], 100);
        assert_eq!(loaded(&cells), [0]);
        load(&cells[0], 101);
        assert!(loaded(&cells).is_empty());
    }

    #[test]
    fn an_index_above_its_share_is_evicted_first() {
        let cells = cells(pool(100), 3);
        load(&cells[1], 10);
        load(&cells[0], 80);
        // The first is used more recently than the second.
        load(&cells[2], 20);
        assert_eq!(loaded(&cells), [1, 2]);
    }

    #[test]
    fn an_index_above_its_share_evicts_only_a_larger_one() {
        let cells = cells(pool(100), 4);
        load(&cells[0], 45);
        load(&cells[1], 45);
        // A third of the limit is 33.
        load(&cells[2], 46);
        assert_eq!(loaded(&cells), [0, 1]);
        load(&cells[1], 10);
        load(&cells[2], 46);
        load(&cells[0], 45);
        assert_eq!(loaded(&cells), [0, 1]);
        load(&cells[3], 35);
        assert_eq!(loaded(&cells), [0, 1, 3]);
    }

    #[test]
    fn an_index_in_use_is_evicted_after_its_use() {
        let cells = cells(pool(100), 3);
        let large = begin(&cells[0], 90);
        load(&cells[1], 10);
        load(&cells[2], 20);
        assert_eq!(loaded(&cells), [0, 1, 2]);
        drop(large);
        assert_eq!(loaded(&cells), [1, 2]);
    }

    #[test]
    fn an_index_that_does_not_fit_waits_for_another_one() {
        let cells = cells(pool(100), 4);
        load(&cells[0], 30);
        load(&cells[1], 30);
        let first = begin(&cells[2], 90);
        assert!(first.is_passing());
        // This one has no place, and its view must be dropped.
        let mut second = cells[3].begin_use(None).unwrap();
        assert!(!second.grow(90));
        let late = second.wait(Some(Instant::now()));
        assert!(late.unwrap_err().to_string().contains("server.index_bytes"));
        cells[3].bytes.store(0, Ordering::Relaxed);
        drop(first);
        assert!(second.wait(None).is_ok());
        assert!(second.grow(90));
        assert_eq!(loaded(&cells), [0, 1]);
    }

    #[test]
    fn indexes_within_their_share_are_evicted_by_their_last_use() {
        let cells = cells(pool(100), 6);
        for cell in &cells[..5] {
            load(cell, 20);
        }
        load(&cells[0], 20);
        load(&cells[5], 20);
        assert_eq!(loaded(&cells), [0, 2, 3, 4, 5]);
    }
}
