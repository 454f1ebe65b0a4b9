//! Where a connection goes and with what: the inventory's values win over `ssh_config`, which wins over defaults.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::known_hosts::Listing;
use super::ssh_config::{HostSettings, SshConfig, Strict, expand_home};
use crate::model::inventory::{Inventory, Node, Ssh};

/// What surrounds all connections of one run: home, user, agent, configuration.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// Home directory.
    pub home: PathBuf,
    /// Local user name.
    pub user: String,
    /// `SSH_AUTH_SOCK`.
    pub agent: Option<PathBuf>,
    /// `/etc/ssh/ssh_known_hosts` and its like.
    pub global_known_hosts: Vec<PathBuf>,
    /// Limits of a connection.
    pub waits: Waits,
    /// `~/.ssh/config` and the one for all users; empty with `ssh.use_config: false`.
    config: SshConfig,
    use_config: bool,
}

/// How long a connection is waited for.
#[derive(Clone, Copy, Debug)]
pub struct Waits {
    /// TCP, key exchange and login together; questions to the person are not counted.
    pub connect: Duration,
    /// Without any word from the node for this long, it is asked for one; after three times it is lost.
    pub keepalive: Duration,
}

impl Default for Waits {
    fn default() -> Self {
        Waits { connect: Duration::from_secs(10), keepalive: Duration::from_secs(15) }
    }
}

impl Surroundings {
    /// As this process finds them.
    pub fn detect(use_config: bool) -> Self {
        let home = std::env::var_os("HOME").map_or_else(|| PathBuf::from("/"), PathBuf::from);
        let user = ["USER", "LOGNAME"].iter().find_map(|n| std::env::var(n).ok().filter(|v| !v.is_empty()));
        let user = user.or_else(|| rustix::process::getuid().is_root().then(|| "root".to_owned())).unwrap_or_default();
        let agent = std::env::var_os("SSH_AUTH_SOCK").filter(|v| !v.is_empty()).map(PathBuf::from);
        let global = ["/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2"].map(PathBuf::from).to_vec();
        Self::new(home, user, agent, global, use_config).with_system_config(Path::new("/etc/ssh/ssh_config"))
    }

    /// With the `ssh_config` for all users, which is read after the user's own; without effect where none is read.
    #[must_use]
    pub fn with_system_config(mut self, file: &Path) -> Self {
        if self.use_config {
            self.config = self.config.with_system(file);
        }
        self
    }

    /// With these values; reads `~/.ssh/config` below `home` if wanted.
    pub fn new(home: PathBuf, user: String, agent: Option<PathBuf>, global: Vec<PathBuf>, use_config: bool) -> Self {
        let config =
            if use_config { SshConfig::load(&home.join(".ssh/config"), &home, &user) } else { SshConfig::default() };
        Surroundings {
            home,
            user,
            agent: agent.filter(|_| use_config),
            global_known_hosts: global,
            waits: Waits::default(),
            config,
            use_config,
        }
    }

    /// Remarks on the configuration.
    pub fn warnings(&self) -> &[String] {
        &self.config.warnings
    }
}

/// A key file to try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) path: PathBuf,
    /// Named by the inventory or the configuration; a missing default is no matter, a missing named file is.
    pub(crate) named: bool,
}

/// One host to connect to, everything decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) user: String,
    /// Name and port under which `known_hosts` lists it.
    pub(crate) listed: (String, u16),
    pub(crate) identities: Vec<Identity>,
    /// Offer no other key of the agent.
    pub(crate) identities_only: bool,
    pub(crate) agent: Option<PathBuf>,
    /// The user's files; new keys go to the first.
    pub(crate) user_known_hosts: Vec<PathBuf>,
    pub(crate) global_known_hosts: Vec<PathBuf>,
    /// What becomes of it when it is not known yet.
    pub(crate) strict: Strict,
    /// How a new key is recorded.
    pub(crate) listing: Listing,
    /// Hosts to go through, in the order of connecting.
    pub(crate) jumps: Vec<Target>,
    /// A `ProxyCommand` that is not going to be used.
    pub(crate) ignored_proxy_command: Option<String>,
}

/// What is asked for, before configuration and defaults.
#[derive(Clone, Copy, Debug, Default)]
struct Wish<'a> {
    host: &'a str,
    port: Option<u16>,
    user: Option<&'a str>,
    /// Used when neither the wish nor the configuration names a user.
    fallback_user: Option<&'a str>,
    identity: Option<&'a Path>,
    jump: Option<&'a str>,
}

