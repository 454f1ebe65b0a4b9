//! Logging in with keys: named key files, keys of the agent, default key files.

mod agent;
mod report;

use std::path::PathBuf;

use russh::client::{AuthResult, Handle};
use russh::keys::agent::AgentIdentity;
use russh::keys::agent::client::AgentClient;
use russh::keys::{HashAlg, PrivateKeyWithHashAlg, PublicKey};
use tokio::net::UnixStream;

use self::agent::{Agent, Patient};
use self::report::{Report, closed, refused};
use super::session::Client;
use crate::remote::ConnectError;
use crate::remote::keys::{KeyFile, KeyRing};
use crate::remote::prompt::Limit;
use crate::remote::target::Target;

/// One key to try.
enum Candidate {
    /// A key of the agent, and the file that holds it, too: an agent may decline to sign.
    Agent(Box<AgentIdentity>, Option<File>),
    File(File),
}

/// A key file and what is in it.
struct File {
    path: PathBuf,
    content: KeyFile,
}

/// Logs in, or says what was tried and what the server wants.
pub(super) async fn login(
    handle: &mut Handle<Client>,
    target: &Target,
    keys: &KeyRing,
    limit: &Limit,
) -> Result<(), ConnectError> {
    let mut report = Report::default();
    let agent = Agent::open(target, handle, &mut report).await;
    let candidates = candidates(target, &agent, &mut report);
    let mut login =
        Login { handle, user: &target.user, agent: agent.client, keys, limit, rsa: RsaHash::default(), report };
    for candidate in candidates {
        match login.attempt(candidate).await {
            Ok(Some(AuthResult::Success)) => return Ok(()),
            Ok(Some(failure)) => login.report.failed(&failure),
            Ok(None) => {}
            Err(e) => login.report.remarks.push(e.0),
        }
        if login.handle.is_closed() {
            return Err(closed(target, &login.report));
        }
    }
    let Login { handle, mut report, .. } = login;
    if report.tried.is_empty() {
        // Nothing to offer: learn at least what the server would take (and some need nothing).
        match handle.authenticate_none(&target.user).await {
            Ok(AuthResult::Success) => return Ok(()),
            Ok(failure) if !handle.is_closed() => report.failed(&failure),
            _ => return Err(closed(target, &report)),
        }
    }
    Err(refused(target, &report))
}

/// Named keys first (through the agent when it holds them), then the agent's others, then default files.
fn candidates(target: &Target, agent: &Agent, report: &mut Report) -> Vec<Candidate> {
    let mut first = Vec::new();
    let mut defaults = Vec::new();
    let mut used = Vec::new();
    for identity in &target.identities {
        let file = File { path: identity.path.clone(), content: KeyRing::look(&identity.path) };
        let path = file.path.display();
        let held = file.content.public().and_then(|public| agent.find(public));
        match (&file.content, held) {
            (content, Some(held)) => {
                used.push(held.public_key().key_data().clone());
                let private = matches!(content, KeyFile::Ready(_) | KeyFile::Locked(_));
                first.push(Candidate::Agent(Box::new(held.clone()), Some(file).filter(|_| private)));
            }
            (KeyFile::Missing, None) if identity.named => {
                let action = format!(
                    "put the key at {path}, or name the right one (`ssh.identity` in the inventory, IdentityFile in \
                     ssh_config)"
                );
                report.unusable(identity, format!("{path} does not exist"), action);
            }
            (KeyFile::Missing, None) => {}
            (KeyFile::Public(_), None) => {
                let action = format!("give the private key that belongs to {path} to the agent with `ssh-add`");
                report.unusable(identity, format!("{path}: the agent does not hold this key"), action);
            }
            (KeyFile::Broken(why), None) => {
                let action = format!("make {path} a private key that you may read, or name another one");
                report.unusable(identity, format!("{path} cannot be used: {why}"), action);
            }
            (KeyFile::Ready(_) | KeyFile::Locked(_), None) => {
                let list = if identity.named { &mut first } else { &mut defaults };
                list.push(Candidate::File(file));
            }
        }
    }
    if !target.identities_only {
        let others = agent.identities.iter().filter(|i| !used.contains(i.public_key().key_data()));
        first.extend(others.map(|identity| Candidate::Agent(Box::new(identity.clone()), None)));
    }
    first.append(&mut defaults);
    first
}

/// One login under way.
struct Login<'a> {
    handle: &'a mut Handle<Client>,
    user: &'a str,
    agent: Option<AgentClient<UnixStream>>,
    keys: &'a KeyRing,
    limit: &'a Limit,
    rsa: RsaHash,
    report: Report,
}

