//! Changes one value of an inventory and leaves every other byte, comments included, as it is.

use super::tree::{self, Value};
use super::{read, rules};
use crate::model::{Inventory, NodeName};

/// The text with another `host` for one node.
///
/// # Errors
/// The host is not a usable one, or the value is written in a way that cannot be changed without touching something
/// else (an alias, an escape): then it has to be changed by hand.
pub fn with_host(text: &str, node: &NodeName, host: &str) -> Result<String, String> {
    rules::host(host).map_err(|rejected| rejected.message)?;
    let (mark, body) = match text.strip_prefix('\u{feff}') {
        Some(body) => ("\u{feff}", body),
        None => ("", text),
    };
    let by_hand = || format!("the `host` of {node} is written in a way that only a person can change");
    let before = read(body, None).map_err(|e| e.to_string())?;
    let mut wanted = before.clone();
    let value = wanted.nodes.iter_mut().find(|n| &n.name == node).ok_or_else(|| format!("there is no node {node}"))?;
    let old = std::mem::replace(&mut value.host, host.to_owned());
    let start = place_of_host(body, node).ok_or_else(by_hand)?;
    let (head, tail) = body.split_at_checked(start).ok_or_else(by_hand)?;
    // As it is written now, else in quotes: an IPv6 address is no plain value everywhere.
    let ways = [("", ""), ("\"", ""), ("\"", "\""), ("'", "'")];
    for (new_quote, old_quote) in ways {
        let Some(rest) = tail.strip_prefix(&format!("{old_quote}{old}{old_quote}")) else { continue };
        let quote = if old_quote.is_empty() { new_quote } else { old_quote };
        let after = format!("{head}{quote}{host}{quote}{rest}");
        if reads_as(&after, &wanted) {
            return Ok(format!("{mark}{after}"));
        }
    }
    Err(by_hand())
}

fn reads_as(text: &str, wanted: &Inventory) -> bool {
    read(text, None).is_ok_and(|after| {
        Inventory { text: String::new(), ..after } == Inventory { text: String::new(), ..wanted.clone() }
    })
}

/// Byte offset of the node's `host` value.
fn place_of_host(text: &str, node: &NodeName) -> Option<usize> {
    let root = tree::parse(text).ok()?;
    let of = |map: &tree::Node, key: &str| -> Option<tree::Node> {
        let Value::Map(entries) = &map.value else { return None };
        entries.iter().find(|(k, _)| k.value == Value::Text(key.to_owned())).map(|(_, v)| v.clone())
    };
    let Value::List(nodes) = of(&root, "nodes")?.value else { return None };
    let called = |n: &&tree::Node| of(n, "name").is_some_and(|v| v.value == Value::Text(node.to_string()));
    let at = of(nodes.iter().find(called)?, "host")?.at;
    let line = usize::try_from(at.line).ok()?.checked_sub(1)?;
    let start: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
    let column = usize::try_from(at.column).ok()?.checked_sub(1)?;
    let (offset, _) = text.get(start..)?.char_indices().nth(column)?;
    Some(start + offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(text: &str, host: &str) -> Result<String, String> {
        with_host(text, &"b".parse().expect("a name"), host)
    }

    #[test]
    fn one_value_changes_and_nothing_else() {
        for (before, host, after) in [
            (
                "# é 10.0.0.2\r\nnodes:\r\n- {name: a, host: 10.0.0.2}  # 10.0.0.1\r\n- {host: 10.0.0.1, name: b} # b\r\n",
                "10.0.0.9",
                "# é 10.0.0.2\r\nnodes:\r\n- {name: a, host: 10.0.0.2}  # 10.0.0.1\r\n- {host: 10.0.0.9, name: b} # b\r\n",
            ),
            (
                "nodes:\n  - name: b\n    host: 'mac'  # é\n",
                "mac.local",
                "nodes:\n  - name: b\n    host: 'mac.local'  # é\n",
            ),
            ("\u{feff}nodes: [{name: b, host: \"m\"}]", "n", "\u{feff}nodes: [{name: b, host: \"n\"}]"),
            ("nodes: [{name: b, host: m}]\n", "fe80::1", "nodes: [{name: b, host: \"fe80::1\"}]\n"),
        ] {
            let done = changed(before, host).expect(before);
            assert!(done == after || done == after.replace('"', ""), "{done:?}");
        }
    }

    #[test]
    fn what_cannot_be_changed_alone_is_refused() {
        let alias =
            "x: 1\nnodes:\n- {name: a, host: &h mac, port: 1}\n- {name: b, host: *h, port: 2}\n".replace("x: 1\n", "");
        assert!(changed(&alias, "other").is_err());
        assert!(changed("nodes: [{name: b, host: \"\\x6dac\"}]\n", "other").is_err(), "an escape");
        assert!(changed("nodes: [{name: b, host: mac}]\n", "-oProxyCommand=x").is_err());
        assert!(changed("nodes: [{name: a, host: mac}]\n", "other").is_err());
    }
}
