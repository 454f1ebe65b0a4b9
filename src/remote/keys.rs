//! Private key files and the passphrases that unlock them: each file is read once and each passphrase asked for once
//! per run, however many nodes want the key.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use russh::keys::{PrivateKey, PublicKey, decode_secret_key, load_public_key};
use tokio::sync::Mutex;

use super::prompt::{Asker, Limit};

/// How often a passphrase may be mistyped.
const TRIES: usize = 3;

/// What a key file holds.
#[derive(Clone)]
pub(crate) enum KeyFile {
    /// A private key, ready.
    Ready(Arc<PrivateKey>),
    /// An encrypted private key; its public half, when it can be known without the passphrase.
    Locked(Option<Box<PublicKey>>),
    /// Only a public key: names a key of the agent.
    Public(Box<PublicKey>),
    /// No such file.
    Missing,
    /// Not usable, and why.
    Broken(String),
}

impl KeyFile {
    /// The public half, when known.
    pub(crate) fn public(&self) -> Option<&PublicKey> {
        match self {
            KeyFile::Ready(key) => Some(key.public_key()),
            KeyFile::Locked(public) => public.as_deref(),
            KeyFile::Public(key) => Some(key),
            KeyFile::Missing | KeyFile::Broken(_) => None,
        }
    }
}

/// All key files of one run.
#[derive(Clone)]
pub(crate) struct KeyRing {
    asker: Asker,
    unlocked: Arc<Mutex<HashMap<PathBuf, Unlocking>>>,
}

/// The key, or why it stays locked; one per file, so that nodes wait for each other's question.
type Unlocking = Arc<Mutex<Option<Result<Arc<PrivateKey>, String>>>>;

impl KeyRing {
    pub(crate) fn new(asker: Asker) -> Self {
        KeyRing { asker, unlocked: Arc::default() }
    }

    /// Looks at a key file without asking anything.
    pub(crate) fn look(path: &Path) -> KeyFile {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return KeyFile::Missing,
            Err(e) => return KeyFile::Broken(e.to_string()),
        };
        if !text.contains("PRIVATE KEY") {
            return match load_public_key(path) {
                Ok(key) => KeyFile::Public(Box::new(key)),
                Err(_) => KeyFile::Broken("it is no key file".to_owned()),
            };
        }
        // The OpenSSH format carries its public half in clear text.
        if let Some(key) = PrivateKey::from_openssh(&text).ok().filter(PrivateKey::is_encrypted) {
            return KeyFile::Locked(Some(Box::new(key.public_key().clone())));
        }
        match decode_secret_key(&text, None) {
            Ok(key) => KeyFile::Ready(Arc::new(key)),
            Err(_) if text.contains("ENCRYPTED") => {
                let mut beside = path.as_os_str().to_owned();
                beside.push(".pub");
                KeyFile::Locked(load_public_key(PathBuf::from(beside)).ok().map(Box::new))
            }
            Err(e) => KeyFile::Broken(e.to_string()),
        }
    }

    /// Unlocks an encrypted key, asking for its passphrase at most once per run (and three times when mistyped).
    pub(crate) async fn unlock(&self, path: &Path, limit: &Limit) -> Result<Arc<PrivateKey>, String> {
        let slot = Arc::clone(self.unlocked.lock().await.entry(path.to_owned()).or_default());
        limit
            .paused(async {
                let mut slot = slot.lock().await;
                if let Some(known) = slot.as_ref() {
                    return known.clone();
                }
                let result = self.ask(path).await;
                *slot = Some(result.clone());
                result
            })
            .await
    }

    async fn ask(&self, path: &Path) -> Result<Arc<PrivateKey>, String> {
        let text = std::fs::read_to_string(path).map_err(|e| e.to_string())?;
        let mut question = format!("Passphrase of {}: ", path.display());
        for _ in 0..TRIES {
            let Some(passphrase) = self.asker.secret(question).await else {
                return Err("it is encrypted and nobody gave its passphrase (no terminal, or no answer)".to_owned());
            };
            let text = text.clone();
            // The key derivation is slow on purpose.
            let opened = tokio::task::spawn_blocking(move || decode_secret_key(&text, Some(&passphrase))).await;
            if let Ok(Ok(key)) = opened {
                return Ok(Arc::new(key));
            }
            question = format!("That did not open it. Passphrase of {}: ", path.display());
        }
        Err("it is encrypted and the passphrase was wrong three times".to_owned())
    }
}
