//! `launchctl`: the system domain only; nobody is logged in at the screen.

use std::io;

use super::Call;
use crate::sim::launchd::{Ask, ask};

/// `launchctl bootstrap|bootout|print|print-disabled|kickstart|kill|enable|disable|list …`.
pub(super) fn run(call: &mut Call<'_>) -> io::Result<i32> {
    let args: Vec<String> = call.args.to_vec();
    let Some((verb, rest)) = args.split_first() else {
        return writeln!(call.err, "Usage: launchctl <subcommand> ... | help [subcommand]").map(|()| 64);
    };
    let request = match (verb.as_str(), rest) {
        ("bootstrap", [domain, plist]) if domain == "system" => {
            Ask::Bootstrap { plist: call.cwd.join(plist).to_string_lossy().into_owned() }
        }
        ("bootstrap", [domain, _]) if domain.starts_with("gui/") || domain.starts_with("user/") => {
            return writeln!(call.err, "Bootstrap failed: 125: Domain does not support specified action").map(|()| 125);
        }
        ("bootout", [domain, plist]) if domain == "system" => match label_of(call, plist) {
            Some(label) => Ask::Bootout { label },
            None => return writeln!(call.err, "Boot-out failed: 5: Input/output error").map(|()| 5),
        },
        ("print", [target]) if target.starts_with("gui/") => {
            // No session at the screen (FAILURES B9 names the status; the text is a guess).
            return writeln!(call.err, "Could not print domain: 125: Domain does not support specified action")
                .map(|()| 125);
        }
        ("print-disabled", [domain]) if domain == "system" => return print_disabled(call),
        ("getenv", [name]) => return getenv(call, name),
        ("list", []) => Ask::List { label: None },
        ("list", [label]) => Ask::List { label: Some(label.clone()) },
        ("enable" | "disable", [target]) => return switch(call, target, verb == "disable"),
        (_, targets) => match on_target(verb, targets) {
            Some(request) => request,
            None => return unknown(call, verb),
        },
    };
    let answer = ask(call.node, call.uid, request)?;
    call.out.write_all(answer.stdout.as_bytes())?;
    call.err.write_all(answer.stderr.as_bytes())?;
    Ok(answer.status)
}

/// `launchctl getenv NAME`: nothing for a variable that is not set. Its status then is a guess.
fn getenv(call: &mut Call<'_>, name: &str) -> io::Result<i32> {
    match call.node.load()?.quirks.launchd_environment.get(name) {
        Some(value) => writeln!(call.out, "{value}").map(|()| 0),
        None => Ok(0),
    }
}

/// Requests about `system/LABEL`.
fn on_target(verb: &str, words: &[String]) -> Option<Ask> {
    let (flags, operands): (Vec<&String>, Vec<&String>) = words.iter().partition(|w| w.starts_with('-'));
    let label = |target: &String| target.strip_prefix("system/").filter(|l| !l.is_empty()).map(str::to_owned);
    let has = |c: char| flags.iter().any(|f| f.contains(c));
    match (verb, operands.as_slice()) {
        ("print", [target]) if flags.is_empty() => Some(Ask::Print { label: label(target)? }),
        ("bootout", [target]) if flags.is_empty() => Some(Ask::Bootout { label: label(target)? }),
        ("kickstart", [target]) if flags.iter().all(|f| f[1..].chars().all(|c| "kps".contains(c))) => {
            Some(Ask::Kickstart { label: label(target)?, kill: has('k'), tell: has('p') })
        }
        ("kill", [signal, target]) => {
            let signal = match signal.trim_start_matches("SIG") {
                "HUP" => 1,
                "INT" => 2,
                "KILL" => 9,
                "TERM" => 15,
                "USR1" => 30,
                "USR2" => 31,
                number => number.parse().ok()?,
            };
            Some(Ask::Signal { label: label(target)?, signal })
        }
        _ => None,
    }
}

fn unknown(call: &mut Call<'_>, verb: &str) -> io::Result<i32> {
    let known = ["bootstrap", "bootout", "print", "kickstart", "kill", "enable", "disable", "list"];
    if known.contains(&verb) {
        // Guess: launchctl prints the subcommand's usage; its words were not captured.
        writeln!(call.err, "Unrecognized target specifier, did you mean\nUsage: launchctl {verb} ...").map(|()| 64)
    } else {
        writeln!(call.err, "Unrecognized subcommand: {verb}\nUsage: launchctl <subcommand> ... | help [subcommand]")
            .map(|()| 64)
    }
}

/// The label in a property list given by path.
fn label_of(call: &mut Call<'_>, plist: &str) -> Option<String> {
    let place = call.target(plist).ok()??;
    let value = plist::Value::from_file(place).ok()?;
    value.as_dictionary()?.get("Label")?.as_string().map(str::to_owned)
}

/// Persistent overrides, also for labels that do not exist.
fn switch(call: &mut Call<'_>, target: &str, disable: bool) -> io::Result<i32> {
    let Some(label) = target.strip_prefix("system/").filter(|l| !l.is_empty()) else {
        return unknown(call, if disable { "disable" } else { "enable" });
    };
    if call.uid != 0 {
        let what = if disable { "disable" } else { "enable" };
        return writeln!(call.err, "Could not {what} service: 1: Operation not permitted").map(|()| 1);
    }
    let label = label.to_owned();
    call.node.update(|s| s.disabled_jobs.insert(label, disable))?;
    Ok(0)
}

fn print_disabled(call: &mut Call<'_>) -> io::Result<i32> {
    writeln!(call.out, "disabled services = {{")?;
    for (label, disabled) in call.node.load()?.disabled_jobs {
        writeln!(call.out, "\t\"{label}\" => {}", if disabled { "disabled" } else { "enabled" })?;
    }
    writeln!(call.out, "}}").map(|()| 0)
}
