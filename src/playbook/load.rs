//! Loading: the built-in playbooks, or files of `--playbooks DIR` in their place, file by file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use serde_yaml::{Location, Spanned};
use sha2::{Digest, Sha256};

use super::expand::{Vars, Word, argv};
use super::schema::{RawAccess, RawPlaybook, RawStep, Words};
use super::scope::{ForEach, PATHS};
use super::{By, PlaybookError};
use crate::model::Cmd;
use crate::model::command::DEFAULT_TIMEOUT;

/// The playbooks inside the binary. A test compares this list with the folder.
const BUILT_IN: &[(&str, &str)] = &[
    ("deploy", include_str!("../../playbooks/deploy.yaml")),
    ("network", include_str!("../../playbooks/network.yaml")),
    ("recovery", include_str!("../../playbooks/recovery.yaml")),
];

/// A step's `id`, a playbook's name: they stand in plans and JSON.
fn is_id(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

/// All playbooks of this run.
#[derive(Clone, Debug)]
pub struct Playbooks {
    books: BTreeMap<String, Playbook>,
}

/// One file.
#[derive(Clone, Debug)]
pub struct Playbook {
    /// Its name: the file name without `.yaml`.
    pub name: String,
    /// What it is for.
    pub title: String,
    /// The file as the reader knows it.
    pub file: String,
    /// SHA-256 of the file, hexadecimal.
    pub sha256: String,
    /// In the order they are done.
    pub steps: Vec<Step>,
}

/// One step.
#[derive(Clone, Debug)]
pub struct Step {
    /// Unique in its playbook.
    pub id: String,
    /// For people.
    pub title: String,
    /// Who does it.
    pub by: By,
    /// What it is done for.
    pub for_each: ForEach,
    /// What can go wrong, for people; empty for steps that only read or talk.
    pub risk: String,
    /// Id of the check that proves it.
    pub verify: Option<String>,
    file: String,
    sudo: bool,
    access: RawAccess,
    timeout: Duration,
    run: Vec<Vec<Word>>,
    undo: Vec<Vec<Word>>,
    say: Vec<Word>,
}

impl Playbooks {
    /// The built-in playbooks, replaced file by file by the `*.yaml` of `dir`.
    ///
    /// # Errors
    /// With file, line and column: a file that cannot be read or is no playbook, an unknown name, a step missing
    /// that macluster needs.
    pub fn load(dir: Option<&Path>) -> Result<Self, PlaybookError> {
        let mut books = BTreeMap::new();
        for (name, text) in BUILT_IN {
            books.insert((*name).to_owned(), Playbook::read(name, text, &format!("playbooks/{name}.yaml"))?);
        }
        if let Some(dir) = dir {
            for (name, path) in files(dir)? {
                let file = path.display().to_string();
                let text = std::fs::read_to_string(&path)
                    .map_err(|e| PlaybookError::new(&file, None, format!("cannot be read: {e}")))?;
                let Some(built_in) = books.get(&name) else {
                    let known = books.keys().map(|k| format!("{k}.yaml")).collect::<Vec<_>>().join(", ");
                    return Err(PlaybookError::new(&file, None, format!("replaces no playbook; there are {known}")));
                };
                let book = Playbook::read(&name, &text, &file)?;
                book.replaces(built_in)?;
                books.insert(name, book);
            }
        }
        Ok(Playbooks { books })
    }

    /// The playbook of that name.
    ///
    /// # Errors
    /// Names the playbooks there are.
    pub fn book(&self, name: &str) -> Result<&Playbook, PlaybookError> {
        self.books.get(name).ok_or_else(|| {
            let known = self.books.keys().cloned().collect::<Vec<_>>().join(", ");
            PlaybookError::new(name, None, format!("no playbook of this name; there are {known}"))
        })
    }

    /// All of them, by name.
    pub fn all(&self) -> impl Iterator<Item = &Playbook> {
        self.books.values()
    }
}

/// `*.yaml` of a folder, by name. Other files are left alone; a folder without any is a mistake worth telling.
fn files(dir: &Path) -> Result<Vec<(String, std::path::PathBuf)>, PlaybookError> {
    let shown = dir.display().to_string();
    let entries =
        std::fs::read_dir(dir).map_err(|e| PlaybookError::new(&shown, None, format!("cannot be read: {e}")))?;
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|e| PlaybookError::new(&shown, None, format!("cannot be read: {e}")))?;
        let path = entry.path();
        if let (Some("yaml"), Some(stem)) = (path.extension().and_then(|e| e.to_str()), path.file_stem()) {
            found.push((stem.to_string_lossy().into_owned(), path));
        }
    }
    if found.is_empty() {
        return Err(PlaybookError::new(&shown, None, "holds no *.yaml file"));
    }
    found.sort();
    Ok(found)
}

