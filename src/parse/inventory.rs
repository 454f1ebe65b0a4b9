//! Reads `macluster.yaml`.

use std::path::Path;

use crate::exit::{Exit, Failure};
use crate::model::Inventory;

/// Loads the inventory from this file, or from `macluster.yaml` found upwards from the working directory.
pub fn load(_file: Option<&Path>) -> Result<Inventory, Failure> {
    Err(Failure::new(Exit::Unexpected, "not built yet"))
}
