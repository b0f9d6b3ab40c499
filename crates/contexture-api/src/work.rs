//! The steps of a call of an operation: read the path and the query, read the
//! body, do the work.
//!
//! The steps are separate because a server does something between them: it finds
//! the tenant before it reads a body, and looks for an earlier answer before it
//! works.

use serde_json::{Map, Value};

use crate::problem::Problem;
use crate::schema::Schemas;

type ReadCall<T> = dyn Fn(Map<String, Value>, &str) -> Result<Call<T>, Problem> + Send + Sync;

/// The implementation of an operation on a `T`: a tenant, or the whole deployment.
pub struct Work<T: ?Sized>(Box<ReadCall<T>>);

impl<T: ?Sized> Work<T> {
    pub(crate) fn new(
        read: impl Fn(Map<String, Value>, &str) -> Result<Call<T>, Problem> + Send + Sync + 'static,
    ) -> Self {
        Self(Box::new(read))
    }

    /// Reads the path parameters and the query of a call.
    pub fn read(&self, path: Map<String, Value>, query: &str) -> Result<Call<T>, Problem> {
        (self.0)(path, query)
    }
}

type ReadBody<T> = dyn FnOnce(&Schemas, Option<&[u8]>) -> Result<ReadyCall<T>, Problem> + Send;

/// A call whose path and query were read.
pub struct Call<T: ?Sized>(Box<ReadBody<T>>);

impl<T: ?Sized> Call<T> {
    pub(crate) fn new(
        read: impl FnOnce(&Schemas, Option<&[u8]>) -> Result<ReadyCall<T>, Problem> + Send + 'static,
    ) -> Self {
        Self(Box::new(read))
    }

    /// Reads the JSON body, which must match the schema of the operation. `None` for
    /// an operation without a body.
    pub fn with_body(
        self,
        schemas: &Schemas,
        body: Option<&[u8]>,
    ) -> Result<ReadyCall<T>, Problem> {
        (self.0)(schemas, body)
    }
}

type Run<T> = dyn FnOnce(&T) -> Result<Vec<u8>, Problem> + Send;

/// A call that was read.
pub struct ReadyCall<T: ?Sized>(Box<Run<T>>);

impl<T: ?Sized> ReadyCall<T> {
    pub(crate) fn new(run: impl FnOnce(&T) -> Result<Vec<u8>, Problem> + Send + 'static) -> Self {
        Self(Box::new(run))
    }

    /// Does the work, which blocks. Returns the answer as JSON.
    pub fn run(self, on: &T) -> Result<Vec<u8>, Problem> {
        (self.0)(on)
    }
}