impl Playbook {
    /// Reads and validates one file.
    ///
    /// # Errors
    /// The first thing that is wrong, with line and column.
    pub fn read(name: &str, text: &str, file: &str) -> Result<Self, PlaybookError> {
        let raw: RawPlaybook = serde_yaml::from_str(text).map_err(|e| {
            let at = e.location().map(|l| (l.line(), l.column()));
            PlaybookError::new(file, at, yaml_message(&e))
        })?;
        if raw.playbook.value != name {
            let why = format!("`playbook: {}` must be the file's own name, `{name}`", raw.playbook.value);
            return Err(PlaybookError::new(file, place(&raw.playbook), why));
        }
        let mut seen = BTreeSet::new();
        let mut steps = Vec::new();
        for step in raw.steps {
            if !seen.insert(step.id.value.clone()) {
                let why = format!("a second step `{}`: ids are unique", step.id.value);
                return Err(PlaybookError::new(file, place(&step.id), why));
            }
            steps.push(Step::read(step, file)?);
        }
        Ok(Playbook {
            name: name.to_owned(),
            title: raw.title,
            file: file.to_owned(),
            sha256: hex::encode(Sha256::digest(text.as_bytes())),
            steps,
        })
    }

    /// The step of that id.
    ///
    /// # Errors
    /// When the playbook has none; a loaded playbook has every step of the built-in one.
    pub fn step(&self, id: &str) -> Result<&Step, PlaybookError> {
        let found = self.steps.iter().find(|s| s.id == id);
        found.ok_or_else(|| PlaybookError::new(&self.file, None, format!("has no step `{id}`")))
    }

    /// A replacement may add steps and change commands, but what code asks for by id must be there.
    fn replaces(&self, built_in: &Playbook) -> Result<(), PlaybookError> {
        for needed in &built_in.steps {
            let step = self
                .step(&needed.id)
                .map_err(|e| PlaybookError::new(&self.file, None, format!("{}, which macluster needs", e.message)))?;
            if step.for_each != needed.for_each || step.by != needed.by {
                let why = format!("step `{}`: `by` and `for_each` must stay as in {}", step.id, built_in.file);
                return Err(PlaybookError::new(&self.file, None, why));
            }
        }
        Ok(())
    }
}

impl Step {
    /// Its commands with these values.
    ///
    /// # Errors
    /// A placeholder without a value, or a value that cannot be an argument.
    pub fn commands(&self, vars: &Vars) -> Result<Vec<Cmd>, PlaybookError> {
        self.expand(&self.run, vars)
    }

    /// The commands that take it back; empty when there are none.
    ///
    /// # Errors
    /// As [`Step::commands`].
    pub fn undo(&self, vars: &Vars) -> Result<Vec<Cmd>, PlaybookError> {
        self.expand(&self.undo, vars)
    }

    /// What the person is told, one line each.
    ///
    /// # Errors
    /// A placeholder without a value.
    pub fn words(&self, vars: &Vars) -> Result<Vec<String>, PlaybookError> {
        let text = |w: &Word| w.text(vars);
        let lines: Result<_, _> = self.say.iter().map(text).collect();
        lines.map_err(|why| PlaybookError::new(&self.file, None, format!("step `{}`: {why}", self.id)))
    }

    fn expand(&self, lines: &[Vec<Word>], vars: &Vars) -> Result<Vec<Cmd>, PlaybookError> {
        let mut commands = Vec::new();
        for line in lines {
            let mut words = argv(&self.file, &self.id, line, vars)?.into_iter();
            let program = words.next().unwrap_or_default();
            let cmd = match self.access {
                RawAccess::Read => Cmd::read(&program, words),
                RawAccess::Write => Cmd::write(&program, words),
            };
            commands.push(cmd.sudo(self.sudo).timeout(self.timeout));
        }
        Ok(commands)
    }

