//! Wildcard patterns of OpenSSH files: `*` any run of characters, `?` any one, `!` in front negates.

/// Whether `text` matches the wildcard pattern. Linear in time: no input makes it slow.
pub fn glob(pattern: &str, text: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let text: Vec<char> = text.chars().collect();
    let (mut p, mut t) = (0, 0);
    // Where to go on when a later literal fails: after the last `*`, one character further in the text.
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                retry = Some((p + 1, t));
                p += 1;
            }
            Some(c) if *c == '?' || text.get(t) == Some(c) => {
                p += 1;
                t += 1;
            }
            _ => match retry {
                Some((after_star, from)) => {
                    p = after_star;
                    t = from + 1;
                    retry = Some((after_star, t));
                }
                None => return false,
            },
        }
    }
    pattern.get(p..).unwrap_or_default().iter().all(|c| *c == '*')
}

/// Whether one of the patterns matches and no negated one does.
pub(crate) fn any<'a>(patterns: impl IntoIterator<Item = &'a str>, text: &str) -> bool {
    let mut found = false;
    for pattern in patterns {
        match pattern.strip_prefix('!') {
            Some(negated) if glob(negated, text) => return false,
            Some(_) => {}
            None => found |= glob(pattern, text),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards() {
        for (pattern, text, expected) in [
            ("studio-1", "studio-1", true),
            ("studio-?", "studio-1", true),
            ("studio-?", "studio-", false),
            ("studio-?", "studio-12", false),
            ("*", "", true),
            ("*", "anything", true),
            ("10.0.*.1?", "10.0.7.15", true),
            ("10.0.*.1?", "10.0.7.25", false),
            ("*.rack.example", "a.b.rack.example", true),
            ("*.rack.example", "rack.example", false),
            ("a*b*c", "aXbXbXc", true),
            ("a*b*c", "aXbXbX", false),
            ("[10.0.0.1]:2222", "[10.0.0.1]:2222", true),
            ("", "", true),
            ("", "x", false),
            ("**x", "x", true),
        ] {
            assert_eq!(glob(pattern, text), expected, "{pattern:?} against {text:?}");
        }
        // Exponential matchers never come back from this one.
        assert!(!glob(&format!("{}c", "a*".repeat(30)), &"a".repeat(200)));
    }

    #[test]
    fn a_negated_pattern_wins_wherever_it_stands() {
        assert!(any(["10.0.0.*"], "10.0.0.3"));
        assert!(!any(["10.0.0.*", "!10.0.0.3"], "10.0.0.3"));
        assert!(!any(["!10.0.0.3", "10.0.0.*"], "10.0.0.3"));
        assert!(!any(["!10.0.0.3"], "10.0.0.4"), "a negation alone matches nothing");
    }
}
