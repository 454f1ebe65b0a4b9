//! A node that answers as told, for the tests of this module.

use std::net::IpAddr;
use std::sync::Mutex;

use futures::future::BoxFuture;

use crate::model::{Cmd, NodeName, Output};
use crate::remote::{Duplex, OnOutput, OnSent, Remote, RemoteError};

type Answer = Box<dyn Fn(&str) -> Result<Output, RemoteError> + Send + Sync>;

/// Notes what it is asked to run, and answers each command line.
pub(super) struct Scripted {
    node: NodeName,
    answer: Answer,
    ran: Mutex<Vec<String>>,
}

impl Scripted {
    pub(super) fn new(
        node: &str,
        answer: impl Fn(&str) -> Result<Output, RemoteError> + Send + Sync + 'static,
    ) -> Self {
        Scripted { node: node.parse().expect("a name"), answer: Box::new(answer), ran: Mutex::default() }
    }

    /// The command lines so far.
    pub(super) fn ran(&self) -> Vec<String> {
        self.ran.lock().expect("a lock").clone()
    }
}

impl Remote for Scripted {
    fn node(&self) -> &NodeName {
        &self.node
    }
    fn root(&self) -> &'static str {
        ""
    }
    fn exec_with(
        &self,
        cmd: Cmd,
        _: Option<OnSent>,
        _: Option<OnOutput>,
    ) -> BoxFuture<'_, Result<Output, RemoteError>> {
        let line = cmd.display();
        let answer = (self.answer)(&line);
        self.ran.lock().expect("a lock").push(line);
        Box::pin(async move { answer })
    }
    fn open_tcp(&self, _: &str, _: u16) -> BoxFuture<'_, Result<Box<dyn Duplex>, RemoteError>> {
        Box::pin(async { Err(RemoteError::Refused("no".to_owned())) })
    }
    fn peer_address(&self) -> Option<IpAddr> {
        None
    }
    fn user(&self) -> &'static str {
        "admin"
    }
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}