/// Longest chain of jump hosts; longer ones are loops.
const MAX_JUMPS: usize = 8;

impl Target {
    /// The way to a node of the inventory.
    pub(crate) fn of_node(inventory: &Inventory, node: &Node, around: &Surroundings) -> Result<Target, String> {
        let ssh = &inventory.ssh;
        let wish = Wish {
            host: &node.host,
            port: node.port.or(ssh.port),
            user: node.user.as_deref().or(ssh.user.as_deref()),
            fallback_user: None,
            identity: node.identity.as_deref().or(ssh.identity.as_deref()),
            jump: ssh.jump.as_deref(),
        };
        resolve(wish, ssh, around, 0)
    }

    /// `user@host:port`, for messages.
    pub(crate) fn label(&self) -> String {
        format!("{}@{}", self.user, super::known_hosts::listed_name(&self.host, self.port))
    }
}

fn resolve(wish: Wish<'_>, ssh: &Ssh, around: &Surroundings, depth: usize) -> Result<Target, String> {
    if depth > MAX_JUMPS {
        return Err(format!("the jump hosts of `{}` go in a circle", wish.host));
    }
    let settings =
        if around.use_config { around.config.settings(wish.host, wish.user) } else { HostSettings::default() };
    let host = settings.host_name.clone().unwrap_or_else(|| wish.host.to_owned());
    let port = wish.port.or(settings.port).unwrap_or(22);
    let chosen = wish.user.or(settings.user.as_deref()).or(wish.fallback_user);
    let user = chosen.unwrap_or(&around.user).to_owned();
    if user.is_empty() {
        return Err("no login user is known: set `ssh.user` in the inventory".to_owned());
    }
    let listed = match &settings.host_key_alias {
        Some(alias) => (alias.clone(), 22),
        None => (host.clone(), port),
    };
    let jumps = match wish.jump.or(settings.proxy_jump.as_deref()).filter(|j| !j.eq_ignore_ascii_case("none")) {
        Some(list) => jump_chain(list, (&host, port), ssh, around, depth)?,
        None => Vec::new(),
    };
    let agent = match settings.identity_agent.as_deref() {
        Some("none") => None,
        Some("" | "SSH_AUTH_SOCK") | None => around.agent.clone(),
        Some(path) => Some(PathBuf::from(path)),
    };
    Ok(Target {
        host,
        port,
        user,
        listed,
        identities: identities(wish.identity, &settings, around),
        identities_only: settings.identities_only,
        agent,
        user_known_hosts: match (&ssh.known_hosts, &settings.user_known_hosts) {
            (Some(file), _) => vec![file.clone()],
            (None, Some(files)) => files.clone(),
            (None, None) => ["known_hosts", "known_hosts2"].iter().map(|f| around.home.join(".ssh").join(f)).collect(),
        },
        global_known_hosts: settings.global_known_hosts.clone().unwrap_or_else(|| around.global_known_hosts.clone()),
        strict: settings.strict.unwrap_or_default(),
        listing: if settings.hash_known_hosts == Some(true) { Listing::Hashed } else { Listing::Plain },
        jumps,
        ignored_proxy_command: settings.proxy_command.filter(|_| wish.jump.is_none()),
    })
}

fn identities(wished: Option<&Path>, settings: &HostSettings, around: &Surroundings) -> Vec<Identity> {
    let mut named: Vec<PathBuf> = wished.map(Path::to_owned).into_iter().collect();
    named.extend(settings.identity_files.iter().filter(|p| Some(p.as_path()) != wished).cloned());
    if !named.is_empty() || settings.no_identities || !around.use_config {
        return named.into_iter().map(|path| Identity { path, named: true }).collect();
    }
    ["id_ed25519", "id_ecdsa", "id_rsa"]
        .iter()
        .map(|name| Identity { path: expand_home("~/.ssh", &around.home).join(name), named: false })
        .collect()
}

