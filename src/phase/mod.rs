//! The steps of apply and deploy, one file each.
pub mod bundle;
pub mod network;
pub mod runtime;
