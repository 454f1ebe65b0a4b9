//! A model from the Hugging Face Hub, downloaded once, by the desk, with `curl`: it knows the desk's proxies and
//! certificates, and goes on where it broke off.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde::Deserialize;
use tokio::io::AsyncWriteExt;

use crate::event::{Event, Events};
use crate::exit::{Exit, Failure};
use crate::model::command::printable;
use crate::phase::bundle::manifest::sha256_file;

/// Unless `HF_ENDPOINT` says otherwise.
const ENDPOINT: &str = "https://huggingface.co";
/// What mlx-lm reads of a repository; pictures and other formats of the weights stay there.
const KINDS: &[&str] = &["json", "safetensors", "py", "model", "tiktoken", "txt", "jsonl", "jinja"];
/// Between two looks at a file that grows.
const LOOK: Duration = Duration::from_millis(500);
/// For a list of files, which is small.
const LIST_SECONDS: u32 = 60;
/// Left free on the desk's disk, bytes.
const SPARE: u64 = 1 << 30;

/// `owner/name`, as the Hub has it.
pub fn is_id(text: &str) -> bool {
    let part = |p: &str| {
        !p.is_empty() && !p.starts_with(['.', '-']) && p.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
    };
    text.split_once('/').is_some_and(|(owner, name)| part(owner) && part(name))
}

/// One entry of the list of files.
#[derive(Deserialize)]
struct Entry {
    #[serde(rename = "type")]
    kind: String,
    path: String,
    size: u64,
    lfs: Option<Lfs>,
}

/// Of large files the Hub knows the SHA-256.
#[derive(Deserialize)]
struct Lfs {
    oid: String,
}

#[derive(Deserialize)]
struct Revision {
    sha: String,
}

/// One model on the Hub.
pub struct Hub {
    endpoint: String,
    token: Option<String>,
    id: String,
    events: Events,
}

impl Hub {
    /// With the endpoint and token of the environment: `HF_ENDPOINT`, `HF_TOKEN`.
    pub fn new(id: &str, events: &Events) -> Self {
        let variable = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
        let endpoint = variable("HF_ENDPOINT").unwrap_or_else(|| ENDPOINT.to_owned());
        Hub {
            endpoint: endpoint.trim_end_matches('/').to_owned(),
            token: variable("HF_TOKEN"),
            id: id.to_owned(),
            events: events.clone(),
        }
    }

    /// Downloads what is not there yet into a folder of its own below `cache`, and gives it.
    ///
    /// # Errors
    /// Exit 10 when there is no such model, 9 when it cannot be had; with the next action.
    pub async fn fetch(&self, revision: &str, cache: &Path) -> Result<PathBuf, Failure> {
        // One commit for all files, whatever is pushed meanwhile.
        let about: Revision = self.ask(&format!("/api/models/{}/revision/{revision}", self.id)).await?;
        let entries: Vec<Entry> =
            self.ask(&format!("/api/models/{}/tree/{}?recursive=true", self.id, about.sha)).await?;
        let wanted = |e: &Entry| {
            let kind = e.path.rsplit_once('.').map(|(_, kind)| kind);
            e.kind == "file"
                && kind.is_some_and(|k| KINDS.contains(&k))
                && !e.path.split('/').any(|p| p.starts_with('.'))
        };
        let files: Vec<Entry> = entries.into_iter().filter(wanted).collect();
        if !files.iter().any(|e| e.path.ends_with(".safetensors")) {
            return Err(Failure::new(Exit::NotFound, format!("{} holds no safetensors weights", self.id))
                .hint("a model in mlx-lm's format has model*.safetensors and a config.json"));
        }
        let folder = cache.join("models").join(format!("{}@{}", self.id.replace('/', "--"), short(&about.sha)));
        std::fs::create_dir_all(&folder).map_err(|e| broken(format!("cannot make {}: {e}", folder.display())))?;
        let missing: Vec<&Entry> = files.iter().filter(|e| !there(&folder.join(&e.path), e)).collect();
        room(&folder, &missing)?;
        let total = missing.iter().map(|e| e.size).sum();
        let what = format!("downloading {}", self.id);
        self.events.emit(Event::TaskStarted { node: None, what: what.clone() });
        let mut done = 0;
        let mut result = Ok(());
        for entry in missing {
            result = self
                .file(&about.sha, entry, &folder, &mut |now| {
                    self.events.emit(Event::Progress { node: None, what: what.clone(), done: done + now, total });
                })
                .await;
            if result.is_err() {
                break;
            }
            done += entry.size;
        }
        let error = result.as_ref().err().map(|e| e.message.clone());
        self.events.emit(Event::TaskDone { node: None, what, error });
        result.map(|()| folder)
    }

