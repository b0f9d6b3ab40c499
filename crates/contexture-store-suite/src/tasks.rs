//! Tests of the documentation of [`Tasks`](contexture_store::Tasks), one
//! function for each promise.

use super::at;
use contexture_store::{
    Analysis, Derived, Forget, NewRecord, NewTask, Record, RecordKind, Remembered, Store,
    StoreError, TaskRecord, TaskStatus, TaskView,
};

fn new(goal: &str) -> NewTask {
    NewTask {
        goal: goal.to_owned(),
        ..NewTask::default()
    }
}

fn named(id: &str, parent: Option<&str>) -> NewTask {
    NewTask {
        id: Some(id.to_owned()),
        goal: format!("reach {id}"),
        parent_id: parent.map(str::to_owned),
    }
}

/// Pushes tasks, each a subtask of the one before.
fn push(store: &dyn Store, stack: &str, ids: &[&str]) {
    for id in ids {
        store.push_task(stack, &named(id, None), at(0)).unwrap();
    }
}

fn pop(store: &dyn Store, stack: &str, result: &str) -> TaskRecord {
    let status = TaskStatus::Complete;
    store
        .finish_task(stack, None, status, Some(result), at(9))
        .unwrap()
}

fn ids(tasks: &[TaskRecord]) -> Vec<&str> {
    tasks.iter().map(|task| &*task.id).collect()
}

fn path(store: &dyn Store, stack: &str) -> String {
    ids(&store.task_view(stack).unwrap().path).join("/")
}

fn finish(store: &dyn Store, id: &str, status: TaskStatus) -> Result<TaskRecord, StoreError> {
    store.finish_task("main", Some(id), status, None, at(9))
}

fn said<T: std::fmt::Debug>(result: Result<T, StoreError>) -> String {
    let error = result.unwrap_err();
    assert!(error.is_input(), "{error}");
    error.to_string()
}

pub fn tasks_are_pushed_and_popped(store: &dyn Store) {
    assert_eq!(store.task_view("main").unwrap(), TaskView::default());
    assert_eq!(store.tasks("main").unwrap(), []);
    assert_eq!(store.task_stacks().unwrap(), Vec::<String>::new());
    let root = store
        .push_task("main", &new("mend the build"), at(1))
        .unwrap();
    let expected = TaskRecord {
        id: "t1".to_owned(),
        stack: "main".to_owned(),
        goal: "mend the build".to_owned(),
        parent_id: None,
        status: TaskStatus::Active,
        result: None,
        depth: 0,
        created_at: Some(at(1)),
        finished_at: None,
    };
    assert_eq!(root, expected);
    let part = store.push_task("main", &new("find foo"), at(2)).unwrap();
    assert_eq!((part.depth, part.parent_id.as_deref()), (1, Some("t1")));
    assert_eq!(path(store, "main"), "t1/t2");
    let done = pop(store, "main", "foo is never linked");
    assert_eq!(done.status, TaskStatus::Complete);
    assert_eq!(done.result.as_deref(), Some("foo is never linked"));
    assert_eq!(done.finished_at, Some(at(9)));
    assert_eq!(path(store, "main"), "t1");
    let third = store.push_task("main", &new("link foo"), at(3)).unwrap();
    let view = store.task_view("main").unwrap();
    assert_eq!(view.path, [root, third]);
    assert_eq!(view.siblings, [done]);
    pop(store, "main", "linked");
    pop(store, "main", "mended");
    assert_eq!(store.task_view("main").unwrap(), TaskView::default());
    assert_eq!(ids(&store.tasks("main").unwrap()), ["t1", "t2", "t3"]);
}

pub fn a_task_is_finished_once(store: &dyn Store) {
    let empty = store.finish_task("main", None, TaskStatus::Complete, None, at(0));
    assert!(said(empty).contains("no current task"));
    push(store, "main", &["a", "b", "c"]);
    // A task with active subtasks at any depth cannot be finished.
    for status in [TaskStatus::Complete, TaskStatus::Blocked] {
        assert!(said(finish(store, "b", status)).contains("still active"));
        assert!(said(finish(store, "a", status)).contains("still active"));
    }
    assert!(said(finish(store, "a", TaskStatus::Active)).contains("`blocked`"));
    finish(store, "c", TaskStatus::Complete).unwrap();
    assert!(said(finish(store, "c", TaskStatus::Complete)).contains("already complete"));
    assert!(said(finish(store, "c", TaskStatus::Blocked)).contains("already complete"));
    assert!(matches!(
        finish(store, "nobody", TaskStatus::Complete),
        Err(StoreError::NotFound { .. })
    ));
    push(store, "other", &["x"]);
    assert!(matches!(
        finish(store, "x", TaskStatus::Complete),
        Err(StoreError::NotFound { .. })
    ));
    // Another task than the current one is finished: the current one remains.
    store
        .push_task("main", &named("d", Some("a")), at(1))
        .unwrap();
    assert_eq!(path(store, "main"), "a/d");
    finish(store, "b", TaskStatus::Complete).unwrap();
    assert_eq!(path(store, "main"), "a/d");
    let view = store.task_view("main").unwrap();
    assert_eq!(ids(&view.siblings), ["b"]);
}

