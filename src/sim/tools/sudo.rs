//! `sudo`: asks as the node's policy says, then becomes the program (samples/ssh/remote-shell.md).

use std::io;

use super::{Call, Exec};
use crate::sim::program::{Resolved, resolve};
use crate::sim::state::{NodeState, SudoPolicy};

struct Options {
    never_ask: bool,
    from_stdin: bool,
    prompt: String,
    user: Option<String>,
    command: Vec<String>,
}

pub(super) fn run(call: &mut Call<'_>) -> io::Result<i32> {
    let options = match parse(call.args) {
        Ok(options) => options,
        Err(text) => return writeln!(call.err, "{text}").map(|()| 1),
    };
    let state = call.node.load()?;
    if !permitted(call, &options, &state)? {
        return Ok(1);
    }
    let uid = match options.user.as_deref() {
        None | Some("root") => 0,
        Some(name) if name == state.user => 501,
        Some(name) => return writeln!(call.err, "sudo: unknown user {name}").map(|()| 1),
    };
    let Some(program) = options.command.first() else { return Ok(0) };
    match resolve(call.node, program, &call.cwd) {
        Resolved::Tool(..) | Resolved::Program(_) => {
            call.next = Some(Exec { argv: options.command, script: false, uid });
            Ok(0)
        }
        Resolved::Denied => writeln!(call.err, "sudo: unable to execute {program}: Permission denied").map(|()| 1),
        Resolved::Missing => writeln!(call.err, "sudo: {program}: command not found").map(|()| 1),
    }
}

fn parse(args: &[String]) -> Result<Options, String> {
    let mut options = Options {
        never_ask: false,
        from_stdin: false,
        prompt: "Password:".to_owned(),
        user: None,
        command: Vec::new(),
    };
    let mut args = args.iter();
    let mut forget = false;
    while let Some(arg) = args.next() {
        if arg == "--" {
            break;
        }
        let Some(letters) = arg.strip_prefix('-').filter(|l| !l.is_empty()) else {
            options.command.push(arg.clone());
            break;
        };
        let mut letters = letters.chars();
        while let Some(letter) = letters.next() {
            match letter {
                'n' => options.never_ask = true,
                'S' => options.from_stdin = true,
                'k' => forget = true,
                'H' | 'E' => {}
                'p' | 'u' => {
                    let rest: String = letters.by_ref().collect();
                    let value = if rest.is_empty() { args.next().cloned() } else { Some(rest) };
                    let value = value.ok_or(format!("sudo: option requires an argument -- '{letter}'\n{USAGE}"))?;
                    if letter == 'p' {
                        options.prompt = value;
                    } else {
                        options.user = Some(value);
                    }
                }
                other => return Err(format!("sudo: invalid option -- '{other}'\n{USAGE}")),
            }
        }
    }
    options.command.extend(args.cloned());
    if options.command.is_empty() && !forget { Err(USAGE.to_owned()) } else { Ok(options) }
}

const USAGE: &str =
    "usage: sudo -h | -K | -k | -V\nusage: sudo [-ABbEHknPS] [-p prompt] [-u user] [VAR=value] [command [arg ...]]";

/// Root and NOPASSWD pass. Everybody else is asked first, even who is not in the sudoers file.
fn permitted(call: &mut Call<'_>, options: &Options, state: &NodeState) -> io::Result<bool> {
    if call.uid == 0 || state.sudo == SudoPolicy::Nopasswd || options.command.is_empty() {
        return Ok(true);
    }
    if options.never_ask {
        writeln!(call.err, "sudo: a password is required")?;
        return Ok(false);
    }
    if !options.from_stdin {
        writeln!(
            call.err,
            "sudo: a terminal is required to read the password; either use the -S option to read from standard input or configure an askpass helper"
        )?;
        writeln!(call.err, "sudo: a password is required")?;
        return Ok(false);
    }
    let mut wrong = 0;
    while wrong < 3 {
        write!(call.err, "{}", options.prompt)?;
        let Some(line) = read_line(call.stdin)? else {
            if !options.prompt.is_empty() {
                writeln!(call.err)?;
            }
            writeln!(call.err, "sudo: no password was provided")?;
            if wrong == 0 {
                writeln!(call.err, "sudo: a password is required")?;
            } else {
                attempts(call, wrong)?;
            }
            return Ok(false);
        };
        if line == state.password {
            if state.sudo == SudoPolicy::NotAllowed {
                writeln!(call.err, "{} is not in the sudoers file.", state.user)?;
                return Ok(false);
            }
            return Ok(true);
        }
        wrong += 1;
        if wrong < 3 {
            writeln!(call.err, "Sorry, try again.")?;
        }
    }
    attempts(call, wrong)?;
    Ok(false)
}

fn attempts(call: &mut Call<'_>, wrong: u32) -> io::Result<()> {
    writeln!(call.err, "sudo: {wrong} incorrect password attempt{}", if wrong == 1 { "" } else { "s" })
}

/// Byte by byte: what follows the line belongs to the program. None at the end of input.
fn read_line(input: &mut dyn io::Read) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    let mut byte = [0];
    while input.read(&mut byte)? == 1 {
        if byte[0] == b'\n' {
            return Ok(Some(String::from_utf8_lossy(&line).into_owned()));
        }
        line.push(byte[0]);
    }
    Ok((!line.is_empty()).then(|| String::from_utf8_lossy(&line).into_owned()))
}
