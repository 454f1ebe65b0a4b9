//! `pmset -g` (samples/power): names may have blanks, values may be followed by what keeps the Mac awake.

use std::collections::BTreeMap;

use super::words::nothing_found;
use crate::model::Fact;

/// Settings by name, values as printed.
///
/// # Errors
/// No settings.
pub fn parse(output: &str) -> Fact<BTreeMap<String, String>> {
    let settings: BTreeMap<String, String> = output.lines().filter_map(setting).collect();
    // Every Mac has it; without it this is another tool's output.
    if settings.contains_key("sleep") {
        return Ok(settings);
    }
    Err(nothing_found("pmset", "a setting called sleep", output))
}

/// ` sleep                1 (sleep prevented by powerd)`; `SleepDisabled\t\t0` has no blank before it.
fn setting(line: &str) -> Option<(String, String)> {
    if !line.starts_with(' ') && !line.contains('\t') {
        return None;
    }
    let plain = line.split(" (").next()?.trim();
    let (name, value) = plain.rsplit_once(|c: char| c.is_whitespace())?;
    let name = name.trim();
    (!name.is_empty() && !name.ends_with(':') && !value.ends_with(':')).then(|| (name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_whatever_stands_around_them() {
        let text = "System-wide power settings:\r\nSleepDisabled\t\t1\r\nCurrently in use:\r\n standby              0\r\n \
                    Sleep On Power Button 1\r\n hibernatefile        /var/vm/sleepimage\r\n \
                    sleep                10 (sleep prevented by a b, powerd)\r\n displaysleep         0\r\n";
        let all = parse(text).expect("reads");
        let value = |name: &str| all.get(name).map(String::as_str);
        assert_eq!(value("sleep"), Some("10"));
        assert_eq!(value("SleepDisabled"), Some("1"));
        assert_eq!(value("Sleep On Power Button"), Some("1"));
        assert_eq!(value("hibernatefile"), Some("/var/vm/sleepimage"));
        assert_eq!(all.len(), 6, "{all:?}");
        assert!(parse("System-wide power settings:\nCurrently in use:\n").is_err());
        assert!(parse("").is_err());
    }
}