pub fn a_parent_task_must_be_open(store: &dyn Store) {
    push(store, "main", &["a", "b"]);
    assert!(matches!(
        store.push_task("main", &named("a", None), at(0)),
        Err(StoreError::Exists { .. })
    ));
    // Ids are unique across all stacks.
    assert!(matches!(
        store.push_task("other", &named("a", None), at(0)),
        Err(StoreError::Exists { .. })
    ));
    assert!(said(store.push_task("main", &new(" \n"), at(0))).contains("goal"));
    for parent in ["nobody", "b"] {
        let refused = store.push_task("other", &named("x", Some(parent)), at(0));
        assert!(matches!(refused, Err(StoreError::NotFound { .. })));
    }
    pop(store, "main", "done");
    let refused = store.push_task("main", &named("x", Some("b")), at(0));
    assert!(said(refused).contains("is complete"));
    for stack in ["", " a", "a\nb"] {
        assert!(said(store.push_task(stack, &new("x"), at(0))).contains("stack"));
    }
    assert_eq!(path(store, "main"), "a");
    assert_eq!(store.task_stacks().unwrap(), ["main"]);
}

pub fn a_blocked_task_is_resumed(store: &dyn Store) {
    push(store, "main", &["a", "b", "c"]);
    let blocked = store
        .finish_task(
            "main",
            None,
            TaskStatus::Blocked,
            Some("needs a key"),
            at(5),
        )
        .unwrap();
    assert_eq!(blocked.status, TaskStatus::Blocked);
    assert_eq!(blocked.finished_at, Some(at(5)));
    assert_eq!(path(store, "main"), "a/b");
    // The nearest active ancestor becomes current, which need not be the
    // parent.
    finish(store, "b", TaskStatus::Blocked).unwrap();
    store
        .push_task("main", &named("d", Some("b")), at(6))
        .unwrap();
    assert_eq!(path(store, "main"), "a/b/d");
    assert!(said(finish(store, "b", TaskStatus::Complete)).contains("still active"));
    assert!(said(finish(store, "a", TaskStatus::Complete)).contains("still active"));
    pop(store, "main", "done");
    assert_eq!(path(store, "main"), "a");
    let resumed = store.resume_task("main", "c").unwrap();
    assert_eq!(resumed.status, TaskStatus::Active);
    assert_eq!((resumed.result, resumed.finished_at), (None, None));
    assert_eq!(path(store, "main"), "a/b/c");
    store.resume_task("main", "a").unwrap();
    assert_eq!(path(store, "main"), "a");
    // The other subtask is still active.
    assert!(said(finish(store, "a", TaskStatus::Complete)).contains("still active"));
    assert!(said(store.resume_task("main", "d")).contains("is complete"));
    for (stack, id) in [("main", "nobody"), ("other", "a")] {
        assert!(matches!(
            store.resume_task(stack, id),
            Err(StoreError::NotFound { .. })
        ));
    }
    finish(store, "c", TaskStatus::Complete).unwrap();
    finish(store, "a", TaskStatus::Complete).unwrap();
    assert_eq!(path(store, "main"), "");
}

pub fn stacks_are_independent(store: &dyn Store) {
    push(store, "b", &["b1", "b2"]);
    push(store, "a", &["a1"]);
    assert_eq!(store.task_stacks().unwrap(), ["a", "b"]);
    assert_eq!(path(store, "a"), "a1");
    assert_eq!(path(store, "b"), "b1/b2");
    pop(store, "b", "done");
    assert_eq!(path(store, "a"), "a1");
    assert_eq!(ids(&store.tasks("a").unwrap()), ["a1"]);
    assert_eq!(ids(&store.tasks("b").unwrap()), ["b1", "b2"]);
}

pub fn default_task_ids_are_unused_ones(store: &dyn Store) {
    push(store, "main", &["t2", "t3"]);
    let made = |stack: &str| store.push_task(stack, &new("x"), at(0)).unwrap().id;
    assert_eq!(made("main"), "t1");
    assert_eq!(made("other"), "t4");
    pop(store, "other", "done");
    forget(store, "t4").unwrap();
    assert_eq!(made("main"), "t5");
    // A generated id skips the id of a recorded task.
    remember(store, &[task("t6", None)]);
    assert_eq!(made("main"), "t7");
}

