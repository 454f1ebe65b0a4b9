//! `plutil -extract|-remove|-insert|-replace|-convert|-lint` on real property lists. That a key or a file is missing is
//! said in the words of its published source, on standard output as there.

use std::io;
use std::path::Path;

use plist::{Dictionary, Value};

use super::Call;

/// What is to be done.
enum Verb {
    Extract(String, String),
    Remove(String),
    /// Key path, value, and whether an existing one is replaced.
    Set(String, Value, bool),
    Convert(String),
    Lint,
}

pub(super) fn run(call: &mut Call<'_>) -> io::Result<i32> {
    let args: Vec<String> = call.args.to_vec();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let (verb, rest) = match words.as_slice() {
        ["-extract", key, format, rest @ ..] => (Verb::Extract((*key).to_owned(), (*format).to_owned()), rest),
        ["-remove", key, rest @ ..] => (Verb::Remove((*key).to_owned()), rest),
        ["-insert" | "-replace", key, kind, text, rest @ ..] => match value(kind, text) {
            Some(value) => (Verb::Set((*key).to_owned(), value, words[0] == "-replace"), rest),
            None => return writeln!(call.err, "Invalid value {text} for {kind}").map(|()| 1),
        },
        ["-convert", format, rest @ ..] => (Verb::Convert((*format).to_owned()), rest),
        ["-lint", rest @ ..] => (Verb::Lint, rest),
        // Guess: the words of the usage were not captured.
        _ => return writeln!(call.err, "macsim: this plutil command is not simulated").map(|()| 1),
    };
    let (out, file) = match rest {
        ["-o", out, file] => (Some((*out).to_owned()), (*file).to_owned()),
        [file] => (None, (*file).to_owned()),
        _ => return writeln!(call.err, "No files specified.").map(|()| 1),
    };
    let Some(place) = call.target(&file)? else { return Ok(1) };
    if !call.may_read(&file, &place)? {
        return Ok(1);
    }
    let root = match Value::from_file(&place) {
        Ok(root) => root,
        Err(e) if e.as_io().is_some_and(|e| e.kind() == io::ErrorKind::NotFound) => {
            let name = place.file_name().unwrap_or_default().to_string_lossy().into_owned();
            return writeln!(
                call.out,
                "{file}: file does not exist or is not readable or is not a regular file (Error \
                 Domain=NSCocoaErrorDomain Code=260 \"The file “{name}” couldn’t be opened because there is no such file.\")"
            )
            .map(|()| 1);
        }
        Err(_) => {
            let what = "Property List error: Unexpected character x at line 1 / JSON error: JSON text did not start \
                        with array or object and option to allow fragments not set. around line 1, column 0.";
            return writeln!(call.out, "{file}: {what}").map(|()| 1);
        }
    };
    perform(call, verb, root, (&file, &place), out.as_deref())
}

fn perform(
    call: &mut Call<'_>,
    verb: Verb,
    mut root: Value,
    (file, place): (&str, &Path),
    out: Option<&str>,
) -> io::Result<i32> {
    let (result, format) = match verb {
        Verb::Lint => return writeln!(call.out, "{file}: OK").map(|()| 0),
        Verb::Convert(format) => (root, format),
        Verb::Extract(key, format) => match at(&root, &key) {
            Some(value) => (value.clone(), format),
            None => return missing(call, file, "extract", &key),
        },
        Verb::Remove(key) => match parent(&mut root, &key).and_then(|(dictionary, last)| dictionary.remove(&last)) {
            Some(_) => (root, "xml1".to_owned()),
            None => return missing(call, file, "remove", &key),
        },
        Verb::Set(key, value, replace) => {
            let Some((dictionary, last)) = parent(&mut root, &key) else { return missing(call, file, "insert", &key) };
            if !replace && dictionary.contains_key(&last) {
                let why = format!("Value already exists at key path {key}");
                return writeln!(call.out, "{file}: Could not modify plist, error: {why}").map(|()| 1);
            }
            dictionary.insert(last, value);
            (root, "xml1".to_owned())
        }
    };
    let Some(mut bytes) = written(&result, &format) else {
        return writeln!(call.out, "{file}: invalid object in plist for destination format").map(|()| 1);
    };
    if format != "binary1" {
        bytes.push(b'\n');
    }
    match out {
        Some("-") => call.out.write_all(&bytes).map(|()| 0),
        other => {
            let (arg, target) = match other {
                Some(arg) => match call.target(arg)? {
                    Some(target) => (arg, target),
                    None => return Ok(1),
                },
                None => (file, place.to_owned()),
            };
            if !call.may_change(arg, &target, "Permission denied")? {
                return Ok(1);
            }
            std::fs::write(target, bytes).map(|()| 0)
        }
    }
}

