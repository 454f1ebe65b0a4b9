//! The steps of apply and deploy, one file each.
pub mod accept;
pub mod bundle;
pub mod deploy;
pub mod folders;
pub mod hold;
pub mod inspect;
pub mod logs;
pub mod model;
pub mod network;
pub mod ops;
pub mod proof;
pub mod replace;
pub mod runtime;
pub mod service;
pub mod smoke;
pub mod standing;
