//! Proves a model on every node: each file against the list it came with, and all nodes against each other.

use std::collections::BTreeMap;

use super::{program, push};
use crate::agent::store::{Lacks, ModelList};
use crate::model::NodeName;
use crate::model::inventory::Paths;
use crate::phase::runtime::{RuntimeNode, StepError};

/// What a node has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its files, hashed there and now.
    pub list: ModelList,
    /// How they differ from the list that was kept with them; none without such a list.
    pub kept: Option<Lacks>,
}

/// One node's verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As it came, and as on the others.
    Whole,
    /// Not so, and why.
    Wrong(String),
}

/// Hashes a model on a node: every byte is read.
///
/// # Errors
/// In words: also when there is no program to do it.
pub async fn look(node: &RuntimeNode, model: &str) -> Result<Seen, String> {
    let folder = Paths::rooted(node.layout.root(), model);
    for step in ["hash-model", "hash-model-with-tools"] {
        let output = node.step(step).with("model", &folder).answer().await.map_err(|e| e.to_string())?;
        if program::unable(&output) {
            continue;
        }
        if !output.ok() {
            return Err(StepError::Ended { line: step.to_owned(), output }.words());
        }
        let answer: Answer =
            serde_json::from_slice(&output.stdout).map_err(|e| format!("its answer cannot be read: {e}"))?;
        let kept = answer.kept.map(|kept| compare(&kept, &answer.files));
        return Ok(Seen { list: answer.files, kept });
    }
    Err("there is no macluster on this node yet: `macluster model push` and `macluster deploy` bring it".to_owned())
}

/// What `macluster node model hash` prints.
#[derive(serde::Serialize, serde::Deserialize)]
pub struct Answer {
    /// What is there.
    pub files: ModelList,
    /// What came there.
    pub kept: Option<ModelList>,
}

fn compare(wanted: &ModelList, there: &ModelList) -> Lacks {
    let find = |list: &ModelList, path: &str| list.files.iter().find(|f| f.path == path).cloned();
    let mut lacks = Lacks::default();
    for file in &wanted.files {
        match find(there, &file.path) {
            Some(own) if own == *file => {}
            Some(_) => {
                lacks.missing.push(file.path.clone());
                lacks.differing.push(file.path.clone());
            }
            None => lacks.missing.push(file.path.clone()),
        }
    }
    lacks.extra = there.files.iter().filter(|f| find(wanted, &f.path).is_none()).map(|f| f.path.clone()).collect();
    lacks
}

fn words(lacks: &Lacks, than: &str) -> Option<String> {
    let gone: Vec<String> = lacks.missing.iter().filter(|m| !lacks.differing.contains(m)).cloned().collect();
    let mut parts = Vec::new();
    for (what, names) in [("missing", &gone), ("another content", &lacks.differing), ("too many", &lacks.extra)] {
        if !names.is_empty() {
            parts.push(format!("{what}: {}", push::shown(names)));
        }
    }
    (!parts.is_empty()).then(|| format!("{than}: {}", parts.join("; ")))
}

/// Judges all nodes together. What most nodes have is right; nodes that have it as it came go before those that do not.
pub fn judge(seen: &[(NodeName, Seen)]) -> Vec<(NodeName, Verdict)> {
    let mut kinds: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    let key = |list: &ModelList| serde_json::to_string(list).unwrap_or_default();
    for (_, one) in seen {
        let count = kinds.entry(key(&one.list)).or_default();
        let proven = one.kept.as_ref().is_some_and(Lacks::nothing);
        *count = (count.0 + usize::from(proven), count.1 + 1);
    }
    let right = kinds.into_iter().max_by_key(|(_, count)| *count).map(|(key, _)| key);
    let right = seen.iter().find(|(_, one)| Some(key(&one.list)) == right);
    seen.iter()
        .map(|(node, one)| {
            let came = one.kept.as_ref().and_then(|lacks| words(lacks, "not as it came"));
            let others =
                right.and_then(|(other, model)| words(&compare(&model.list, &one.list), &format!("not as on {other}")));
            let verdict = came.or(others).map_or(Verdict::Whole, Verdict::Wrong);
            (node.clone(), verdict)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::store::ModelFile;

    fn list(files: &[(&str, &str)]) -> ModelList {
        let file =
            |(path, sum): &(&str, &str)| ModelFile { path: (*path).to_owned(), size: 1, sha256: (*sum).to_owned() };
        ModelList { schema_version: 1, files: files.iter().map(file).collect() }
    }

    fn node(name: &str, files: &[(&str, &str)], kept: Option<&[(&str, &str)]>) -> (NodeName, Seen) {
        let list_there = list(files);
        let kept = kept.map(|k| compare(&list(k), &list_there));
        (name.parse().expect("a name"), Seen { list: list_there, kept })
    }

    fn verdicts(seen: &[(NodeName, Seen)]) -> Vec<String> {
        let word = |v: Verdict| match v {
            Verdict::Whole => "whole".to_owned(),
            Verdict::Wrong(why) => why,
        };
        judge(seen).into_iter().map(|(_, v)| word(v)).collect()
    }

    #[test]
    fn each_difference_is_named() {
        let good: &[(&str, &str)] = &[("a", "1"), ("b", "2")];
        let all =
            [node("n1", good, Some(good)), node("n2", good, None), node("n3", &[("a", "9"), ("c", "3")], Some(good))];
        assert_eq!(verdicts(&all), ["whole", "whole", "not as it came: missing: b; another content: a; too many: c"]);
        // One against one: the one that is as it came is right.
        let all = [node("n1", &[("a", "9")], None), node("n2", &[("a", "1")], Some(&[("a", "1")]))];
        assert_eq!(verdicts(&all), ["not as on n2: another content: a", "whole"]);
    }
}