pub fn tasks_are_listed_after_their_parents(store: &dyn Store) {
    let put = |id: &str, parent: Option<&str>, second| {
        let mut task = task(id, parent);
        task.created_at = Some(at(second));
        task
    };
    let tasks = [
        put("late root", None, 50),
        put("b", Some("root"), 30),
        put("a", Some("root"), 30),
        put("first", Some("root"), 20),
        put("deep", Some("first"), 60),
        put("root", None, 10),
    ];
    remember(store, &tasks);
    let listed = store.tasks("main").unwrap();
    assert_eq!(
        ids(&listed),
        ["root", "first", "deep", "a", "b", "late root"]
    );
    let depths: Vec<u32> = listed.iter().map(|task| task.depth).collect();
    assert_eq!(depths, [0, 1, 2, 1, 1, 0]);
}

pub fn only_the_latest_siblings_are_returned(store: &dyn Store) {
    push(store, "main", &["root"]);
    for i in 0..105 {
        let task = named(&format!("p{i:03}"), Some("root"));
        store.push_task("main", &task, at(i)).unwrap();
        pop(store, "main", "done");
    }
    push(store, "main", &["now"]);
    let siblings = store.task_view("main").unwrap().siblings;
    assert_eq!(siblings.len(), 100);
    assert_eq!((&*siblings[0].id, &*siblings[99].id), ("p005", "p104"));
}

fn task(id: &str, parent: Option<&str>) -> TaskRecord {
    TaskRecord {
        id: id.to_owned(),
        stack: "main".to_owned(),
        goal: format!("reach {id}"),
        parent_id: parent.map(str::to_owned),
        status: TaskStatus::Active,
        result: None,
        depth: 0,
        created_at: Some(at(0)),
        finished_at: None,
    }
}

fn try_remember(store: &dyn Store, tasks: &[TaskRecord]) -> Result<Vec<Remembered>, StoreError> {
    let records: Vec<NewRecord> = tasks
        .iter()
        .map(|task| NewRecord {
            record: Record::Task(task.clone()),
            derived: Derived::default(),
        })
        .collect();
    store.remember(&records, &Analysis::default(), at(100))
}

fn remember(store: &dyn Store, tasks: &[TaskRecord]) -> Vec<Remembered> {
    try_remember(store, tasks).unwrap()
}

fn forget(store: &dyn Store, id: &str) -> Result<u64, StoreError> {
    let what = Forget::Id {
        kind: None,
        id: id.to_owned(),
    };
    Ok(store.forget(&what)?.forgotten[&RecordKind::Task])
}

pub fn tasks_are_recorded_with_other_records(store: &dyn Store) {
    let done = TaskRecord {
        status: TaskStatus::Complete,
        result: Some("found".to_owned()),
        finished_at: Some(at(7)),
        depth: 99,
        ..task("b", Some("a"))
    };
    let tasks = [done.clone(), task("c", Some("b")), task("a", None)];
    let its = remember(store, &tasks);
    assert!(its.iter().all(|it| matches!(it, Remembered::Added(_))));
    // No imported task becomes current; depths are computed.
    assert_eq!(store.task_view("main").unwrap(), TaskView::default());
    assert_eq!(store.task_stacks().unwrap(), ["main"]);
    let listed = store.tasks("main").unwrap();
    assert_eq!(listed[1], TaskRecord { depth: 1, ..done });
    assert_eq!(listed[2].depth, 2);
    let its = remember(store, &tasks);
    assert!(its.iter().all(|it| matches!(it, Remembered::Unchanged(_))));
    let untimed = TaskRecord {
        created_at: None,
        ..task("a", None)
    };
    let its = remember(store, &[untimed]);
    assert!(matches!(its[0], Remembered::Unchanged(_)));
    assert_eq!(store.tasks("main").unwrap(), listed);
    assert_eq!(
        store.memory_stats().unwrap().kinds[&RecordKind::Task].live,
        3
    );
    // Imported tasks behave like pushed ones.
    assert!(said(finish(store, "a", TaskStatus::Complete)).contains("still active"));
    store.resume_task("main", "c").unwrap();
    assert_eq!(path(store, "main"), "a/b/c");
}

