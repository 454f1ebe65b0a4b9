//! The technician's sheet: through `templates/checklist.*`, or as JSON.

use serde_json::{Value, json};

use crate::playbook::{Checklist, TemplateError, Templates};

/// Version of the JSON.
const SCHEMA_VERSION: u32 = 1;

/// Fills the template of that name, e.g. `checklist.html`.
///
/// # Errors
/// A name in the template that does not exist.
pub fn render(sheet: &Checklist, templates: &Templates, template: &str) -> Result<String, TemplateError> {
    let mut context = json!(sheet);
    if let Some(map) = context.as_object_mut() {
        map.insert("day".to_owned(), json!(sheet.taken_at.strftime("%Y-%m-%d %H:%M UTC").to_string()));
    }
    templates.render(template, context)
}

/// For programs.
pub fn json(sheet: &Checklist) -> Value {
    let mut value = json!({"schema_version": SCHEMA_VERSION});
    if let (Some(map), Value::Object(fields)) = (value.as_object_mut(), json!(sheet)) {
        map.extend(fields);
    }
    value
}
