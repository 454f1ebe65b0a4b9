//! Keys that the user's agent holds.

use std::time::Duration;

use russh::client::Handle;
use russh::keys::agent::AgentIdentity;
use russh::keys::agent::client::AgentClient;
use russh::keys::{HashAlg, PublicKey};
use tokio::net::UnixStream;

use super::Problem;
use super::report::Report;
use crate::remote::prompt::Limit;
use crate::remote::ssh::session::Client;
use crate::remote::target::Target;

/// An agent may ask its owner to confirm or to touch a token.
const AGENT_LIMIT: Duration = Duration::from_secs(60);

/// The agent of the surroundings and the keys it holds.
pub(super) struct Agent {
    pub(super) client: Option<AgentClient<UnixStream>>,
    pub(super) identities: Vec<AgentIdentity>,
}

impl Agent {
    pub(super) async fn open(target: &Target, handle: &Handle<Client>, report: &mut Report) -> Self {
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

    pub(super) fn find(&self, public: &PublicKey) -> Option<&AgentIdentity> {
        self.identities.iter().find(|i| i.public_key().key_data() == public.key_data())
    }
}

/// The agent, given the time its owner needs to confirm; that is a question to a person, too.
pub(super) struct Patient<'a> {
    pub(super) client: &'a mut AgentClient<UnixStream>,
    pub(super) limit: &'a Limit,
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
