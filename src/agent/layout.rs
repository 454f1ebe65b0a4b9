//! Where things lie on a node. The one table of node-side paths of the runtime.

use crate::model::inventory::Paths;

/// launchd's label of the agent.
pub const AGENT_LABEL: &str = "com.macluster.agent";

/// Name of the folder, inside staging, that receives the program alone.
pub const PROBE: &str = "probe";

/// Paths below `<root><install>`, as the node sees them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    root: String,
    install: String,
}

impl Layout {
    /// `root` is `/` (or empty) on a real node; `install` is absolute, e.g. `/opt/macluster`.
    pub fn new(root: &str, install: &str) -> Self {
        Layout { root: root.trim_end_matches('/').to_owned(), install: install.trim_end_matches('/').to_owned() }
    }

    /// The same places without the root: for programs, before which the remote itself puts the root.
    #[must_use]
    pub fn unrooted(&self) -> Self {
        Layout { root: String::new(), install: self.install.clone() }
    }

    /// The root as an argument: `/` when there is none.
    pub fn root(&self) -> &str {
        if self.root.is_empty() { "/" } else { &self.root }
    }

    /// The install folder without the root, as an argument.
    pub fn install(&self) -> &str {
        &self.install
    }

    /// `<root><install>`.
    pub fn base(&self) -> String {
        Paths::rooted(&self.root, &self.install)
    }

    fn below(&self, path: &str) -> String {
        format!("{}/{path}", self.base())
    }

    /// What arrives.
    pub fn arrivals(&self) -> String {
        self.below("staging")
    }

    /// Where a release is received.
    pub fn staging(&self, id: &str) -> String {
        self.below(&format!("staging/{id}"))
    }

    /// All installed releases.
    pub fn releases(&self) -> String {
        self.below("releases")
    }

    /// An installed release.
    pub fn release(&self, id: &str) -> String {
        self.below(&format!("releases/{id}"))
    }

    /// The link to the active release.
    pub fn current(&self) -> String {
        self.below("current")
    }

    /// The program that looks at models where nothing is deployed.
    pub fn tools(&self) -> String {
        self.below("tools")
    }

    /// Configuration.
    pub fn etc(&self) -> String {
        self.below("etc")
    }

    /// The configuration before the one in place.
    pub fn etc_previous(&self) -> String {
        self.below("etc.previous")
    }

    /// The next configuration, until it is put in place.
    pub fn etc_next(&self) -> String {
        self.below("etc.next")
    }

    /// What the engine is told.
    pub fn rank_file(&self) -> String {
        self.below("etc/rank.json")
    }

    /// What the agent is told.
    pub fn agent_file(&self) -> String {
        self.below("etc/agent.json")
    }

    /// The engine's home: empty, its own.
    pub fn engine_home(&self) -> String {
        self.below("var/engine")
    }

    /// State of the running agent.
    pub fn run(&self) -> String {
        self.below("var/run")
    }

    /// What the agent reports.
    pub fn status_file(&self) -> String {
        self.below("var/run/status.json")
    }

    /// What this boot has cost.
    pub fn ledger_file(&self) -> String {
        self.below("var/run/ledger.json")
    }

    /// Held while a desk works on the runtime.
    pub fn operation_lock_file(&self) -> String {
        self.below("var/run/operation.lock")
    }

    /// Held by the engine's process as long as it lives, whatever becomes of its agent.
    pub fn engine_lock_file(&self) -> String {
        self.below("var/run/engine.lock")
    }

    /// A file of the agent's TLS: `ca.pem`, `agent.pem`, `agent.key`.
    pub fn tls_file(&self, name: &str) -> String {
        self.below(&format!("etc/{name}"))
    }

    /// Held by the one agent that runs.
    pub fn lock_file(&self) -> String {
        self.below("var/run/agent.lock")
    }

    /// Logs.
    pub fn log(&self) -> String {
        self.below("var/log")
    }

    /// The engine's events and words.
    pub fn engine_log(&self) -> String {
        self.below("var/log/engine.log")
    }

    /// The agent's own words.
    pub fn agent_log(&self) -> String {
        self.below("var/log/agent.log")
    }

    /// The agent's property list for launchd.
    pub fn plist(&self) -> String {
        Paths::rooted(&self.root, &format!("/Library/LaunchDaemons/{AGENT_LABEL}.plist"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_stands_before_everything_but_a_program() {
        let real = Layout::new("/", "/opt/macluster");
        assert_eq!(real.release("ab"), "/opt/macluster/releases/ab");
        assert_eq!(real.plist(), "/Library/LaunchDaemons/com.macluster.agent.plist");
        assert_eq!(real.root(), "/");
        let sim = Layout::new("/tmp/rack/n1/", "/opt/macluster");
        assert_eq!(sim.status_file(), "/tmp/rack/n1/opt/macluster/var/run/status.json");
        assert_eq!(sim.plist(), "/tmp/rack/n1/Library/LaunchDaemons/com.macluster.agent.plist");
        assert_eq!(sim.unrooted().current(), "/opt/macluster/current");
        assert_eq!(sim.root(), "/tmp/rack/n1");
    }
}
