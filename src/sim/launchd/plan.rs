//! What a property list asks for.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use plist::{Dictionary, Value};

use crate::sim::owners;
use crate::sim::program::inside;
use crate::sim::store::Node;

/// When a job is started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeepAlive {
    /// Never.
    No,
    /// Always.
    Yes,
    /// `SuccessfulExit`: only after success (`true`) or only after failure (`false`).
    OnSuccess(bool),
}

/// A job as its property list describes it.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) label: String,
    pub(super) path: PathBuf,
    /// Program and arguments.
    pub(super) argv: Vec<String>,
    /// The program itself.
    pub(super) program: String,
    pub(super) env: BTreeMap<String, String>,
    pub(super) folder: Option<String>,
    pub(super) stdout: Option<String>,
    pub(super) stderr: Option<String>,
    pub(super) keep_alive: KeepAlive,
    pub(super) run_at_load: bool,
    pub(super) interval: Option<Duration>,
    pub(super) exit_timeout: Duration,
    pub(super) throttle: Duration,
    pub(super) user: Option<String>,
    pub(super) group: Option<String>,
    pub(super) uid: u32,
}

/// Why a property list is not loaded. The texts hide the reason, as launchd does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// Missing, malformed, wrong owner or mode, no label or program.
    Unusable,
    /// `launchctl disable` was said before.
    Disabled,
}

impl Refused {
    pub(super) fn status(self) -> i32 {
        match self {
            Refused::Unusable => 5,
            Refused::Disabled => 119,
        }
    }

    pub(super) fn text(self) -> String {
        match self {
            Refused::Unusable => "Bootstrap failed: 5: Input/output error".to_owned(),
            Refused::Disabled => "Bootstrap failed: 119: Service is disabled".to_owned(),
        }
    }
}

/// Reads and judges a property list.
pub(super) fn read(node: &Node, path: &Path) -> Result<Plan, Refused> {
    let place = inside(node, path).ok_or(Refused::Unusable)?;
    let meta = std::fs::metadata(&place).map_err(|_| Refused::Unusable)?;
    let state = node.load().map_err(|_| Refused::Unusable)?;
    let owner = owners::owner(&state, &owners::key(node, &place));
    // Anybody else's file, or one that others may change, is not loaded as root's.
    if owner.0 != 0 || meta.mode() & 0o022 != 0 {
        return Err(Refused::Unusable);
    }
    let value = Value::from_file(&place).map_err(|_| Refused::Unusable)?;
    let dictionary = value.as_dictionary().ok_or(Refused::Unusable)?;
    let plan = plan(dictionary, place).ok_or(Refused::Unusable)?;
    if state.disabled_jobs.get(&plan.label) == Some(&true) {
        return Err(Refused::Disabled);
    }
    let uid = match &plan.user {
        Some(user) => owners::user_id(&state, user).ok_or(Refused::Unusable)?,
        None => 0,
    };
    Ok(Plan { uid, ..plan })
}

fn plan(d: &Dictionary, path: PathBuf) -> Option<Plan> {
    let text = |key: &str| d.get(key).and_then(Value::as_string).map(str::to_owned);
    let number = |key: &str| d.get(key).and_then(Value::as_unsigned_integer);
    let argv: Vec<String> = match d.get("ProgramArguments") {
        Some(list) => list.as_array()?.iter().map(|v| v.as_string().map(str::to_owned)).collect::<Option<_>>()?,
        None => vec![text("Program")?],
    };
    let program = text("Program").or_else(|| argv.first().cloned())?;
    let keep_alive = match d.get("KeepAlive") {
        None => KeepAlive::No,
        Some(Value::Boolean(yes)) => {
            if *yes {
                KeepAlive::Yes
            } else {
                KeepAlive::No
            }
        }
        Some(value) => match value.as_dictionary()?.get("SuccessfulExit").and_then(Value::as_boolean) {
            Some(success) => KeepAlive::OnSuccess(success),
            // Other conditions (paths, network) are taken for fulfilled.
            None => KeepAlive::Yes,
        },
    };
    let env = match d.get("EnvironmentVariables") {
        Some(value) => {
            let pair = |(k, v): (&String, &Value)| Some((k.clone(), v.as_string()?.to_owned()));
            value.as_dictionary()?.iter().map(pair).collect::<Option<_>>()?
        }
        None => BTreeMap::new(),
    };
    Some(Plan {
        label: text("Label")?,
        path,
        program,
        argv,
        env,
        folder: text("WorkingDirectory"),
        stdout: text("StandardOutPath"),
        stderr: text("StandardErrorPath"),
        keep_alive,
        run_at_load: d.get("RunAtLoad").and_then(Value::as_boolean).unwrap_or(false),
        interval: number("StartInterval").map(Duration::from_secs),
        exit_timeout: Duration::from_secs(number("ExitTimeOut").unwrap_or(5)),
        throttle: Duration::from_secs(number("ThrottleInterval").unwrap_or(10)),
        user: text("UserName"),
        group: text("GroupName"),
        uid: 0,
    })
}
