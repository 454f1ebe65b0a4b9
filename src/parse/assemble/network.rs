//! The facts of the link networks: own files, preferences, jobs, services, and what was sent over the links.

use super::{Ran, Transcripts};
use crate::model::network_facts::{DEADMAN_JOB, EXO_JOB, Job, LINKS_JOB, LinkPath, Service};
use crate::model::{Fact, FactErrorKind, NetworkFacts, Transcript};
use crate::parse::{launchctl, own_network, ping, plutil, probe, route, services};

impl Transcripts<'_> {
    pub(super) fn network(&self) -> NetworkFacts {
        NetworkFacts {
            bridge_entries: self.printed(probe::BRIDGE_ENTRIES, "plutil", |ran| plutil::bridges(ran.exit, &ran.told())),
            jobs: self.jobs(),
            services: self.services(),
            sharing: self.printed(probe::INTERNET_SHARING, "plutil", |ran| plutil::switch(ran.exit, &ran.told())),
            configured: self.file(probe::LINKS_CONFIG, own_network::links),
            history: self.file(probe::LINKS_HISTORY, own_network::history).map(Option::unwrap_or_default),
            lock: self.file(probe::LINKS_LOCK, own_network::lock),
            armed: self.file(probe::LINKS_ARMED, |_| Ok(())).map(|armed| armed.is_some()),
            paths: self.paths(),
        }
    }

    /// Tools whose reader judges status and output together.
    pub(super) fn printed<T>(&self, id: &str, tool: &str, parse: impl Fn(&Ran<'_>) -> Fact<T>) -> Fact<T> {
        let ran = self.ran(id, tool)?;
        parse(&ran).map_err(|e| ran.blame(tool, e))
    }

    /// A file of our own: none when it is not there.
    fn file<T>(&self, id: &str, parse: fn(&str) -> Fact<T>) -> Fact<Option<T>> {
        let ran = self.ran(id, "cat")?;
        match ran.exit {
            Some(0) => parse(ran.stdout).map(Some),
            // cat's own words on macOS, which are not localised.
            _ if ran.stderr.contains("No such file or directory") => Ok(None),
            _ => Err(ran.failed("cat")),
        }
    }

    fn jobs(&self) -> Fact<Vec<Job>> {
        let mut jobs = Vec::new();
        for (id, label) in [(probe::JOB_LINKS, LINKS_JOB), (probe::JOB_DEADMAN, DEADMAN_JOB), (probe::JOB_EXO, EXO_JOB)]
        {
            jobs.extend(self.printed(id, "launchctl", |ran| {
                let not_loaded = launchctl::not_loaded(ran.exit, &ran.both());
                if not_loaded { Ok(None) } else { launchctl::print(label, ran.stdout).map(Some) }
            })?);
        }
        Ok(jobs)
    }

    fn services(&self) -> Fact<Vec<Service>> {
        let mut services = self.strict(probe::SERVICES, "networksetup", services::order)?;
        for t in self.each(probe::SERVICE_INFO) {
            let method = self.read(t, "networksetup").and_then(|ran| {
                let told =
                    if ran.exit == Some(0) { services::method(ran.stdout) } else { Err(ran.failed("networksetup")) };
                told.map_err(|e| ran.blame("networksetup", e))
            });
            let asked = services.iter_mut().filter(|s| t.argv.last() == Some(&s.name));
            asked.for_each(|s| s.method = Some(method.clone()));
        }
        Ok(services)
    }

    fn each(&self, id: &'static str) -> impl Iterator<Item = &Transcript> {
        self.list.iter().filter(move |t| t.probe == id)
    }

    /// A recording that knows no services is older than the question; a newer one without pings had no link to try.
    fn paths(&self) -> Fact<Vec<LinkPath>> {
        if self.each(probe::SERVICES).next().is_none() {
            return NetworkFacts::default().paths;
        }
        Ok(self.links())
    }

    /// Every link that was tried.
    pub(super) fn links(&self) -> Vec<LinkPath> {
        self.each(probe::LINK_PING).filter_map(|t| self.path(t)).collect()
    }

    fn path(&self, t: &Transcript) -> Option<LinkPath> {
        let after = |flag: &str| t.argv.iter().skip_while(|a| *a != flag).nth(1);
        let peer = t.argv.last()?;
        let way = self.each(probe::LINK_ROUTE).find(|r| r.argv.last() == Some(peer));
        let route = way.map(|r| {
            let ran = self.read(r, "route")?;
            route::interface(&ran.both()).map_err(|e| ran.blame("route", e))
        });
        Some(LinkPath {
            interface: after("-b")?.clone(),
            address: after("-S")?.parse().ok()?,
            peer_address: peer.parse().ok()?,
            answered: self.read(t, "ping").and_then(|ran| answered(&ran)),
            route: route.unwrap_or_else(|| Err(super::error("route", FactErrorKind::NotCollected, "was not asked"))),
        })
    }
}

impl Ran<'_> {
    /// What it printed, or where it failed all that it said.
    pub(super) fn told(&self) -> String {
        if self.exit == Some(0) { self.stdout.to_owned() } else { self.both() }
    }
}

/// Status 0: at least one answer; 2: none at all (samples/network/ping.md). Anything else proves nothing.
fn answered(ran: &Ran<'_>) -> Fact<bool> {
    let told = ping::parse(&ran.both()).map_err(|e| ran.blame("ping", e))?;
    match (ran.exit, told.received) {
        (Some(0), 1..) => Ok(true),
        (Some(2), 0) => Ok(false),
        _ => Err(ran.failed("ping")),
    }
}