pub fn a_task_that_is_recorded_again_is_replaced(store: &dyn Store) {
    push(store, "main", &["a", "b", "c", "d"]);
    push(store, "other", &["x"]);
    // A moved task takes its subtasks along.
    let its = remember(store, &[task("c", None)]);
    assert!(matches!(its[0], Remembered::Replaced(_)));
    let depths: Vec<(String, u32)> = store
        .tasks("main")
        .unwrap()
        .into_iter()
        .map(|task| (task.id, task.depth))
        .collect();
    let expected = [("a", 0), ("b", 1), ("c", 0), ("d", 1)];
    assert_eq!(depths, expected.map(|(id, depth)| (id.to_owned(), depth)));
    assert_eq!(path(store, "main"), "c/d");
    // The former parent no longer waits for the moved task.
    finish(store, "b", TaskStatus::Complete).unwrap();
    finish(store, "a", TaskStatus::Complete).unwrap();
    assert!(said(finish(store, "c", TaskStatus::Complete)).contains("still active"));
    // A completed task is no longer current.
    let done = TaskRecord {
        status: TaskStatus::Complete,
        ..task("d", Some("c"))
    };
    remember(store, &[done]);
    assert_eq!(path(store, "main"), "c");
    finish(store, "c", TaskStatus::Complete).unwrap();
}

pub fn tasks_with_invalid_parents_are_rejected(store: &dyn Store) {
    push(store, "main", &["a", "b"]);
    push(store, "other", &["x"]);
    let before = store.tasks("main").unwrap();
    let elsewhere = TaskRecord {
        stack: "elsewhere".to_owned(),
        ..task("a", None)
    };
    let refused = [
        (
            vec![task("c", None), task("d", Some("nobody"))],
            "records[1].parent_id: there is no task `nobody`",
        ),
        (
            vec![
                task("c", Some("d")),
                task("d", Some("e")),
                task("e", Some("c")),
            ],
            "records[0].parent_id: task `c` would be a part of itself",
        ),
        (
            vec![task("a", Some("b"))],
            "records[0].parent_id: task `a` would be",
        ),
        (
            vec![task("c", Some("c"))],
            "records[0].parent_id: is the task itself",
        ),
        (
            vec![task("c", Some("x"))],
            "records[0].parent_id: task `x` is in stack `other`",
        ),
        (
            vec![elsewhere],
            "records[0].stack: task `a` has parts in another stack",
        ),
        (vec![task("", None)], "records[0].id: is empty"),
    ];
    for (tasks, expected) in refused {
        let said = said(try_remember(store, &tasks));
        assert!(said.starts_with(expected), "{said}");
        assert_eq!(store.tasks("main").unwrap(), before);
    }
    assert_eq!(path(store, "main"), "a/b");
}

pub fn deep_task_trees_are_stored(store: &dyn Store) {
    const DEEP: usize = 10_000;
    let id = |n: usize| format!("d{n:05}");
    let mut tasks: Vec<TaskRecord> = (0..DEEP)
        .map(|n| task(&id(n), n.checked_sub(1).map(id).as_deref()))
        .collect();
    // The deepest task comes first, so that no task finds its parent.
    tasks.reverse();
    remember(store, &tasks);
    let last = store.resume_task("main", &id(DEEP - 1)).unwrap();
    assert_eq!(last.depth as usize, DEEP - 1);
    assert_eq!(store.task_view("main").unwrap().path.len(), DEEP);
    assert!(said(finish(store, &id(0), TaskStatus::Complete)).contains("still active"));
    let child = store
        .push_task("main", &named("child", None), at(1))
        .unwrap();
    assert_eq!(child.depth as usize, DEEP);
    assert_eq!(store.tasks("main").unwrap().len(), DEEP + 1);
    // A cycle of that length is detected, too.
    let said = said(try_remember(store, &[task(&id(0), Some(&id(DEEP - 1)))]));
    assert!(said.contains("part of itself"), "{said}");
    // The task is no longer a subtask: everything below moves up.
    remember(store, &[task(&id(1), None)]);
    assert_eq!(store.task_view("main").unwrap().path.len(), DEEP);
}

pub fn a_task_is_deleted(store: &dyn Store) {
    push(store, "main", &["a", "b"]);
    assert!(said(forget(store, "a")).contains("has subtasks"));
    assert!(said(forget(store, "b")).contains("current"));
    pop(store, "main", "done");
    assert_eq!(forget(store, "b").unwrap(), 1);
    assert_eq!(ids(&store.tasks("main").unwrap()), ["a"]);
    assert!(matches!(
        forget(store, "b"),
        Err(StoreError::NotFound { .. })
    ));
    // A deleted active task no longer blocks its parent.
    store.push_task("main", &named("c", None), at(0)).unwrap();
    store.resume_task("main", "a").unwrap();
    let only = Forget::Id {
        kind: Some(RecordKind::Task),
        id: "c".to_owned(),
    };
    store.forget(&only).unwrap();
    pop(store, "main", "done");
    let other_kind = Forget::Id {
        kind: Some(RecordKind::Event),
        id: "a".to_owned(),
    };
    assert!(matches!(
        store.forget(&other_kind),
        Err(StoreError::NotFound { .. })
    ));
    assert_eq!(forget(store, "a").unwrap(), 1);
    assert_eq!(store.task_stacks().unwrap(), Vec::<String>::new());
}
