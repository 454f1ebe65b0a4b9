//! What each value of the inventory must look like. Every function says what was expected.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use ipnet::Ipv4Net;

use super::section::Rejected;
use crate::model::NodeName;

type Checked<T> = Result<T, Rejected>;

/// The rack's name: shown everywhere and part of file names.
pub(super) fn rack(text: &str) -> Checked<String> {
    let good = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    if text.len() > 63 || !text.chars().all(good) || !text.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return Err(format!(
            "`{}` is not a usable name: use 1 to 63 letters, digits, `-`, `.` and `_`, beginning with a letter or digit",
            text.escape_debug()
        )
        .into());
    }
    Ok(text.to_owned())
}

/// A node's name.
pub(super) fn node_name(text: &str) -> Checked<NodeName> {
    text.parse::<NodeName>().map_err(|e| {
        let lower = text.to_ascii_lowercase().replace([' ', '/'], "-");
        let rejected = Rejected::from(e);
        match lower.parse::<NodeName>() {
            Ok(name) => rejected.hint(format!("`{name}` would do")),
            Err(_) => rejected,
        }
    })
}

/// A host name, an address, or an alias of the SSH configuration.
pub(super) fn host(text: &str) -> Checked<String> {
    if let Some((user, rest)) = text.split_once('@') {
        return Err(Rejected::from("expected a host name or address without a user name").hint(format!(
            "write `host: {}` and `user: {}`",
            rest.escape_debug(),
            user.escape_debug()
        )));
    }
    if let Some((name, port)) = text.split_once(':')
        && !port.contains(':')
    {
        return Err(Rejected::from("expected a host name or address without a port").hint(format!(
            "write `host: {}` and `port: {}`",
            name.escape_debug(),
            port.escape_debug()
        )));
    }
    let good = |c: char| c.is_alphanumeric() || "-._:%".contains(c);
    if text.is_empty() || text.len() > 253 || text.starts_with('-') || !text.chars().all(good) {
        return Err(format!("`{}` is no host name, address or alias of ~/.ssh/config", text.escape_debug()).into());
    }
    Ok(text.to_owned())
}

/// A login name.
pub(super) fn user(text: &str) -> Checked<String> {
    if text.is_empty()
        || text.len() > 255
        || text.starts_with('-')
        || text.chars().any(|c| c.is_control() || c.is_whitespace() || c == '/' || c == ':')
    {
        return Err(format!("`{}` is no login name", text.escape_debug()).into());
    }
    Ok(text.to_owned())
}

/// Jump hosts as `ssh -J` takes them.
pub(super) fn jump(text: &str) -> Checked<String> {
    let hop = |hop: &str| {
        let host = hop.rsplit_once('@').map_or(hop, |(_, host)| host);
        !host.is_empty() && !hop.starts_with('-') && !hop.chars().any(|c| c.is_control() || c.is_whitespace())
    };
    if text.split(',').all(hop) {
        return Ok(text.to_owned());
    }
    Err(format!("expected `[user@]host[:port]`, several separated by commas, found `{}`", text.escape_debug()).into())
}

/// A file on this machine: `~` is the home folder, anything relative stands beside the inventory.
pub(super) fn local_file(text: &str, base: Option<&Path>, home: Option<&Path>) -> Checked<PathBuf> {
    if text.is_empty() || text.chars().any(char::is_control) {
        return Err(format!("`{}` is no path of a file", text.escape_debug()).into());
    }
    if text == "~" || text.starts_with("~/") {
        let home = home.ok_or_else(|| {
            Rejected::from("`~` cannot be expanded: the environment variable HOME is not set")
                .hint("write the absolute path")
        })?;
        return Ok(home.join(text.trim_start_matches('~').trim_start_matches('/')));
    }
    if text.starts_with('~') {
        return Err(Rejected::from("`~name` is not expanded").hint("write `~/…` or the absolute path"));
    }
    let path = PathBuf::from(text);
    Ok(match base {
        Some(base) if path.is_relative() => base.join(path),
        _ => path,
    })
}

/// An absolute path on the nodes, without a trailing slash.
pub(super) fn node_path(text: &str) -> Checked<String> {
    if !text.starts_with('/') {
        let hint = if text.starts_with('~') {
            "the home folder differs between users and nodes: write the path from `/`"
        } else {
            "write the path from `/`, the same on every node"
        };
        return Err(Rejected::from(format!("expected an absolute path on the nodes, found `{}`", text.escape_debug()))
            .hint(hint));
    }
    if text.chars().any(char::is_control) {
        return Err(format!("`{}` contains control characters", text.escape_debug()).into());
    }
    if text.split('/').any(|part| part == "..") {
        return Err(format!("`{text}` must not contain `..`").into());
    }
    let trimmed = text.trim_end_matches('/');
    Ok(if trimmed.is_empty() { "/".to_owned() } else { trimmed.to_owned() })
}

/// A folder or program of its own on the nodes: not `/`.
pub(super) fn node_path_below_root(text: &str) -> Checked<String> {
    match node_path(text)?.as_str() {
        "/" => Err(Rejected::from("`/` itself cannot be used")),
        path => Ok(path.to_owned()),
    }
}

/// The pool of the link networks.
pub(super) fn pool(text: &str) -> Checked<Ipv4Net> {
    let expected = "expected an IPv4 network such as `10.254.0.0/16`";
    let Ok(net) = text.parse::<Ipv4Net>() else {
        let rejected = Rejected::from(format!("{expected}, found `{}`", text.escape_debug()));
        return Err(match text.parse::<Ipv4Addr>() {
            Ok(address) => rejected.hint(format!("the prefix length is missing: `{address}/16`?")),
            Err(_) => rejected,
        });
    };
    if net.trunc() != net {
        return Err(Rejected::from(format!("{expected}; {net} is an address inside a network"))
            .hint(format!("the network is {}", net.trunc())));
    }
    let first = net.network();
    if first.is_loopback() || first.is_multicast() || first.octets()[0] == 0 || first.octets()[0] >= 240 {
        return Err(Rejected::from(format!("{net} holds no addresses that an interface can have"))
            .hint("use a private network, such as 10.254.0.0/16"));
    }
    Ok(net)
}

/// Where the API listens: loopback only.
pub(super) fn listen(text: &str) -> Checked<SocketAddr> {
    let expected = "expected a loopback address and a port such as `127.0.0.1:8080`";
    let Ok(listen) = text.parse::<SocketAddr>() else {
        let rejected = Rejected::from(format!("{expected}, found `{}`", text.escape_debug()));
        return Err(match text.strip_prefix("localhost:") {
            Some(port) => rejected.hint(format!("write `127.0.0.1:{}`", port.escape_debug())),
            None => rejected,
        });
    };
    if !listen.ip().is_loopback() {
        return Err(Rejected::from(format!(
            "{listen} would open the model to everyone on that network: only a loopback address is accepted \
             as long as there are no API keys"
        ))
        .hint(format!("write `127.0.0.1:{}` and reach it with `macluster tunnel`", listen.port())));
    }
    if listen.port() == 0 {
        return Err(format!("{expected}; port 0 is none").into());
    }
    Ok(listen)
}
