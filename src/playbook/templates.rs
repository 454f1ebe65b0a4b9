//! Templates of the texts macluster writes: built in, or files of `--templates DIR` in their place.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use minijinja::{Environment, UndefinedBehavior};
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::exit::{Exit, Failure};

/// The templates inside the binary. A test compares this list with the folder.
const BUILT_IN: &[(&str, &str)] = &[
    ("checklist.html", include_str!("../../templates/checklist.html")),
    ("checklist.md", include_str!("../../templates/checklist.md")),
    ("checklist.txt", include_str!("../../templates/checklist.txt")),
    ("links.sh", include_str!("../../templates/links.sh")),
    ("restore.sh", include_str!("../../templates/restore.sh")),
];

/// A text that is laid on a node and run there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// The text.
    pub text: String,
    /// Its SHA-256, hexadecimal.
    pub sha256: String,
}

/// The scripts of the link networks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scripts {
    /// Keeps the links.
    pub links: Script,
    /// Takes a change back.
    pub restore: Script,
}

/// All templates of this run. Values put into a `*.html` template are escaped.
#[derive(Debug)]
pub struct Templates {
    environment: Environment<'static>,
    /// SHA-256 of each, hexadecimal, by name.
    pub sha256: BTreeMap<String, String>,
}

/// A template that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateError {
    /// The file as the reader knows it.
    pub file: String,
    /// Line, counted from 1.
    pub line: Option<usize>,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file, self.message),
            None => write!(f, "{}: {}", self.file, self.message),
        }
    }
}

impl std::error::Error for TemplateError {}

impl From<TemplateError> for Failure {
    fn from(e: TemplateError) -> Self {
        Failure::new(Exit::Inventory, e.to_string())
    }
}

impl Templates {
    /// The built-in templates, replaced file by file by those of `dir`.
    ///
    /// # Errors
    /// A file that cannot be read, is no template, or replaces none.
    pub fn load(dir: Option<&Path>) -> Result<Self, TemplateError> {
        let mut environment = Environment::new();
        // A name that is misspelt must not become an empty place in a text somebody works from.
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        let mut loaded = Templates { environment, sha256: BTreeMap::new() };
        for (name, text) in BUILT_IN {
            loaded.add(name, (*text).to_owned(), &format!("templates/{name}"))?;
        }
        if let Some(dir) = dir {
            loaded.replace(dir)?;
        }
        Ok(loaded)
    }

    fn replace(&mut self, dir: &Path) -> Result<(), TemplateError> {
        let fail =
            |path: &Path, message: String| TemplateError { file: path.display().to_string(), line: None, message };
        let entries = std::fs::read_dir(dir).map_err(|e| fail(dir, format!("cannot be read: {e}")))?;
        let mut paths: Vec<_> = entries.filter_map(|e| e.ok().map(|e| e.path())).filter(|p| p.is_file()).collect();
        paths.sort();
        for path in paths {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if !BUILT_IN.iter().any(|(known, _)| *known == name) {
                let known = BUILT_IN.iter().map(|(known, _)| *known).collect::<Vec<_>>().join(", ");
                return Err(fail(&path, format!("replaces no template; there are {known}")));
            }
            let text = std::fs::read_to_string(&path).map_err(|e| fail(&path, format!("cannot be read: {e}")))?;
            self.add(&name, text, &path.display().to_string())?;
        }
        Ok(())
    }

    fn add(&mut self, name: &str, text: String, file: &str) -> Result<(), TemplateError> {
        self.sha256.insert(name.to_owned(), hex::encode(Sha256::digest(text.as_bytes())));
        self.environment.add_template_owned(name.to_owned(), text).map_err(|e| error(file, &e))
    }

    /// The scripts of the link networks. They take what they need as arguments: nothing is filled in.
    ///
    /// # Errors
    /// A replacement that is no template.
    pub fn scripts(&self) -> Result<Scripts, TemplateError> {
        let script = |name: &str| {
            let text = format!("{}\n", self.render(name, ())?.trim_end());
            let sha256 = hex::encode(Sha256::digest(text.as_bytes()));
            Ok(Script { text, sha256 })
        };
        Ok(Scripts { links: script("links.sh")?, restore: script("restore.sh")? })
    }

    /// Fills a template.
    ///
    /// # Errors
    /// A name in it that `context` does not have.
    pub fn render<C: Serialize>(&self, name: &str, context: C) -> Result<String, TemplateError> {
        let template = self.environment.get_template(name).map_err(|e| error(name, &e))?;
        template.render(minijinja::value::Serde(&context)).map_err(|e| error(name, &e))
    }
}

fn error(file: &str, e: &minijinja::Error) -> TemplateError {
    let message = match e.detail() {
        Some(detail) => format!("{}: {detail}", e.kind()),
        None => e.kind().to_string(),
    };
    TemplateError { file: file.to_owned(), line: e.line(), message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_templates_are_the_files_of_the_folder() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("templates");
        let mut there: Vec<_> = std::fs::read_dir(dir)
            .expect("readable")
            .map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        there.sort();
        assert_eq!(there, BUILT_IN.iter().map(|(name, _)| (*name).to_owned()).collect::<Vec<_>>());
    }

    #[test]
    fn a_wrong_template_is_named_with_its_line() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("checklist.md");
        let load = || Templates::load(Some(dir.path()));
        std::fs::write(&path, "a\n{% if %}\n").expect("written");
        let message = load().expect_err("refused").to_string();
        assert!(message.starts_with(&format!("{}:2: ", path.display())), "{message}");
        std::fs::write(&path, "{{ nothing }}").expect("written");
        assert!(load().expect("loads").render("checklist.md", ()).expect_err("strict").message.contains("undefined"));
        std::fs::write(dir.path().join("x.md"), "").expect("written");
        assert!(load().expect_err("refused").message.contains("replaces no template; there are checklist.html"));
    }

    #[test]
    fn html_is_escaped_and_text_is_not() {
        let dir = tempfile::tempdir().expect("a folder");
        for name in ["checklist.html", "checklist.txt"] {
            std::fs::write(dir.path().join(name), "{{ x }}").expect("written");
        }
        let templates = Templates::load(Some(dir.path())).expect("loads");
        let render = |name| templates.render(name, BTreeMap::from([("x", "<b>")])).expect("renders");
        assert_eq!((render("checklist.html").as_str(), render("checklist.txt").as_str()), ("&lt;b&gt;", "<b>"));
    }
}
