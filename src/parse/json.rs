//! Finds the JSON object of `system_profiler -json` in what was printed.

use serde_json::{Map, Value};

use super::words::{excerpt, malformed, nothing_found, without_bom};
use crate::model::Fact;

/// Objects tried before giving up; a banner with more braces than this is no banner.
const ATTEMPTS: usize = 64;

/// The list under `key` of the first JSON object that has one. Anything before and after that object is passed over:
/// login shells print banners, also with braces in them.
pub(super) fn list_of(tool: &str, key: &str, text: &str) -> Fact<Vec<Value>> {
    let text = without_bom(text);
    let mut from = 0;
    // The attempt that got furthest tells best where the output breaks off.
    let mut furthest: Option<(usize, String)> = None;
    for _ in 0..ATTEMPTS {
        let Some(start) = text.get(from..).and_then(|rest| rest.find('{')).map(|at| from + at) else { break };
        let mut stream = serde_json::Deserializer::from_str(text.get(start..).unwrap_or_default()).into_iter();
        match stream.next() {
            Some(Ok(Value::Object(mut object))) => {
                if let Some(list) = take_list(&mut object, key) {
                    return Ok(list);
                }
                from = start + stream.byte_offset().max(1);
            }
            Some(Err(error)) => {
                let before = text.get(..start).unwrap_or_default().matches('\n').count();
                let line = before + error.line().max(1);
                if furthest.as_ref().is_none_or(|(l, _)| line > *l) {
                    furthest = Some((line, reason(&error)));
                }
                from = start + 1;
            }
            Some(Ok(_)) | None => from = start + 1,
        }
    }
    Err(match furthest {
        Some((line, why)) => malformed(tool, Some(line), format!("expected a JSON object with `{key}`: {why}")),
        None => nothing_found(tool, &format!("a JSON object with `{key}`"), text),
    })
}

fn take_list(object: &mut Map<String, Value>, key: &str) -> Option<Vec<Value>> {
    match object.get_mut(key)? {
        Value::Array(list) => Some(std::mem::take(list)),
        _ => None,
    }
}

/// The parser's words without its own line and column, which count from the object's beginning.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line ") {
        Some(at) => excerpt(text.get(..at).unwrap_or_default()),
        None => excerpt(&text),
    }
}

/// A text under `key`; numbers count as their digits, since macOS has printed ids both ways.
pub(super) fn text(object: &Map<String, Value>, key: &str) -> Option<String> {
    match object.get(key)? {
        Value::String(text) => Some(text.trim().to_owned()).filter(|t| !t.is_empty()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOL: &str = "system_profiler";

    #[test]
    fn banners_before_and_garbage_behind_are_passed_over() {
        let object = "{ \"Wanted\" : [ 1, 2 ] }";
        for text in [
            object.to_owned(),
            format!("Welcome to {{studio}}\n{object}"),
            format!("{{\"banner\": {{\"Wanted\": 3}}}}\n{object}\nlogout\n"),
            format!("\u{feff}\r\n{object}}}}}"),
            format!("{{ {{ {{\n{object}"),
            format!("\u{1b}[1mhi\u{1b}[0m {object}"),
        ] {
            let list = list_of(TOOL, "Wanted", &text).unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(list.len(), 2, "{text}");
        }
    }

    #[test]
    fn errors_name_the_line_where_it_breaks_off() {
        let error = list_of(TOOL, "Wanted", "banner\n{\n\"Wanted\": [\n{\"a\": 1},\n{\"b\":").expect_err("cut");
        assert_eq!((error.line, error.tool.as_str()), (Some(5), TOOL));
        assert_eq!(error.message, "expected a JSON object with `Wanted`: EOF while parsing a value");
        let error = list_of(TOOL, "Wanted", "\nno braces").expect_err("none");
        assert_eq!(error.line, Some(2));
        assert!(list_of(TOOL, "Wanted", "").expect_err("empty").message.ends_with("nothing was printed"));
        assert!(list_of(TOOL, "Wanted", "{\"Wanted\": 3}").is_err());
    }

    #[test]
    fn a_flood_of_braces_ends() {
        assert!(list_of(TOOL, "Wanted", &"{".repeat(100_000)).is_err());
        assert!(list_of(TOOL, "Wanted", &"{\"a\":".repeat(50_000)).is_err());
        assert!(list_of(TOOL, "Wanted", &format!("{{\"Wanted\": {}", "[".repeat(50_000))).is_err());
    }
}