fn missing(call: &mut Call<'_>, file: &str, what: &str, key: &str) -> io::Result<i32> {
    let why = format!("No value at that key path or invalid key path: {key}");
    writeln!(call.out, "{file}: Could not {what} value, error: {why}").map(|()| 1)
}

fn at<'a>(root: &'a Value, key: &str) -> Option<&'a Value> {
    key.split('.').try_fold(root, |value, part| match value {
        Value::Dictionary(d) => d.get(part),
        Value::Array(a) => a.get(part.parse::<usize>().ok()?),
        _ => None,
    })
}

/// The dictionary that holds the last part of a key path, and that part.
fn parent<'a>(root: &'a mut Value, key: &str) -> Option<(&'a mut Dictionary, String)> {
    let (above, last) = key.rsplit_once('.').unwrap_or(("", key));
    let mut value = root;
    for part in above.split('.').filter(|p| !p.is_empty()) {
        value = value.as_dictionary_mut()?.get_mut(part)?;
    }
    Some((value.as_dictionary_mut()?, last.to_owned()))
}

fn value(kind: &str, text: &str) -> Option<Value> {
    match kind {
        "-string" => Some(Value::String(text.to_owned())),
        "-integer" => text.parse::<i64>().ok().map(|n| Value::Integer(n.into())),
        "-bool" => Some(Value::Boolean(matches!(text.to_uppercase().as_str(), "YES" | "TRUE" | "1"))),
        "-json" => serde_json::from_str(text).ok(),
        "-xml" => plist::from_bytes(text.as_bytes()).ok(),
        _ => None,
    }
}

fn written(value: &Value, format: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    match format {
        "xml1" => value.to_writer_xml(&mut bytes).ok()?,
        "binary1" => value.to_writer_binary(&mut bytes).ok()?,
        "json" => bytes = json(value)?.to_string().into_bytes(),
        "raw" => {
            let text = match value {
                Value::String(s) => s.clone(),
                Value::Boolean(b) => b.to_string(),
                Value::Integer(n) => n.to_string(),
                Value::Real(n) => n.to_string(),
                Value::Array(a) => a.len().to_string(),
                Value::Dictionary(d) => d.keys().cloned().collect::<Vec<_>>().join("\n"),
                _ => return None,
            };
            bytes = text.into_bytes();
        }
        _ => return None,
    }
    Some(bytes)
}

/// Dates and data have no JSON; the outermost value must be a container.
fn json(value: &Value) -> Option<serde_json::Value> {
    fn inner(value: &Value) -> Option<serde_json::Value> {
        Some(match value {
            Value::Dictionary(d) => {
                d.iter().map(|(k, v)| Some((k.clone(), inner(v)?))).collect::<Option<serde_json::Map<_, _>>>()?.into()
            }
            Value::Array(a) => a.iter().map(inner).collect::<Option<Vec<_>>>()?.into(),
            Value::String(s) => s.clone().into(),
            Value::Boolean(b) => (*b).into(),
            Value::Integer(n) => n.as_signed().map(Into::into).or_else(|| n.as_unsigned().map(Into::into))?,
            Value::Real(n) => serde_json::Number::from_f64(*n)?.into(),
            _ => return None,
        })
    }
    matches!(value, Value::Dictionary(_) | Value::Array(_)).then(|| inner(value))?
}
