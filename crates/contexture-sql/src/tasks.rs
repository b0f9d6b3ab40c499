//! Task stacks: the transactions around `contexture-sql-memory`.

use contexture_sql_memory::tasks;
use contexture_store::{NewTask, StoreError, TaskRecord, TaskStatus, TaskView, Tasks, check_label};
use jiff::Timestamp;

use crate::{Backend, SqlStore};

impl<B: Backend> Tasks for SqlStore<B> {
    fn push_task(
        &self,
        stack: &str,
        new: &NewTask,
        now: Timestamp,
    ) -> Result<TaskRecord, StoreError> {
        check_label("stack", stack)?;
        let (stack, new) = (stack.to_owned(), new.clone());
        self.write_keyed(move |db, tenant| tasks::push(db, tenant, &stack, &new, now))
    }

    fn finish_task(
        &self,
        stack: &str,
        id: Option<&str>,
        status: TaskStatus,
        result: Option<&str>,
        now: Timestamp,
    ) -> Result<TaskRecord, StoreError> {
        let (stack, id) = (stack.to_owned(), id.map(str::to_owned));
        let result = result.map(str::to_owned);
        self.write_keyed(move |db, tenant| {
            tasks::finish(db, tenant, &stack, id.as_deref(), status, result, now)
        })
    }

    fn resume_task(&self, stack: &str, id: &str) -> Result<TaskRecord, StoreError> {
        let (stack, id) = (stack.to_owned(), id.to_owned());
        self.write_keyed(move |db, tenant| tasks::resume(db, tenant, &stack, &id))
    }

    fn task_view(&self, stack: &str) -> Result<TaskView, StoreError> {
        self.read(|db, tenant| tasks::view(db, tenant, stack))
    }

    fn tasks(&self, stack: &str) -> Result<Vec<TaskRecord>, StoreError> {
        self.read(|db, tenant| tasks::list(db, tenant, stack))
    }

    fn task_stacks(&self) -> Result<Vec<String>, StoreError> {
        self.read(tasks::stacks)
    }
}
