//! Logging in with keys: named key files, keys of the agent, default key files.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use russh::client::{AuthResult, Handle};
use russh::keys::agent::AgentIdentity;
use russh::keys::agent::client::AgentClient;
use russh::keys::{HashAlg, PrivateKeyWithHashAlg, PublicKey};
use tokio::net::UnixStream;

use super::session::Client;
use crate::model::FailureKind;
use crate::remote::ConnectError;
use crate::remote::keys::{KeyFile, KeyRing};
use crate::remote::prompt::Limit;
use crate::remote::target::Target;

/// An agent may ask its owner to confirm or to touch a token.
const AGENT_LIMIT: Duration = Duration::from_secs(60);

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

/// Everything that happened, for the error message.
#[derive(Default)]
struct Report {
    tried: Vec<String>,
    offered: BTreeSet<&'static str>,
    remarks: Vec<String>,
    partial: bool,
    /// A key that stays locked, and why.
    locked: Option<(PathBuf, String)>,
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

impl Report {
    fn failed(&mut self, result: &AuthResult) {
        if let AuthResult::Failure { remaining_methods, partial_success } = result {
            self.offered.extend(remaining_methods.iter().map(<&'static str>::from));
            self.partial |= partial_success;
        }
    }
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
            (KeyFile::Missing, None) if identity.named => report.remarks.push(format!("{path} does not exist")),
            (KeyFile::Missing, None) => {}
            (KeyFile::Public(_), None) => report.remarks.push(format!("{path}: the agent does not hold this key")),
            (KeyFile::Broken(why), None) => report.remarks.push(format!("{path} cannot be used: {why}")),
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

/// The agent, given the time its owner needs to confirm; that is a question to a person, too.
struct Patient<'a> {
    client: &'a mut AgentClient<UnixStream>,
    limit: &'a Limit,
}

impl russh::Signer for Patient<'_> {
    type Error = Problem;

    async fn auth_sign(
        &mut self,
        key: &AgentIdentity,
        hash: Option<HashAlg>,
        data: Vec<u8>,
    ) -> Result<Vec<u8>, Problem> {
        let signing = tokio::time::timeout(AGENT_LIMIT, self.client.auth_sign(key, hash, data));
        match self.limit.paused(signing).await {
            Ok(Ok(signature)) => Ok(signature),
            Ok(Err(e)) => Err(Problem(format!("the agent did not sign: {e}"))),
            Err(_) => Err(Problem(format!("the agent did not sign within {} s", AGENT_LIMIT.as_secs()))),
        }
    }
}

impl From<russh::SendError> for Problem {
    fn from(_: russh::SendError) -> Self {
        Problem("the connection closed".to_owned())
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

/// The agent of the surroundings and the keys it holds.
struct Agent {
    client: Option<AgentClient<UnixStream>>,
    identities: Vec<AgentIdentity>,
}

impl Agent {
    async fn open(target: &Target, handle: &Handle<Client>, report: &mut Report) -> Self {
        let mut agent = Agent { client: None, identities: Vec::new() };
        let Some(socket) = &target.agent else {
            return agent;
        };
        let talk = async {
            let mut client = AgentClient::connect_uds(socket).await?;
            if let Some(binding) = handle.agent_session_binding() {
                // Only newer OpenSSH agents know this; keys bound to destinations need it.
                let _ = client.bind_session(binding, false).await;
            }
            let identities = client.request_identities().await?;
            Ok::<_, russh::keys::Error>((client, identities))
        };
        match tokio::time::timeout(Duration::from_secs(5), talk).await {
            Ok(Ok((client, identities))) => agent = Agent { client: Some(client), identities },
            Ok(Err(e)) => report.remarks.push(format!("the agent at {} cannot be used: {e}", socket.display())),
            Err(_) => report.remarks.push(format!("the agent at {} gave no answer", socket.display())),
        }
        agent
    }

    fn find(&self, public: &PublicKey) -> Option<&AgentIdentity> {
        self.identities.iter().find(|i| i.public_key().key_data() == public.key_data())
    }
}

/// Something that kept a key from being tried.
struct Problem(String);

impl From<russh::Error> for Problem {
    fn from(e: russh::Error) -> Self {
        Problem(super::say::broken(&e))
    }
}

fn list(items: &[String]) -> String {
    if items.is_empty() { "none".to_owned() } else { items.join(", ") }
}

fn refused(target: &Target, report: &Report) -> ConnectError {
    if let Some((path, why)) = &report.locked {
        let at = crate::remote::known_hosts::listed_name(&target.host, target.port);
        let path = path.display();
        return ConnectError {
            kind: FailureKind::Authentication,
            message: format!("cannot log in to {at} as `{}` with {path}: {why}", target.user.escape_debug()),
            hint: Some(format!("unlock it once with `ssh-add {path}`, or run macluster in a terminal")),
        };
    }
    let offered: Vec<String> = report.offered.iter().map(|m| (*m).to_owned()).collect();
    let what = if report.partial { "wants more than a key from" } else { "does not let in" };
    let mut message = format!(
        "{} {what} `{}`; keys tried: {}; the server takes: {}",
        crate::remote::known_hosts::listed_name(&target.host, target.port),
        target.user.escape_debug(),
        list(&report.tried),
        list(&offered)
    );
    if !report.remarks.is_empty() {
        message = format!("{message}; {}", report.remarks.join("; "));
    }
    let hint = if report.tried.is_empty() {
        "name a key with `ssh.identity` in the inventory or IdentityFile in ~/.ssh/config, or add one to the agent"
            .to_owned()
    } else if report.offered.is_empty() || report.offered.contains("publickey") {
        format!(
            "append the public key to ~{}/.ssh/authorized_keys on the node (ssh-copy-id), or name another user or key",
            target.user.escape_debug()
        )
    } else {
        "allow public keys on the node (PubkeyAuthentication yes); macluster logs in with keys only".to_owned()
    };
    ConnectError { kind: FailureKind::Authentication, message, hint: Some(hint) }
}

fn closed(target: &Target, report: &Report) -> ConnectError {
    let at = crate::remote::known_hosts::listed_name(&target.host, target.port);
    if report.tried.is_empty() {
        let message = format!("{at} closed the connection during the login");
        return ConnectError { kind: FailureKind::Unreachable, message, hint: None };
    }
    ConnectError {
        kind: FailureKind::Authentication,
        message: format!("{at} closed the connection during the login; keys tried: {}", list(&report.tried)),
        hint: Some(
            "servers give up after a few keys (MaxAuthTries): name the right one with `ssh.identity`, or IdentityFile \
             with IdentitiesOnly yes"
                .to_owned(),
        ),
    }
}
