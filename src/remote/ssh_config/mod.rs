//! `~/.ssh/config` and then `/etc/ssh/ssh_config`, as far as a connection needs them: the first value of a keyword wins,
//! as in OpenSSH's `ssh_config(5)`; `Include`, `Host` with wildcards and negation, and the plain forms of `Match` are evaluated.
//!
//! A reader of our own: the published crates join blocks by merging maps, which loses "first value wins" across
//! includes, and give up on a file with one keyword they do not know.

mod read;
mod resolve;

use std::path::{Path, PathBuf};

use read::Line;

/// A configuration file with its includes, not yet applied to a host.
#[derive(Clone, Debug, Default)]
pub struct SshConfig {
    lines: Vec<Line>,
    /// The file for all users, which is read after the user's own and whose blocks are its own.
    system: Vec<Line>,
    /// Home directory of the user, for `~` and `%d`.
    home: PathBuf,
    /// Local user name, for `%u` and `Match localuser`.
    local_user: String,
    /// What could not be read or is not supported: remarks for the person.
    pub warnings: Vec<String>,
}

/// What the configuration says about one host. Nothing here is a default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostSettings {
    /// `HostName`, tokens expanded.
    pub host_name: Option<String>,
    /// `User`.
    pub user: Option<String>,
    /// `Port`.
    pub port: Option<u16>,
    /// `IdentityFile`, every one that applies, in order; `none` empties nothing but adds nothing.
    pub identity_files: Vec<PathBuf>,
    /// `IdentityFile none` was said: no default keys either.
    pub no_identities: bool,
    /// `IdentitiesOnly yes`.
    pub identities_only: bool,
    /// `IdentityAgent`: a socket, or `none`.
    pub identity_agent: Option<String>,
    /// `ProxyJump`, hops comma separated; none when `none`.
    pub proxy_jump: Option<String>,
    /// `ProxyCommand` stands before any `ProxyJump`; it is not supported.
    pub proxy_command: Option<String>,
    /// `UserKnownHostsFile`; an empty list for `none`.
    pub user_known_hosts: Option<Vec<PathBuf>>,
    /// `GlobalKnownHostsFile`; an empty list for `none`.
    pub global_known_hosts: Option<Vec<PathBuf>>,
    /// `HostKeyAlias`: the name to look up in `known_hosts`.
    pub host_key_alias: Option<String>,
    /// `StrictHostKeyChecking`.
    pub strict: Option<Strict>,
    /// `HashKnownHosts`.
    pub hash_known_hosts: Option<bool>,
}

/// `StrictHostKeyChecking`: what becomes of a host that is not known yet. A changed key is refused whatever it says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strict {
    /// `ask`: a person decides.
    #[default]
    Ask,
    /// `yes`: refused without a question.
    Yes,
    /// `accept-new`, and `no` as well: recorded without a question.
    AcceptNew,
}

impl SshConfig {
    /// Reads the file with its includes; a missing file is an empty configuration.
    pub fn load(file: &Path, home: &Path, local_user: &str) -> Self {
        let mut config = SshConfig { home: home.to_owned(), local_user: local_user.to_owned(), ..SshConfig::default() };
        let base = home.join(".ssh");
        config.lines = read::file(file, home, &base, &mut config.warnings);
        resolve::remarks(&config.lines, &mut config.warnings);
        config
    }

    /// With the file for all users, e.g. `/etc/ssh/ssh_config`: what the user's own says comes first. Its relative
    /// includes lie beside it.
    #[must_use]
    pub fn with_system(mut self, file: &Path) -> Self {
        let base = file.parent().unwrap_or(Path::new("/"));
        self.system = read::file(file, &self.home, base, &mut self.warnings);
        resolve::remarks(&self.system, &mut self.warnings);
        self
    }

    /// What it says about `host`, the name as the inventory gives it. `user` is the one already decided, if any.
    pub fn settings(&self, host: &str, user: Option<&str>) -> HostSettings {
        resolve::resolve(self, host, user)
    }
}

/// `~/x` below this home; other paths as they are.
pub(crate) fn expand_home(path: &str, home: &Path) -> PathBuf {
    match path.strip_prefix('~') {
        Some("") => home.to_owned(),
        Some(rest) if rest.starts_with('/') => home.join(rest.trim_start_matches('/')),
        _ => PathBuf::from(path),
    }
}
