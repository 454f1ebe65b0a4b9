//! Among how many nodes the model is divided, and how: decided from what was seen of it, before anything is touched.

use std::fmt::Write;

use crate::agent::model::{ModelFolder, Split};
use crate::model::Parallel;

/// Bytes, for people.
pub(super) const BILLION: u64 = 1_000_000_000;

/// The nodes that may become ranks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rack {
    /// How many.
    pub(super) nodes: u64,
    /// Bytes of memory of the smallest; none when nobody knows.
    pub(super) memory: Option<u64>,
    /// Bytes that the GPU of the one that leaves it least may wire, macOS's own limit being a guess.
    pub(super) limit: Option<u64>,
    /// The least of those limits that were set (`iogpu.wired_limit_mb`), bytes: those are known.
    pub(super) set: Option<u64>,
    /// The inventory names them: all or none.
    pub(super) named: bool,
}

/// What was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Division {
    /// Nodes that become ranks.
    pub(super) ranks: u64,
    /// How they share the model.
    pub(super) parallel: Parallel,
    /// Bytes of weights of the one that holds most; none when the architecture is not known.
    pub(super) bytes: Option<u64>,
    /// Why not all nodes become ranks.
    pub(super) idle: Option<String>,
    /// What the operator should know of a pipeline that was taken, or was not.
    pub(super) remark: Option<String>,
}

/// Why it cannot be, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) message: String,
    pub(super) hint: String,
}

/// A number of nodes, for people.
pub(super) fn nodes(n: u64) -> String {
    if n == 1 { "1 node".to_owned() } else { format!("{n} nodes") }
}

/// As many nodes as the model runs on, split as `wish` says; without a wish as [`Rack::choice`] says. An architecture that
/// is not known is left to the engine, which says itself whether it can divide it.
pub(super) fn divide(wish: Option<Parallel>, folder: &ModelFolder, rack: &Rack) -> Result<Division, Refusal> {
    let count = rack.nodes;
    if at(&folder.splits, count).is_none() {
        let remark = (wish == Some(Parallel::Pipeline) && count > 1).then(|| remark(count));
        return Ok(Division { ranks: count, parallel: wish.unwrap_or_default(), bytes: None, idle: None, remark });
    }
    if wish == Some(Parallel::Pipeline) && folder.stages.is_empty() {
        return Err(no_pipeline(folder));
    }
    let parallel = wish.unwrap_or_else(|| rack.choice(folder));
    let ways = if parallel == Parallel::Pipeline { &folder.stages } else { &folder.splits };
    let staged = parallel == Parallel::Tensor && rack.runs(&folder.stages, count);
    let problem = at(ways, count).and_then(|s| rack.problem(s));
    let ranks = match &problem {
        None => count,
        Some(why) => match (rack.fewer(ways), rack.named) {
            (Some(fewer), false) => fewer,
            (fewer, _) => return Err(refusal(count, why, fewer, staged)),
        },
    };
    let mut remark = (parallel == Parallel::Pipeline && ranks > 1).then(|| remark(ranks));
    let split_problem = at(&folder.splits, count).and_then(|s| rack.problem(s));
    if let (Some(text), None, Some(why)) = (&mut remark, wish, split_problem) {
        let _ = write!(text, "; it does not run split over {}: {why}", nodes(count));
    }
    if ranks < count && staged {
        remark = Some(format!(
            "as a pipeline it would use all {}: room, not speed (`runtime.parallel: pipeline`)",
            nodes(count)
        ));
    }
    let bytes = at(ways, ranks).and_then(|s| s.bytes);
    Ok(Division { ranks, parallel, bytes, idle: problem, remark })
}

fn at(ways: &[Split], ranks: u64) -> Option<&Split> {
    ways.iter().find(|s| s.ranks == ranks)
}

fn remark(ranks: u64) -> String {
    format!(
        "a pipeline of {}, each with some of the layers: room for a larger model, not speed, for each token visits them \
         one after the other",
        nodes(ranks)
    )
}

fn no_pipeline(folder: &ModelFolder) -> Refusal {
    Refusal {
        message: format!(
            "runtime.parallel is pipeline, and mlx-lm has no pipeline for the architecture {}",
            folder.model_type
        ),
        hint: "write `runtime.parallel: tensor`, or leave it out, or choose another model".to_owned(),
    }
}

fn refusal(count: u64, why: &str, fewer: Option<u64>, pipeline: bool) -> Refusal {
    let hint = match fewer {
        _ if pipeline => format!("as a pipeline it runs on {}: `runtime.parallel: pipeline`", nodes(count)),
        Some(n) => format!("it runs on {}: name them in runtime.nodes of the inventory", nodes(n)),
        None => "`macluster sizing` shows what it needs".to_owned(),
    };
    Refusal { message: format!("the model does not run on {}: {why}", nodes(count)), hint }
}

