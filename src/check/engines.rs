//! `host.foreign-engines` and `rdma.resources`: who else holds the GPU, the memory and the few RDMA objects there are.

use super::Context;
use super::say::{About, Row, Say, Trouble, at_machine, unknown};
use crate::model::host_facts::{PROTECTION_DOMAIN, Process, QUEUE_PAIR};
use crate::model::{Category, NodeFacts, Verdict};

pub(super) const CHECKS: &[Row] = &[Row {
    id: "host.foreign-engines",
    category: Category::Host,
    title: "no other engine runs on a node",
    run: foreign_engines,
}];

/// Of the category of RDMA, and told there.
pub(super) const HELD: &[Row] = &[Row {
    id: "rdma.resources",
    category: Category::Rdma,
    title: "no RDMA objects are held by engines that are gone",
    run: resources,
}];

/// How a program is found in a command line.
enum Mark {
    /// The name of the program itself.
    Program(&'static str),
    /// The program lies in this folder of an app.
    App(&'static str),
    /// A Python module, or a script of that name: `-m NAME`, `NAME.sub`, `…/NAME`.
    Module(&'static str),
}

/// Engines that are known to hold the GPU or RDMA (FAILURES G10, F3, and the list of peers).
const ENGINES: &[(&str, &[Mark])] = &[
    ("exo", &[Mark::Program("exo"), Mark::App("EXO.app"), Mark::App("exo.app"), Mark::Module("exo")]),
    ("Ollama", &[Mark::Program("ollama"), Mark::App("Ollama.app")]),
    ("LM Studio", &[Mark::App("LM Studio.app"), Mark::Program("llmster"), Mark::Program("lms")]),
    ("llama.cpp", &[Mark::Program("rpc-server"), Mark::Program("llama-server"), Mark::Program("llama-cli")]),
    ("omlx", &[Mark::Program("omlx"), Mark::App("oMLX.app"), Mark::Module("omlx")]),
    ("dnet", &[Mark::Program("dnet-shard"), Mark::Program("dnet-api"), Mark::Module("dnet")]),
    ("vLLM", &[Mark::Program("vllm"), Mark::Module("vllm")]),
    // Last: what MLX's own launcher and server leave behind.
    (
        "MLX",
        &[
            Mark::Program("mlx.launch"),
            Mark::Program("mlx_lm.server"),
            Mark::Program("mlx_lm.generate"),
            Mark::Module("mlx_lm"),
            Mark::Module("mlx_vlm"),
            Mark::Module("mlx"),
        ],
    ),
];

fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

impl Mark {
    fn fits(&self, command: &str) -> bool {
        let mut words = command.split_whitespace();
        let program = name(words.next().unwrap_or_default());
        let interpreter = program.to_lowercase().starts_with("python");
        match self {
            // A script runs under its interpreter, whose name comes first.
            Mark::Program(wanted) => {
                program == *wanted || (interpreter && words.next().is_some_and(|w| name(w) == *wanted))
            }
            Mark::App(wanted) => command.contains(&format!("/{wanted}/")),
            Mark::Module(wanted) => {
                let same = |w: &str| w == *wanted || w.strip_prefix(wanted).is_some_and(|rest| rest.starts_with('.'));
                let words: Vec<&str> = command.split_whitespace().collect();
                interpreter && words.windows(2).any(|w| w[0] == "-m" && same(w[1]))
            }
        }
    }
}

/// The engine of this process, if it is another's.
fn foreign(process: &Process) -> Option<&'static str> {
    if own(process) {
        return None;
    }
    ENGINES.iter().find(|(_, marks)| marks.iter().any(|m| m.fits(&process.command))).map(|(name, _)| *name)
}

/// A command line that says no more than which engine it is: none for one that is of no interest.
pub fn engine_of(process: &Process) -> Option<&'static str> {
    if own(process) {
        return Some("python -m macluster_inference.engine");
    }
    let known = match foreign(process) {
        Some("exo") => "exo",
        Some("Ollama") => "ollama",
        Some("LM Studio") => "lms",
        Some("llama.cpp") => "llama-server",
        Some("omlx") => "omlx",
        Some("dnet") => "dnet-api",
        Some("vLLM") => "vllm",
        Some(_) => "python -m mlx_lm",
        None if name(process.command.split(' ').next().unwrap_or_default()).to_lowercase().starts_with("python") => {
            "python"
        }
        None => return None,
    };
    Some(known)
}

/// Our own engine: its supervisor or its worker.
fn own(process: &Process) -> bool {
    process.command.contains("macluster_inference")
}

/// Our own engine whose agent is gone: launchd took it over, and nobody stops it any more.
fn orphan(process: &Process) -> bool {
    own(process) && process.ppid == 1
}

/// `python -m mlx_lm server` without its arguments.
fn short(command: &str) -> String {
    let words: Vec<&str> = command.split_whitespace().take(4).collect();
    words.join(" ").chars().take(70).collect()
}

/// Protection domains and queue pairs that the kernel holds; none where it does not know the classes.
fn held(facts: &NodeFacts) -> Result<Option<(u64, u64)>, String> {
    let counts = facts.host.rdma_objects.as_ref().map_err(unknown)?;
    let count = |class: &str| counts.get(class).copied().flatten();
    Ok(match (count(PROTECTION_DOMAIN), count(QUEUE_PAIR)) {
        (None, None) => None,
        (domains, pairs) => Some((domains.unwrap_or(0), pairs.unwrap_or(0))),
    })
}

fn foreign_engines(ctx: &Context<'_>, say: &mut Say) {
    ctx.each_node(say, |node, facts, say| {
        let about = About::Node(node);
        let label = ctx.label(node);
        let Some(processes) = say.known(about, &facts.host.processes) else { return };
        let mut found: Vec<(&str, &Process)> = processes.iter().filter_map(|p| Some((foreign(p)?, p))).collect();
        found.extend(processes.iter().filter(|p| orphan(p)).map(|p| ("an engine of macluster whose agent is gone", p)));
        if found.is_empty() {
            return say.pass(about, format!("no other engine runs on {label}"));
        }
        let mut names: Vec<&str> = found.iter().map(|(name, _)| *name).collect();
        names.dedup();
        let rows: Vec<String> = found.iter().map(|(_, p)| format!("pid {}: {}", p.pid, short(&p.command))).collect();
        let holds = matches!(held(facts), Ok(Some((domains, pairs))) if domains + pairs > 0);
        // With RDMA objects in use a launch fails for lack of queue pairs; without, it only has less memory.
        let (verdict, why) = if holds {
            (Verdict::Fail, "and RDMA objects are in use, of which each device has only about ten")
        } else {
            (Verdict::Warn, "it takes memory and the GPU, and RDMA objects when it likes")
        };
        let pids: Vec<String> = found.iter().map(|(_, p)| p.pid.to_string()).collect();
        say.trouble(
            verdict,
            about,
            Trouble {
                message: format!("{} runs on {label}: {why}", names.join(" and ")),
                observed: rows.join("; "),
                expected: "no other engine".to_owned(),
                remedy: at_machine([
                    format!("on {label}: stop it the way it was started (quit the app, or boot out its job)"),
                    format!("if that does not end it: kill -TERM {}   # never -KILL: what it holds of RDMA is lost until a restart", pids.join(" ")),
                ]),
            },
        );
    });
}

/// FAILURES F1, F2, A11: what a killed rank held is given back by a restart only.
fn resources(ctx: &Context<'_>, say: &mut Say) {
    ctx.each_node(say, |node, facts, say| {
        let about = About::Node(node);
        let label = ctx.label(node);
        let (domains, pairs) = match held(facts) {
            Ok(Some(held)) => held,
            Ok(None) => {
                return say.skip(about, format!("not checked: the kernel of {node} has no RDMA classes to count"));
            }
            Err(why) => return say.skip(about, why),
        };
        if domains + pairs == 0 {
            return say.pass(about, format!("no RDMA objects are held on {label}"));
        }
        let Some(processes) = say.known(about, &facts.host.processes) else { return };
        // Any Python may be a rank: only with none of them alive are the objects surely nobody's.
        let python = |p: &&Process| name(p.command.split(' ').next().unwrap_or_default()).to_lowercase().starts_with("python");
        let user = processes.iter().find(|p| own(p) || foreign(p).is_some()).or_else(|| processes.iter().find(python));
        if let Some(user) = user {
            return say.pass(
                about,
                format!("{domains} protection domains and {pairs} queue pairs are in use on {label}, by pid {} or others", user.pid),
            );
        }
        say.trouble(
            Verdict::Fail,
            about,
            Trouble {
                message: format!(
                    "{label} holds RDMA objects although no engine is alive: a killed rank left them behind, and the next launch may find none left"
                ),
                observed: format!("{domains} protection domains, {pairs} queue pairs"),
                expected: "none while no engine runs".to_owned(),
                remedy: at_machine([format!("restart {label}: nothing else gives them back")]),
            },
        );
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn engine(command: &str) -> Option<&'static str> {
        foreign(&Process { pid: 9, ppid: 1, seconds: 1, command: command.to_owned() })
    }

    #[test]
    fn engines_are_known_by_program_app_or_module() {
        for (command, wanted) in [
            ("/Applications/EXO.app/Contents/MacOS/EXO", "exo"),
            ("/opt/homebrew/bin/ollama serve", "Ollama"),
            ("/Applications/LM Studio.app/Contents/MacOS/LM Studio", "LM Studio"),
            ("./build/bin/rpc-server -H 0.0.0.0", "llama.cpp"),
            ("/usr/bin/python3 -m mlx_lm.server --model x", "MLX"),
            ("/Users/a/venv/bin/python3.12 /Users/a/venv/bin/mlx.launch --hosts a", "MLX"),
            ("python -m exo.main", "exo"),
        ] {
            assert_eq!(engine(command), Some(wanted), "{command}");
        }
    }

    #[test]
    fn a_short_command_is_the_same_engine() {
        for (engine, marks) in ENGINES {
            let word = marks.iter().find_map(|m| match m {
                Mark::Program(program) => Some(*program),
                _ => None,
            });
            let process = |command: &str| Process { pid: 9, ppid: 1, seconds: 1, command: command.to_owned() };
            let long = process(&format!("/Users/x/bin/{} --token secret", word.expect("a program")));
            let short = process(engine_of(&long).expect("an engine"));
            assert_eq!(foreign(&short), Some(*engine));
        }
    }

    #[test]
    fn what_only_sounds_alike_is_no_engine() {
        for command in [
            "/usr/libexec/exoplanet",
            "/usr/bin/python3 server.py --model exo",
            "vim mlx_lm.server",
            "/opt/macluster/releases/x/venv/bin/python -I -m macluster_inference.engine --config a",
            "grep ollama",
            "/opt/macluster/bin/macluster agent run",
            "",
        ] {
            assert_eq!(engine(command), None, "{command}");
        }
    }
}