impl Login<'_> {
    /// None: there was nothing to try after all.
    async fn attempt(&mut self, candidate: Candidate) -> Result<Option<AuthResult>, Problem> {
        match candidate {
            Candidate::File(file) => self.with_file(file).await,
            Candidate::Agent(identity, file) => match (self.with_agent(*identity).await, file) {
                (Err(e), Some(file)) if !self.handle.is_closed() => {
                    self.report.remarks.push(e.0);
                    self.with_file(file).await
                }
                (result, _) => result,
            },
        }
    }

    async fn with_agent(&mut self, identity: AgentIdentity) -> Result<Option<AuthResult>, Problem> {
        let public = identity.public_key().into_owned();
        self.report.tried.push(format!("agent key {}", fingerprint(&public)));
        let hash = self.rsa.of(self.handle, &public).await?;
        let Some(client) = self.agent.as_mut() else {
            return Ok(None);
        };
        let mut signer = Patient { client, limit: self.limit };
        let (handle, user) = (&mut *self.handle, self.user);
        Ok(Some(match identity {
            AgentIdentity::PublicKey { key, .. } => {
                handle.authenticate_publickey_with(user, key, hash, &mut signer).await?
            }
            AgentIdentity::Certificate { certificate, .. } => {
                handle.authenticate_certificate_with(user, certificate, hash, &mut signer).await?
            }
        }))
    }

    async fn with_file(&mut self, file: File) -> Result<Option<AuthResult>, Problem> {
        let path = file.path.display().to_string();
        self.report.tried.push(match file.content.public() {
            Some(public) => format!("{path} ({})", fingerprint(public)),
            None => path.clone(),
        });
        let key = match file.content {
            KeyFile::Ready(key) => key,
            KeyFile::Locked(public) => {
                if let Some(public) = public {
                    let hash = self.rsa.of(self.handle, &public).await?;
                    if let Some(no) = wanted(self.handle, self.user, *public, hash).await? {
                        return Ok(Some(no));
                    }
                }
                match self.keys.unlock(&file.path, self.limit).await {
                    Ok(key) => key,
                    Err(why) => {
                        self.report.locked.get_or_insert((file.path, why));
                        return Ok(None);
                    }
                }
            }
            KeyFile::Public(_) | KeyFile::Missing | KeyFile::Broken(_) => return Ok(None),
        };
        let hash = self.rsa.of(self.handle, key.public_key()).await?;
        Ok(Some(self.handle.authenticate_publickey(self.user, PrivateKeyWithHashAlg::new(key, hash)).await?))
    }
}

/// Asks the server whether it would take this key, so that no passphrase is asked for in vain. None: it would.
async fn wanted(
    handle: &mut Handle<Client>,
    user: &str,
    public: PublicKey,
    hash: Option<HashAlg>,
) -> Result<Option<AuthResult>, Problem> {
    match handle.authenticate_publickey_with(user, public, hash, &mut OnlyAsking).await {
        Ok(no) => Ok(Some(no)),
        Err(Asked::Welcome) => Ok(None),
        Err(Asked::Closed) => Err(Problem("the connection closed".to_owned())),
    }
}

/// A signer that never signs: being called at all is the answer.
struct OnlyAsking;

enum Asked {
    Welcome,
    Closed,
}

impl From<russh::SendError> for Asked {
    fn from(_: russh::SendError) -> Self {
        Asked::Closed
    }
}

impl russh::Signer for OnlyAsking {
    type Error = Asked;

    async fn auth_sign(&mut self, _: &AgentIdentity, _: Option<HashAlg>, _: Vec<u8>) -> Result<Vec<u8>, Asked> {
        Err(Asked::Welcome)
    }
}

/// The signature hash for RSA keys: what the server says it takes, else SHA-512 as OpenSSH would try.
#[derive(Default)]
struct RsaHash {
    asked: bool,
    hash: Option<HashAlg>,
}

impl RsaHash {
    async fn of(&mut self, handle: &Handle<Client>, key: &PublicKey) -> Result<Option<HashAlg>, Problem> {
        if !key.algorithm().is_rsa() {
            return Ok(None);
        }
        if !self.asked {
            self.hash = handle.best_supported_rsa_hash().await?.unwrap_or(Some(HashAlg::Sha512));
            self.asked = true;
        }
        Ok(self.hash)
    }
}

fn fingerprint(key: &PublicKey) -> String {
    format!("{} {}", key.algorithm(), key.fingerprint(HashAlg::Sha256))
}

/// Something that kept a key from being tried.
struct Problem(String);

impl From<russh::Error> for Problem {
    fn from(e: russh::Error) -> Self {
        Problem(super::say::broken(&e))
    }
}

impl From<russh::SendError> for Problem {
    fn from(_: russh::SendError) -> Self {
        Problem("the connection closed".to_owned())
    }
}
