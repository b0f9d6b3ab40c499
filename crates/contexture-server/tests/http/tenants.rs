//! Tenants share nothing.
