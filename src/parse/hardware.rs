//! `system_profiler SPHardwareDataType -json`.

use serde_json::Value;

use super::json::{list_of, text};
use super::words::malformed;
use crate::model::Fact;
use crate::model::facts::Hardware;

const TOOL: &str = "system_profiler SPHardwareDataType";
const KEY: &str = "SPHardwareDataType";

/// Reads the overview. Only the model is required: repaired boards lack other fields.
pub fn parse(output: &str) -> Fact<Hardware> {
    let list = list_of(TOOL, KEY, output)?;
    let overview = list.iter().filter_map(Value::as_object).find_map(|o| Some((text(o, "machine_model")?, o)));
    let Some((model, overview)) = overview else {
        return Err(malformed(TOOL, None, "no entry has a `machine_model`"));
    };
    let field = |key: &str| text(overview, key).unwrap_or_default();
    Ok(Hardware {
        model,
        name: field("machine_name"),
        chip: field("chip_type"),
        memory: field("physical_memory"),
        serial: field("serial_number"),
    })
}
