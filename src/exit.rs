//! The one table of exit codes, and the one error type that reaches `main`.
//!
//! Every command ends in [`Exit`] or [`Failure`]; `main` alone turns it into a number.

use std::fmt;

/// Why the process ended, as CI and scripts see it. Documented in `docs/exit-codes.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Exit {
    /// 0: done; warnings included.
    Ok,
    /// 1: a defect or a state nobody planned for.
    Unexpected,
    /// 2: the command line makes no sense.
    Usage,
    /// 3: `macluster.yaml` (or a playbook, template or snapshot file) cannot be used.
    Inventory,
    /// 4: at least one check failed.
    ChecksFailed,
    /// 5: changes are pending; only with `--detailed-exitcode`.
    ChangesPending,
    /// 6: some nodes were not reached or failed; the others were served.
    SomeNodesFailed,
    /// 7: no node was reached: no answer, a host key that is new or changed, a refused login.
    NoNodeReachable,
    /// 8: the rack moved since the plan was made.
    StalePlan,
    /// 9: the deploy failed; the previous release, if there was one, is running again.
    DeployFailed,
    /// 10: the thing asked for does not exist.
    NotFound,
    /// 130: interrupted by the user.
    Interrupted,
}

/// When several apply, the earlier one wins.
const PRECEDENCE: [Exit; 12] = [
    Exit::Interrupted,
    Exit::Unexpected,
    Exit::Usage,
    Exit::Inventory,
    Exit::NoNodeReachable,
    Exit::StalePlan,
    Exit::DeployFailed,
    Exit::SomeNodesFailed,
    Exit::ChecksFailed,
    Exit::ChangesPending,
    Exit::NotFound,
    Exit::Ok,
];

impl Exit {
    /// The process exit status.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Exit::Ok => 0,
            Exit::Unexpected => 1,
            Exit::Usage => 2,
            Exit::Inventory => 3,
            Exit::ChecksFailed => 4,
            Exit::ChangesPending => 5,
            Exit::SomeNodesFailed => 6,
            Exit::NoNodeReachable => 7,
            Exit::StalePlan => 8,
            Exit::DeployFailed => 9,
            Exit::NotFound => 10,
            Exit::Interrupted => 130,
        }
    }

    /// Every code, in the order of the documented table.
    #[must_use]
    pub fn all() -> [Exit; 12] {
        let mut all = PRECEDENCE;
        all.sort_by_key(|e| e.code());
        all
    }

    /// The one that counts when several apply: 130, 1, 2, 3, 7, 8, 9, 6, 4, 5, then 10 and 0.
    #[must_use]
    pub fn worst(exits: impl IntoIterator<Item = Exit>) -> Exit {
        let rank = |e: &Exit| PRECEDENCE.iter().position(|p| p == e);
        exits.into_iter().min_by_key(rank).unwrap_or(Exit::Ok)
    }
}

/// An error as a person reads it: what happened, and what to do next.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The exit code it leads to.
    pub exit: Exit,
    /// Names the node and the cause; one or more lines, no trailing full stop needed.
    pub message: String,
    /// Next actions, printed as `hint: …`.
    pub hints: Vec<String>,
}

impl Failure {
    /// A failure without hints.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Failure { exit, message: message.into(), hints: Vec::new() }
    }

    /// Adds a next action.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// What a command gives back.
pub type Outcome = Result<Exit, Failure>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn precedence_is_the_documented_one() {
        let order = [130, 1, 2, 3, 7, 8, 9, 6, 4, 5];
        let all = Exit::all();
        for pair in order.windows(2) {
            let find = |code: u8| *all.iter().find(|e| e.code() == code).expect("known code");
            assert_eq!(Exit::worst([find(pair[1]), find(pair[0])]), find(pair[0]));
        }
        assert_eq!(Exit::worst([]), Exit::Ok);
        assert_eq!(Exit::worst([Exit::Ok, Exit::NotFound]), Exit::NotFound);
    }
}
