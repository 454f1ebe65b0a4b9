//! A playbook as it stands in YAML. Strict: an unknown key is an error.

use serde::Deserialize;
use serde_yaml::Spanned;

use super::ForEach;

/// Who does a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// The tool, over SSH.
    Macluster,
    /// A person at the machine.
    Technician,
}

/// Whether the commands of a step can change the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RawAccess {
    Read,
    #[default]
    Write,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawPlaybook {
    pub(super) playbook: Spanned<String>,
    pub(super) title: String,
    pub(super) steps: Vec<RawStep>,
}

pub(super) type Words = Vec<Spanned<String>>;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawStep {
    pub(super) id: Spanned<String>,
    pub(super) title: String,
    pub(super) by: By,
    pub(super) for_each: ForEach,
    #[serde(default)]
    pub(super) run: Vec<Words>,
    #[serde(default)]
    pub(super) say: Words,
    #[serde(default)]
    pub(super) sudo: bool,
    #[serde(default)]
    pub(super) access: RawAccess,
    /// Seconds one command may take.
    #[serde(default)]
    pub(super) timeout: Option<u32>,
    #[serde(default)]
    pub(super) risk: Option<String>,
    #[serde(default)]
    pub(super) undo: Vec<Words>,
    #[serde(default)]
    pub(super) verify: Option<Spanned<String>>,
}