    async fn ask<T: serde::de::DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        let options = format!("max-time = {LIST_SECONDS}\nwrite-out = \"\\n%{{http_code}}\"\n");
        let text = self.curl(path, &options, &mut || ()).await?;
        let (body, _) = text.rsplit_once('\n').unwrap_or((&text, ""));
        serde_json::from_str(body)
            .map_err(|e| broken(format!("{}{path}: not what the Hub answers: {e}", self.endpoint)))
    }

    async fn file(
        &self,
        sha: &str,
        entry: &Entry,
        folder: &Path,
        tell: &mut (dyn FnMut(u64) + Send),
    ) -> Result<(), Failure> {
        let target = folder.join(&entry.path);
        let part = folder.join(format!("{}.part", entry.path));
        let wrong = |e: std::io::Error| broken(format!("cannot write {}: {e}", target.display()));
        if let Some(parent) = target.parent() {
            std::fs::create_dir_all(parent).map_err(wrong)?;
        }
        let size = || std::fs::metadata(&part).map_or(0, |m| m.len());
        if size() > entry.size {
            std::fs::remove_file(&part).map_err(wrong)?;
        }
        if size() < entry.size || entry.size == 0 {
            let output = part.to_str().ok_or_else(|| broken(format!("{} is no Unicode", part.display())))?;
            // Slower than this for a minute is a connection that is gone.
            let options = format!(
                "output = {}\ncontinue-at = -\nretry = 5\nspeed-limit = 1000\nspeed-time = 60\nwrite-out = \"\\n%{{http_code}}\"\n",
                quoted(output)
            );
            self.curl(&format!("/{}/resolve/{sha}/{}", self.id, entry.path), &options, &mut || tell(size())).await?;
        }
        let sum = sha256_file(&part, &mut |_| {}).map_err(wrong)?;
        if size() != entry.size || entry.lfs.as_ref().is_some_and(|lfs| lfs.oid != sum) {
            // Going on from broken bytes would never end well.
            let _ = std::fs::remove_file(&part);
            return Err(broken(format!("{} of {} did not arrive whole", entry.path, self.id))
                .hint("run it again: files that are whole are not downloaded again"));
        }
        std::fs::rename(&part, &target).map_err(wrong)
    }

    /// Runs curl. Address and token go by standard input: nobody sees them among the processes.
    async fn curl(&self, path: &str, options: &str, look: &mut (dyn FnMut() + Send)) -> Result<String, Failure> {
        let mut config = String::from("silent\nshow-error\nfail\nlocation\nconnect-timeout = 20\n");
        let _ = writeln!(config, "url = {}", quoted(&format!("{}{path}", self.endpoint)));
        if let Some(token) = &self.token {
            let _ = writeln!(config, "header = {}", quoted(&format!("Authorization: Bearer {token}")));
        }
        config.push_str(options);
        let mut child = tokio::process::Command::new("curl")
            .args(["--config", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|e| {
                broken(format!("cannot start curl: {e}")).hint("curl downloads models: install it at this desk")
            })?;
        if let Some(mut stdin) = child.stdin.take() {
            // curl that ends early says why itself.
            let _ = stdin.write_all(config.as_bytes()).await;
        }
        let ended = child.wait_with_output();
        tokio::pin!(ended);
        let output = loop {
            tokio::select! {
                output = &mut ended => break output,
                () = tokio::time::sleep(LOOK) => look(),
            }
        };
        let output = output.map_err(|e| broken(format!("curl: {e}")))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            return Ok(text);
        }
        let said = printable(String::from_utf8_lossy(&output.stderr).trim());
        Err(self.refused(text.rsplit('\n').next().unwrap_or_default(), &said))
    }

    fn refused(&self, status: &str, said: &str) -> Failure {
        match status {
            "404" => Failure::new(Exit::NotFound, format!("{} has no model {}", self.endpoint, self.id))
                .hint("the name is OWNER/NAME, as on its page; a private one needs HF_TOKEN"),
            "401" | "403" => broken(format!("{} is not given to anybody: HTTP {status}", self.id))
                .hint("accept its terms on its page, and set HF_TOKEN to a token that may read it"),
            _ => broken(format!("cannot download {}: {said}", self.id))
                .hint("run it again: it goes on where it broke off"),
        }
    }
}

fn broken(message: String) -> Failure {
    Failure::new(Exit::DeployFailed, message)
}

fn short(sha: &str) -> &str {
    sha.get(..12).unwrap_or(sha)
}

/// A value in a configuration file of curl.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace(['\n', '\r'], ""))
}

/// Whether a file has been downloaded: renamed only when it was whole.
fn there(path: &Path, entry: &Entry) -> bool {
    std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.len() == entry.size)
}

fn room(folder: &Path, missing: &[&Entry]) -> Result<(), Failure> {
    let begun = |e: &&Entry| std::fs::metadata(folder.join(format!("{}.part", e.path))).map_or(0, |m| m.len());
    let needed: u64 = missing.iter().map(|e| e.size.saturating_sub(begun(e))).sum();
    let Ok(disk) = rustix::fs::statvfs(folder) else { return Ok(()) };
    let free = disk.f_bavail * disk.f_frsize;
    if needed > 0 && free < needed + SPARE {
        return Err(broken(format!(
            "the disk of this desk has {} MiB left in {}, {} MiB are needed",
            free >> 20,
            folder.display(),
            (needed + SPARE) >> 20
        ))
        .hint("MACLUSTER_CACHE names another folder"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_models_are_known_from_paths() {
        for good in ["mlx-community/DeepSeek-V3.1-4bit", "a/b", "Qwen/Qwen2.5-72B"] {
            assert!(is_id(good), "{good}");
        }
        for bad in ["model", "/models/x", "a/b/c", "../x", "a/..", "a/", "/b", "a b/c", "./model", "~/m"] {
            assert!(!is_id(bad), "{bad}");
        }
    }

    #[test]
    fn a_value_cannot_end_its_line() {
        assert_eq!(quoted("a\"b\\c\nurl = x"), r#""a\"b\\curl = x""#);
    }
}
