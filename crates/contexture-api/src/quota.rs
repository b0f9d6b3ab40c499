//! The storage quotas that a tenant has reached.
//!
//! A server measures what a tenant stores before each call that can store something.
//! Only the operation knows what a call adds, so it checks the kinds that it adds.

use std::sync::{Mutex, PoisonError};

use contexture::key::tenant_name;
use http::StatusCode;

use crate::problem::Problem;

/// A kind of storage that a quota limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StorageKind {
    /// Stored bytes: everything that a tenant stores.
    Bytes,
    /// Sessions.
    Sessions,
    /// Memory records.
    Records,
    /// Nodes of all trees.
    Nodes,
}

impl StorageKind {
    /// Returns the name of what is counted.
    fn name(self) -> &'static str {
        match self {
            StorageKind::Bytes => "bytes",
            StorageKind::Sessions => "sessions",
            StorageKind::Records => "memory records",
            StorageKind::Nodes => "nodes",
        }
    }
}

/// A storage quota that a tenant has reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReachedQuota {
    /// The kind of storage.
    pub kind: StorageKind,
    /// What the tenant stores.
    pub used: u64,
    /// The quota.
    pub most: u64,
}

/// The storage quotas that a tenant has reached, as of the last measurement.
#[derive(Debug, Default)]
pub struct ReachedQuotas(Mutex<Vec<ReachedQuota>>);

impl ReachedQuotas {
    /// Replaces the reached quotas after a measurement.
    pub fn set(&self, reached: Vec<ReachedQuota>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = reached;
    }

    /// Fails with 507 if the quota of that kind is reached.
    pub(crate) fn check(&self, tenant: &str, kind: StorageKind) -> Result<(), Problem> {
        let reached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match reached.iter().find(|reached| reached.kind == kind) {
            None => Ok(()),
            Some(ReachedQuota { used, most, .. }) => {
                let (tenant, what) = (tenant_name(tenant), kind.name());
                let message =
                    format!("tenant `{tenant}` uses {used} of its quota of {most} {what}");
                let status = StatusCode::INSUFFICIENT_STORAGE;
                Err(Problem::new(status, "quota_exceeded", message)
                    .hint("delete data, or ask the operator for a larger quota"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reached_quota_refuses_only_its_own_kind() {
        let quotas = ReachedQuotas::default();
        quotas.set(vec![ReachedQuota {
            kind: StorageKind::Sessions,
            used: 2,
            most: 2,
        }]);
        for kind in [StorageKind::Bytes, StorageKind::Records, StorageKind::Nodes] {
            assert!(quotas.check("a", kind).is_ok());
        }
        let refused = quotas.check("a", StorageKind::Sessions).unwrap_err();
        assert_eq!(refused.status, StatusCode::INSUFFICIENT_STORAGE);
        assert_eq!(
            refused.message,
            "tenant `a` uses 2 of its quota of 2 sessions"
        );
        quotas.set(Vec::new());
        assert!(quotas.check("a", StorageKind::Sessions).is_ok());
    }
}
