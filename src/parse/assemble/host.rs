//! The facts of a Mac as a server: power, disk, processes, firewall, crash reports, environment.

use super::{Ran, Transcripts};
use crate::model::host_facts::FastSynch;
use crate::model::{Fact, HostFacts};
use crate::parse::words::nothing_found;
use crate::parse::{date, defaults, df, fdesetup, ioclasscount, pmset, probe, ps, socketfilterfw};

impl Transcripts<'_> {
    pub(super) fn host(&self) -> HostFacts {
        HostFacts {
            power: self.strict(probe::POWER, "pmset", pmset::parse),
            // Some releases end with status 1 to say Off.
            filevault: self.complete(probe::FILEVAULT, "fdesetup", fdesetup::parse),
            installs_updates: self.printed(probe::UPDATES, "defaults", |ran| {
                let unset = defaults::not_set(ran.exit, ran.stderr);
                if unset { Ok(None) } else { defaults::switch(ran.stdout, "AutomaticallyInstallMacOSUpdates") }
            }),
            disk: self.strict(probe::DISK, "df", df::parse),
            processes: self.strict(probe::PROCESSES, "ps", ps::parse),
            firewall: self.strict(probe::FIREWALL, "socketfilterfw", socketfilterfw::parse),
            rdma_objects: self.strict(probe::RDMA_OBJECTS, "ioclasscount", ioclasscount::parse),
            reports: self.reports(),
            login_shell: self.printed(probe::SHELL, "printenv", shell),
            fast_synch: self.fast_synch(),
            clock: self.strict(probe::CLOCK, "date", date::parse),
        }
    }

    /// A folder that is not there holds no reports.
    fn reports(&self) -> Fact<Vec<String>> {
        let ran = self.ran(probe::REPORTS, "ls")?;
        match ran.exit {
            Some(0) => Ok(ran.stdout.lines().map(str::trim).filter(is_report).map(str::to_owned).collect()),
            _ if ran.stderr.contains("No such file or directory") => Ok(Vec::new()),
            _ => Err(ran.failed("ls")),
        }
    }

    fn fast_synch(&self) -> Fact<Vec<FastSynch>> {
        let places =
            [(probe::FAST_SYNCH_SHELL, "printenv", "login shell"), (probe::FAST_SYNCH_LAUNCHD, "launchctl", "launchd")];
        let mut set = Vec::new();
        for (id, tool, place) in places {
            let ran = self.ran(id, tool)?;
            // MLX reads a number. What is no number is the login shell's, or has no effect.
            let number = |l: &&str| !l.is_empty() && l.chars().all(|c| c.is_ascii_digit());
            let value = ran.stdout.lines().next_back().map(str::trim).filter(number);
            match ran.exit {
                Some(0) => set.extend(value.map(|v| FastSynch { place: place.to_owned(), value: v.to_owned() })),
                // Not set: printenv ends with status 1; launchctl, as far as is known, with 0.
                Some(1) => {}
                _ => return Err(ran.failed(tool)),
            }
        }
        Ok(set)
    }
}

/// A file of the folder, and not a word of the login shell.
fn is_report(line: &&str) -> bool {
    [".panic", ".ips", ".diag", ".crash", ".hang", ".spin"].iter().any(|end| line.ends_with(end))
}

fn shell(ran: &Ran<'_>) -> Fact<String> {
    let path = ran.stdout.lines().rev().map(str::trim).find(|l| l.starts_with('/'));
    path.map(str::to_owned).ok_or_else(|| nothing_found("printenv", "the path of a shell", &ran.told()))
}
