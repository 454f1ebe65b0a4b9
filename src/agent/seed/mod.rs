//! A node that has a model gives its files to nodes that lack them. Mutual TLS with certificates of this one push; only
//! the files of the list can be asked for, and nothing is said to anybody else.

mod fetch;
mod give;
mod wire;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use fetch::fetch;
pub use give::{give, listen};

use super::certify::Identity;
use super::store::ModelList;

/// What a giving node is told, on its standard input.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Offer {
    /// Rank 0 of this push's authority.
    pub identity: Identity,
    /// Own addresses on the links to those who ask.
    pub listen: Vec<Ipv4Addr>,
    /// Where the model is.
    pub folder: PathBuf,
    /// Its files.
    pub list: ModelList,
}

/// What a taking node is told.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fetch {
    /// Any other rank.
    pub identity: Identity,
    /// Where to ask.
    pub from: SocketAddr,
    /// Where the model goes.
    pub folder: PathBuf,
    /// The files that are wanted.
    pub list: ModelList,
}
#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::fetch::PARTS;
    use super::give::give_until;
    use super::wire::CHUNK;
    use super::*;
    use crate::agent::certify::issue;
    use crate::agent::store::INCOMING;

    struct Pair {
        source: tempfile::TempDir,
        target: tempfile::TempDir,
        identities: Vec<Identity>,
        list: ModelList,
        at: SocketAddr,
        giving: tokio::task::JoinHandle<Result<(), String>>,
    }

    impl Pair {
        async fn new() -> Self {
            let [source, target] = [0; 2].map(|_| tempfile::tempdir().expect("a folder"));
            std::fs::create_dir(source.path().join("deep")).expect("a folder");
            std::fs::write(source.path().join("config.json"), "{}").expect("written");
            std::fs::write(source.path().join("empty"), "").expect("written");
            std::fs::write(source.path().join("deep/weights"), vec![7; 3 * CHUNK + 1]).expect("written");
            std::fs::write(source.path().join(".secret"), "not in the list").expect("written");
            let list = ModelList::of(source.path(), &mut |_| {}).expect("a list");
            let (identities, _) = issue(2, jiff::Timestamp::now()).expect("certificates");
            let listeners = listen(&[Ipv4Addr::LOCALHOST]).await.expect("a port");
            let at = listeners[0].local_addr().expect("an address");
            let (identity, folder) = (identities[0].clone(), source.path().to_owned());
            let offer = Offer { identity, listen: Vec::new(), folder, list: list.clone() };
            let giving = tokio::spawn(give(offer, listeners));
            Pair { source, target, identities, list, at, giving }
        }

        fn wanted(&self) -> Fetch {
            let (identity, folder) = (self.identities[1].clone(), self.target.path().to_owned());
            Fetch { identity, from: self.at, folder, list: self.list.clone() }
        }

        fn arrived(&self, path: &str) -> PathBuf {
            self.target.path().join(INCOMING).join(path)
        }
    }

    #[tokio::test]
    async fn files_arrive_whole_and_what_was_cut_off_goes_on() {
        let pair = Pair::new().await;
        let weights = pair.list.files.iter().find(|f| f.path == "deep/weights").expect("listed");
        let parts = pair.arrived(PARTS);
        std::fs::create_dir_all(&parts).expect("a folder");
        std::fs::write(parts.join(&weights.sha256), vec![7; CHUNK + 5]).expect("written");
        // Left of another revision, and as long as it should be.
        std::fs::write(pair.arrived("config.json"), "[]").expect("written");
        std::fs::write(parts.join("0".repeat(64)), "x").expect("written");
        let mut steps = Vec::new();
        fetch(&pair.wanted(), &mut |bytes| steps.push(bytes)).await.expect("fetched");
        assert!(steps.contains(&(CHUNK as u64 + 5)), "{steps:?}");
        assert_eq!(steps.iter().sum::<u64>(), pair.list.bytes());
        crate::agent::store::adopt(&pair.list, pair.target.path()).expect("taken in");
        for file in &pair.list.files {
            let [one, other] = [&pair.source, &pair.target].map(|d| std::fs::read(d.path().join(&file.path)));
            assert_eq!(one.expect("there"), other.expect("there"), "{}", file.path);
        }
    }

    #[tokio::test]
    async fn a_stranger_gets_nothing_and_a_friend_only_what_is_listed() {
        let pair = Pair::new().await;
        let (strangers, _) = issue(2, jiff::Timestamp::now()).expect("certificates");
        let stranger = Fetch { identity: strangers[1].clone(), ..pair.wanted() };
        fetch(&stranger, &mut |_| {}).await.expect_err("another authority");
        // Its own certificate from elsewhere, but it knows whom to trust.
        let identity = Identity { authority: pair.identities[0].authority.clone(), ..strangers[1].clone() };
        fetch(&Fetch { identity, ..pair.wanted() }, &mut |_| {}).await.expect_err("another authority");
        assert!(!pair.arrived("deep/weights").metadata().is_ok_and(|m| m.len() > 0));

        let mut wrong = pair.wanted();
        wrong.list.files[0].path = ".secret".to_owned();
        assert!(fetch(&wrong, &mut |_| {}).await.expect_err("hidden").contains("no path of a model's file"));
        wrong.list.files[0].path = "other".to_owned();
        fetch(&wrong, &mut |_| {}).await.expect_err("not in the list");
        fetch(&pair.wanted(), &mut |_| {}).await.expect("still given");
    }

    #[tokio::test]
    async fn one_link_that_is_down_leaves_the_others_and_an_idle_giver_ends() {
        // Of a network for documentation: nobody has it.
        let nobody = Ipv4Addr::new(192, 0, 2, 1);
        let listeners = listen(&[nobody, Ipv4Addr::LOCALHOST]).await.expect("one is enough");
        assert_eq!(listeners.len(), 1);
        assert!(listen(&[nobody]).await.expect_err("none").starts_with("cannot listen on 192.0.2.1: "));
        let pair = Pair::new().await;
        let offer = Offer {
            identity: pair.identities[0].clone(),
            listen: Vec::new(),
            folder: pair.source.path().to_owned(),
            list: pair.list.clone(),
        };
        give_until(offer, listeners, Duration::from_millis(20)).await.expect("ends by itself");
    }

    #[tokio::test]
    async fn a_giver_that_ends_or_whose_file_changed_is_an_error_and_not_a_file() {
        let pair = Pair::new().await;
        std::fs::write(pair.source.path().join("config.json"), "{ }").expect("written");
        let why = fetch(&pair.wanted(), &mut |_| {}).await.expect_err("changed");
        assert!(why.starts_with("config.json from "), "{why}");
        assert!(why.ends_with("it has 3 bytes there, 2 are listed"), "{why}");
        pair.giving.abort();
        let _ = pair.giving.await;
        let wanted = Fetch {
            identity: pair.identities[1].clone(),
            from: pair.at,
            folder: pair.target.path().to_owned(),
            list: pair.list.clone(),
        };
        assert!(fetch(&wanted, &mut |_| {}).await.expect_err("gone").contains("cannot reach"));
    }
}