/// `[user@]host[:port],…`: the last one is reached through those before it; the first may have jumps of its own in
/// the configuration. `of` is the host that is to be reached.
fn jump_chain(
    list: &str,
    of: (&str, u16),
    ssh: &Ssh,
    around: &Surroundings,
    depth: usize,
) -> Result<Vec<Target>, String> {
    let mut chain = Vec::new();
    for (index, spec) in list.split(',').map(str::trim).enumerate() {
        let (user, host, port) =
            jump_spec(spec).ok_or_else(|| format!("`{}` is no jump host: [user@]host[:port]", spec.escape_debug()))?;
        let wish = Wish {
            host,
            port,
            user,
            fallback_user: ssh.user.as_deref(),
            identity: ssh.identity.as_deref(),
            jump: Some("none"),
        };
        let alone = resolve(wish, ssh, around, depth + 1)?;
        if (alone.host.as_str(), alone.port) == of {
            // `Host *` with a ProxyJump covers the jump host as well: no host is a jump to itself.
            continue;
        }
        // Only the first hop follows a ProxyJump of its own.
        let mut hop = if index == 0 { resolve(Wish { jump: None, ..wish }, ssh, around, depth + 1)? } else { alone };
        chain.append(&mut hop.jumps);
        chain.push(hop);
    }
    if chain.len() > MAX_JUMPS {
        return Err(format!("more than {MAX_JUMPS} jump hosts in `{}`", list.escape_debug()));
    }
    Ok(chain)
}

/// Splits `[ssh://][user@]host[:port]`, `host` possibly in brackets.
fn jump_spec(spec: &str) -> Option<(Option<&str>, &str, Option<u16>)> {
    let spec = spec.strip_prefix("ssh://").unwrap_or(spec).trim_end_matches('/');
    let (user, rest) = match spec.rsplit_once('@') {
        Some((user, rest)) => (Some(user), rest),
        None => (None, spec),
    };
    let (host, port) = if let Some(inner) = rest.strip_prefix('[') {
        let (host, after) = inner.split_once(']')?;
        (host, after.strip_prefix(':'))
    } else if rest.matches(':').count() == 1 {
        let (host, port) = rest.split_once(':')?;
        (host, Some(port))
    } else {
        (rest, None)
    };
    let port = match port {
        Some(port) => Some(port.parse().ok().filter(|p| *p != 0)?),
        None => None,
    };
    let sound = |text: &str| !text.is_empty() && !text.starts_with('-') && !text.contains(char::is_whitespace);
    (sound(host) && user.is_none_or(sound)).then_some((user, host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jumps(config: &str, list: Option<&str>, host: &str) -> Result<Vec<String>, String> {
        let home = tempfile::tempdir().map_err(|e| e.to_string())?;
        std::fs::create_dir(home.path().join(".ssh")).map_err(|e| e.to_string())?;
        std::fs::write(home.path().join(".ssh/config"), config).map_err(|e| e.to_string())?;
        let around = Surroundings::new(home.path().to_owned(), "desk".to_owned(), None, Vec::new(), true);
        let wish = Wish { host, jump: list, ..Wish::default() };
        let target = resolve(wish, &Ssh::default(), &around, 0)?;
        Ok(target.jumps.iter().map(Target::label).collect())
    }

    #[test]
    fn chains_of_jump_hosts() {
        for (config, list, host, expected) in [
            ("", None, "mac", vec![]),
            ("", Some("b"), "mac", vec!["desk@b"]),
            ("", Some("u@b:2200, [fe80::1]:22 ,ssh://c:7/"), "mac", vec!["u@[b]:2200", "desk@fe80::1", "desk@[c]:7"]),
            ("Host *\nProxyJump b", None, "mac", vec!["desk@b"]),
            ("Host *\nProxyJump b", None, "b", vec![]),
            ("Host *\nProxyJump b", Some("none"), "mac", vec![]),
            (
                "Host b\nHostName 10.0.0.9\nUser x\nProxyJump a\nHost mac\nProxyJump b",
                None,
                "mac",
                vec!["desk@a", "x@10.0.0.9"],
            ),
            // One machine, two servers: that is a jump.
            ("", Some("127.0.0.1:2222"), "127.0.0.1", vec!["desk@[127.0.0.1]:2222"]),
        ] {
            assert_eq!(
                jumps(config, list, host),
                Ok(expected.into_iter().map(str::to_owned).collect()),
                "{config}, {list:?}"
            );
        }
        for (config, list) in [
            ("Host a\nProxyJump b\nHost b\nProxyJump a", Some("a")),
            ("", Some("u@")),
            ("", Some("-oX")),
            ("", Some("a:0")),
            ("", Some("")),
        ] {
            assert!(jumps(config, list, "mac").is_err(), "{config}, {list:?}");
        }
    }
}