    fn read(raw: RawStep, file: &str) -> Result<Self, PlaybookError> {
        let id = raw.id.value.clone();
        let fail = |at, why: String| PlaybookError::new(file, at, format!("step `{id}`: {why}"));
        let here = place(&raw.id);
        if !is_id(&id) {
            return Err(fail(here, "an id is made of a-z, 0-9 and `-`".to_owned()));
        }
        match raw.by {
            By::Macluster if raw.run.is_empty() || !raw.say.is_empty() => {
                return Err(fail(here, "`by: macluster` needs `run`, and no `say`".to_owned()));
            }
            By::Technician if raw.say.is_empty() || !raw.run.is_empty() || !raw.undo.is_empty() || raw.sudo => {
                return Err(fail(here, "`by: technician` needs `say`, and no `run`, `undo` or `sudo`".to_owned()));
            }
            By::Macluster if raw.access == RawAccess::Write && raw.risk.as_deref().unwrap_or("").is_empty() => {
                return Err(fail(here, "a step that changes a node needs `risk`".to_owned()));
            }
            _ => {}
        }
        if let Some(check) = raw.verify.as_ref().filter(|c| !known_check(&c.value)) {
            return Err(fail(place(check), format!("`verify: {}` is no check", check.value)));
        }
        let commands = |lines: &[Words]| lines.iter().map(|l| program(l, raw.for_each)).collect::<Result<Vec<_>, _>>();
        let run = commands(&raw.run).map_err(|(at, why)| fail(at.or(here), why))?;
        let undo = commands(&raw.undo).map_err(|(at, why)| fail(at.or(here), why))?;
        let say = words(&raw.say, raw.for_each).map_err(|(at, why)| fail(at.or(here), why))?;
        Ok(Step {
            title: raw.title,
            by: raw.by,
            for_each: raw.for_each,
            risk: raw.risk.unwrap_or_default().trim().to_owned(),
            verify: raw.verify.map(|v| v.value),
            file: file.to_owned(),
            sudo: raw.sudo,
            access: raw.access,
            timeout: raw.timeout.map_or(DEFAULT_TIMEOUT, |s| Duration::from_secs(s.into())),
            run,
            undo,
            say,
            id: raw.id.value,
        })
    }
}

/// Whether `verify` may name it.
fn known_check(id: &str) -> bool {
    crate::check::registry().iter().any(|check| check.id() == id)
}

type Misplaced = (Option<(u64, u64)>, String);

/// Words whose placeholders are all known for this kind of step.
fn words(raw: &Words, for_each: ForEach) -> Result<Vec<Word>, Misplaced> {
    let mut parsed = Vec::new();
    for word in raw {
        let read = Word::parse(&word.value).map_err(|why| (place(word), why))?;
        if let Some(unknown) = read.holes().find(|h| !for_each.placeholders().contains(h)) {
            let known = for_each.placeholders().iter().map(|p| format!("{{{p}}}")).collect::<Vec<_>>().join(", ");
            return Err((place(word), format!("unknown placeholder {{{unknown}}}; this step may use {known}")));
        }
        parsed.push(read);
    }
    Ok(parsed)
}

/// An argv: its program is an absolute path, so that no `PATH` and no shell decide what runs as root.
fn program(raw: &Words, for_each: ForEach) -> Result<Vec<Word>, Misplaced> {
    let parsed = words(raw, for_each)?;
    let absolute = match parsed.first().map(Word::head) {
        Some(Ok(text)) => text.starts_with('/'),
        Some(Err(hole)) => PATHS.contains(&hole),
        None => return Err((None, "an empty command".to_owned())),
    };
    if absolute {
        Ok(parsed)
    } else {
        let shown = raw.first().map(|w| w.value.clone()).unwrap_or_default();
        Err((raw.first().and_then(place), format!("`{shown}` must be the absolute path of a program")))
    }
}

fn place<T>(spanned: &Spanned<T>) -> Option<(u64, u64)> {
    let at = spanned.referenced;
    (at != Location::UNKNOWN).then(|| (at.line(), at.column()))
}

/// The reader's message without its own idea of the place, which we print in front.
fn yaml_message(error: &serde_yaml::Error) -> String {
    let text = error.without_snippet().to_string();
    let cut = text.find(" at line ").unwrap_or(text.len());
    text.get(..cut).unwrap_or(&text).trim().to_owned()
}

#[cfg(test)]
mod tests;