impl Rack {
    fn problem(&self, split: &Split) -> Option<String> {
        if let Some(why) = &split.why {
            return Some(why.clone());
        }
        let bytes = split.bytes?;
        let more = |limit: Option<u64>| limit.filter(|limit| bytes > *limit).map(|limit| limit / BILLION);
        let held = format!("each would hold {} GB of weights", bytes / BILLION);
        // More than all of it: no limit could make it fit. What macOS leaves to the GPU by itself is a guess, and only said.
        if let Some(memory) = more(self.memory) {
            return Some(format!("{held} and has {memory} GB of memory"));
        }
        more(self.set).map(|limit| format!("{held} and lets its GPU wire {limit} GB (iogpu.wired_limit_mb)"))
    }

    /// Nobody wished: split, if need be over fewer nodes, for that is the fastest; a pipeline only where no split is to be
    /// had, or where only the pipeline leaves a node the room that macOS is supposed to give its GPU.
    fn choice(&self, folder: &ModelFolder) -> Parallel {
        if self.runs(&folder.splits, self.nodes) {
            return Parallel::Tensor;
        }
        let stage = at(&folder.stages, self.nodes).filter(|s| self.nodes > 1 && self.problem(s).is_none());
        let Some(stage) = stage else { return Parallel::Tensor };
        let fewer = self.fewer(&folder.splits).filter(|_| !self.named).and_then(|n| at(&folder.splits, n));
        let roomy = |s: &Split| s.bytes.zip(self.limit).is_none_or(|(bytes, limit)| bytes <= limit);
        match fewer {
            Some(split) if roomy(split) || !roomy(stage) => Parallel::Tensor,
            _ => Parallel::Pipeline,
        }
    }

    fn runs(&self, ways: &[Split], ranks: u64) -> bool {
        at(ways, ranks).is_some_and(|s| self.problem(s).is_none())
    }

    /// The most nodes, but not all, that it runs on.
    fn fewer(&self, ways: &[Split]) -> Option<u64> {
        ways.iter().filter(|s| s.ranks < self.nodes && self.problem(s).is_none()).map(|s| s.ranks).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GB: u64 = BILLION;

    /// Splits over 1, 2 and 4, as a pipeline over up to 4, where 3 have uneven stages.
    fn deepseek() -> ModelFolder {
        let split = |ranks, bytes| Split { ranks, bytes: Some(bytes), why: None };
        let odd = |ranks| Split { ranks, bytes: None, why: Some(format!("128 heads do not divide by {ranks}")) };
        let short = Split { ranks: 5, bytes: None, why: Some("4 layers are fewer".to_owned()) };
        ModelFolder {
            model_type: "deepseek_v3".to_owned(),
            files: 1,
            bytes: 100 * GB,
            splits: vec![split(1, 100 * GB), split(2, 52 * GB), odd(3), split(4, 28 * GB), odd(5)],
            stages: vec![split(1, 100 * GB), split(2, 54 * GB), split(3, 54 * GB), split(4, 30 * GB), short],
        }
    }

    fn llama() -> ModelFolder {
        ModelFolder { model_type: "llama".to_owned(), stages: Vec::new(), ..deepseek() }
    }

    fn rack(nodes: u64, gb: u64) -> Rack {
        let memory = gb * GB;
        Rack { nodes, memory: Some(memory), limit: Some(memory / 4 * 3), set: None, named: false }
    }

    /// Ranks, way, and whether something is told of idle nodes and of the pipeline.
    fn decided(wish: Option<Parallel>, folder: &ModelFolder, rack: &Rack) -> (u64, Parallel, bool, bool) {
        let d = divide(wish, folder, rack).expect("it runs");
        (d.ranks, d.parallel, d.idle.is_some(), d.remark.is_some())
    }

    #[test]
    fn without_a_wish_fewer_nodes_are_the_second_choice_and_a_pipeline_the_third() {
        let (tensor, pipeline) = (Parallel::Tensor, Parallel::Pipeline);
        assert_eq!(decided(None, &deepseek(), &rack(4, 128)), (4, tensor, false, false));
        assert_eq!(decided(None, &deepseek(), &rack(3, 128)), (2, tensor, true, true));
        assert_eq!(decided(None, &llama(), &rack(3, 128)), (2, tensor, true, false));
        // Five stages would need five layers.
        assert_eq!(decided(None, &deepseek(), &rack(5, 128)), (4, tensor, true, false));
        // The largest stage of three does not fit, the share of two does.
        assert_eq!(decided(None, &deepseek(), &rack(3, 53)), (2, tensor, true, false));
        // Named nodes are wanted all.
        let named = Rack { named: true, ..rack(3, 128) };
        assert_eq!(decided(None, &deepseek(), &named), (3, pipeline, false, true));
        assert_eq!(decided(None, &deepseek(), &rack(1, 128)), (1, tensor, false, false));
        let none = Rack { memory: None, limit: None, ..rack(3, 0) };
        assert_eq!(decided(None, &deepseek(), &none), (2, tensor, true, true));
    }

    #[test]
    fn a_pipeline_is_taken_where_no_split_fits_or_only_it_leaves_room() {
        let pipeline = (3, Parallel::Pipeline, false, true);
        let mut wide = deepseek();
        wide.stages[2].bytes = Some(35 * GB);
        // 52 GB of 51: no split at all. 52 GB of 60: it fits, but not in the three quarters that a GPU may wire.
        assert_eq!(decided(None, &wide, &rack(3, 51)), pipeline);
        assert_eq!(decided(None, &wide, &rack(3, 60)), pipeline);
        assert_eq!(decided(None, &wide, &rack(3, 80)), (2, Parallel::Tensor, true, true));
        // Neither leaves room: the faster one.
        assert_eq!(decided(None, &deepseek(), &rack(3, 60)), (2, Parallel::Tensor, true, true));
    }

    #[test]
    fn why_it_is_a_pipeline_is_told_and_where_one_could_be_had() {
        let d = divide(None, &deepseek(), &Rack { named: true, ..rack(3, 128) }).expect("it runs");
        let text = d.remark.expect("a remark");
        for part in ["a pipeline of 3 nodes", "not speed", "128 heads do not divide by 3"] {
            assert!(text.contains(part), "{text}");
        }
        assert_eq!(d.bytes, Some(54 * GB));
        let text = divide(None, &deepseek(), &rack(3, 128)).expect("it runs").remark.expect("a remark");
        assert!(text.contains("would use all 3 nodes") && text.contains("`runtime.parallel: pipeline`"), "{text}");
    }

    #[test]
    fn a_wish_is_kept_or_refused() {
        let (tensor, pipeline) = (Some(Parallel::Tensor), Some(Parallel::Pipeline));
        assert_eq!(decided(tensor, &deepseek(), &rack(3, 64)), (2, Parallel::Tensor, true, true));
        assert_eq!(decided(pipeline, &deepseek(), &rack(4, 64)), (4, Parallel::Pipeline, false, true));
        assert_eq!(decided(pipeline, &deepseek(), &rack(5, 64)), (4, Parallel::Pipeline, true, true));
        let no = divide(pipeline, &llama(), &rack(2, 64)).expect_err("no pipeline");
        assert!(no.message.contains("no pipeline for the architecture llama"), "{}", no.message);
        assert!(no.hint.contains("`runtime.parallel: tensor`"), "{}", no.hint);
    }

    #[test]
    fn what_does_not_run_is_refused_with_the_next_action() {
        let named = Rack { named: true, ..rack(3, 64) };
        let no = divide(Some(Parallel::Tensor), &deepseek(), &named).expect_err("does not split");
        assert!(no.message.starts_with("the model does not run on 3 nodes: 128 heads"), "{}", no.message);
        assert!(no.hint.contains("`runtime.parallel: pipeline`"), "{}", no.hint);
        let no = divide(None, &llama(), &named).expect_err("does not split");
        assert!(no.hint.contains("it runs on 2 nodes: name them"), "{}", no.hint);
        let no = divide(Some(Parallel::Pipeline), &deepseek(), &rack(2, 16)).expect_err("does not fit");
        assert!(no.message.contains("each would hold 54 GB of weights and has 16 GB"), "{}", no.message);
        assert!(no.hint.contains("macluster sizing"), "{}", no.hint);
    }

    #[test]
    fn a_limit_that_was_set_for_the_gpus_counts_whatever_the_memory() {
        // 28 GB each on four nodes of 64 GB.
        assert_eq!(decided(None, &deepseek(), &rack(4, 64)), (4, Parallel::Tensor, false, false));
        let small = Rack { limit: Some(20 * GB), set: Some(20 * GB), named: true, ..rack(4, 64) };
        let no = divide(Some(Parallel::Tensor), &deepseek(), &small).expect_err("does not fit");
        let why = "each would hold 28 GB of weights and lets its GPU wire 20 GB (iogpu.wired_limit_mb)";
        assert!(no.message.contains(why), "{}", no.message);
        // Larger than what macOS would leave by itself.
        let large = Rack { limit: Some(30 * GB), set: Some(30 * GB), ..rack(4, 32) };
        assert_eq!(decided(None, &deepseek(), &large), (4, Parallel::Tensor, false, false));
    }

    #[test]
    fn what_is_not_known_is_left_to_the_engine() {
        let unknown = ModelFolder { splits: Vec::new(), ..llama() };
        assert_eq!(decided(None, &unknown, &rack(3, 1)), (3, Parallel::Tensor, false, false));
        assert_eq!(decided(Some(Parallel::Pipeline), &unknown, &rack(3, 1)), (3, Parallel::Pipeline, false, true));
    }
}
