//! Applies a configuration to one host.

use std::path::PathBuf;

use super::read::Line;
use super::{HostSettings, SshConfig, Strict, expand_home};
use crate::remote::pattern;

struct Walk<'a> {
    config: &'a SshConfig,
    host: &'a str,
    user: Option<&'a str>,
    /// Values as written; tokens are expanded at the end, when host name, port and user are known.
    out: HostSettings,
    raw_identities: Vec<String>,
    raw_host_name: Option<String>,
    raw_user_files: Option<Vec<String>>,
    raw_global_files: Option<Vec<String>>,
    proxy_decided: bool,
    identities_only: Option<bool>,
}

pub(super) fn resolve(config: &SshConfig, host: &str, user: Option<&str>) -> HostSettings {
    let mut walk = Walk {
        config,
        host,
        user,
        out: HostSettings::default(),
        raw_identities: Vec::new(),
        raw_host_name: None,
        raw_user_files: None,
        raw_global_files: None,
        proxy_decided: false,
        identities_only: None,
    };
    walk.lines(&config.lines, true);
    walk.lines(&config.system, true);
    walk.finish()
}

impl Walk<'_> {
    /// Walks the lines; a block that begins in an included file ends with it.
    fn lines(&mut self, lines: &[Line], outer: bool) {
        let mut active = outer;
        for line in lines {
            match line.keyword.as_str() {
                "host" => active = outer && pattern::any(line.args.iter().map(String::as_str), self.host),
                "match" => active = outer && self.matches(&line.args).unwrap_or(false),
                "include" if active => self.lines(&line.included, true),
                _ if active => self.keyword(line),
                _ => {}
            }
        }
    }

    /// `Match all`, `host`, `originalhost`, `user`, `localuser`, each possibly negated. None: not supported.
    fn matches(&self, args: &[String]) -> Option<bool> {
        let mut args = args.iter();
        let mut all = true;
        while let Some(word) = args.next() {
            let (negated, word) = match word.strip_prefix('!') {
                Some(rest) => (true, rest),
                None => (false, word.as_str()),
            };
            let (criterion, inline) = match word.split_once('=') {
                Some((criterion, value)) => (criterion, Some(value)),
                None => (word, None),
            };
            let subject = match criterion.to_ascii_lowercase().as_str() {
                "all" => {
                    all &= !negated;
                    continue;
                }
                "host" => self.raw_host_name.as_deref().map(|raw| self.host_name(raw)).unwrap_or(self.host.to_owned()),
                "originalhost" => self.host.to_owned(),
                "user" => self.user().to_owned(),
                "localuser" => self.config.local_user.clone(),
                _ => return None,
            };
            let patterns = inline.or_else(|| args.next().map(String::as_str))?;
            all &= pattern::any(patterns.split(','), &subject) != negated;
        }
        Some(all)
    }

    fn user(&self) -> &str {
        self.user.or(self.out.user.as_deref()).unwrap_or(&self.config.local_user)
    }

    fn keyword(&mut self, line: &Line) {
        let Some(first) = line.args.first() else {
            return;
        };
        let none = first.eq_ignore_ascii_case("none");
        let yes = ["yes", "true"].iter().any(|y| first.eq_ignore_ascii_case(y));
        match line.keyword.as_str() {
            "hostname" => {
                self.raw_host_name.get_or_insert_with(|| first.clone());
            }
            "user" => {
                self.out.user.get_or_insert_with(|| first.clone());
            }
            "port" if self.out.port.is_none() => self.out.port = first.parse().ok().filter(|p| *p != 0),
            "identityfile" if none => self.out.no_identities = true,
            "identityfile" if !self.raw_identities.contains(first) => self.raw_identities.push(first.clone()),
            "identitiesonly" => {
                self.identities_only.get_or_insert(yes);
            }
            "identityagent" => {
                self.out.identity_agent.get_or_insert_with(|| first.clone());
            }
            // Whichever of the two comes first decides; `none` decides too.
            "proxyjump" if !self.proxy_decided => {
                self.proxy_decided = true;
                self.out.proxy_jump = Some(first.clone()).filter(|_| !none);
            }
            "proxycommand" if !self.proxy_decided => {
                self.proxy_decided = true;
                self.out.proxy_command = Some(line.args.join(" ")).filter(|_| !none);
            }
            "userknownhostsfile" => {
                self.raw_user_files.get_or_insert_with(|| if none { Vec::new() } else { line.args.clone() });
            }
            "globalknownhostsfile" => {
                self.raw_global_files.get_or_insert_with(|| if none { Vec::new() } else { line.args.clone() });
            }
            "hostkeyalias" => {
                self.out.host_key_alias.get_or_insert_with(|| first.clone());
            }
            "stricthostkeychecking" if self.out.strict.is_none() => self.out.strict = strict(first),
            "hashknownhosts" => {
                self.out.hash_known_hosts.get_or_insert(yes);
            }
            // Everything else (ciphers, forwarding, multiplexing, …) is no business of ours.
            _ => {}
        }
    }

    fn host_name(&self, raw: &str) -> String {
        expand(raw, |token| (token == 'h').then(|| self.host.to_owned()))
    }

    fn finish(mut self) -> HostSettings {
        self.out.identities_only = self.identities_only.unwrap_or(false);
        self.out.host_name = self.raw_host_name.as_deref().map(|raw| self.host_name(raw));
        let host_name = self.out.host_name.clone().unwrap_or_else(|| self.host.to_owned());
        let token = |token: char| match token {
            'h' => Some(host_name.clone()),
            'n' => Some(self.host.to_owned()),
            'k' => Some(self.out.host_key_alias.clone().unwrap_or_else(|| self.host.to_owned())),
            'p' => Some(self.out.port.unwrap_or(22).to_string()),
            'r' => Some(self.user().to_owned()),
            'u' => Some(self.config.local_user.clone()),
            'd' => Some(self.config.home.to_string_lossy().into_owned()),
            _ => None,
        };
        let path = |raw: &String| -> PathBuf { expand_home(&expand(raw, token), &self.config.home) };
        let identity_files: Vec<PathBuf> = self.raw_identities.iter().map(path).collect();
        let user_known_hosts = self.raw_user_files.as_ref().map(|files| files.iter().map(path).collect());
        let global_known_hosts = self.raw_global_files.as_ref().map(|files| files.iter().map(path).collect());
        let agent = self.out.identity_agent.as_ref().map(|raw| {
            if let Some(name) = raw.strip_prefix('$') {
                let name = name.trim_start_matches('{').trim_end_matches('}');
                return std::env::var(name).unwrap_or_default();
            }
            path(raw).to_string_lossy().into_owned()
        });
        HostSettings { identity_files, user_known_hosts, global_known_hosts, identity_agent: agent, ..self.out }
    }
}

/// None: not understood. `no` lets ssh go on even with a changed key; here it only saves the question.
fn strict(word: &str) -> Option<Strict> {
    match word.to_ascii_lowercase().as_str() {
        "yes" | "true" => Some(Strict::Yes),
        "accept-new" | "no" | "false" | "off" => Some(Strict::AcceptNew),
        "ask" => Some(Strict::Ask),
        _ => None,
    }
}

/// What is written but not honoured, once per line, whatever the host.
pub(super) fn remarks(lines: &[Line], warnings: &mut Vec<String>) {
    for line in lines {
        let place = &line.place;
        match (line.keyword.as_str(), line.args.as_slice()) {
            ("match", args) => {
                // Values are words, too, but none of them stands where a criterion does.
                let mut args = args.iter();
                while let Some(word) = args.next() {
                    let word = word.trim_start_matches('!');
                    let criterion = word.split('=').next().unwrap_or(word).to_ascii_lowercase();
                    match criterion.as_str() {
                        "all" => {}
                        "host" | "originalhost" | "user" | "localuser" => {
                            if !word.contains('=') {
                                args.next();
                            }
                        }
                        other => {
                            let other = other.escape_debug();
                            warnings.push(format!("{place}: `Match {other}` is not evaluated; its block is left out"));
                            break;
                        }
                    }
                }
            }
            ("port", [port, ..]) if port.parse::<u16>().is_ok_and(|p| p != 0) => {}
            ("port", [port, ..]) => warnings.push(format!("{place}: `{}` is no port", port.escape_debug())),
            ("stricthostkeychecking", [word, ..]) if strict(word).is_none() => {
                let word = word.escape_debug();
                warnings
                    .push(format!("{place}: StrictHostKeyChecking `{word}` is none of yes, no, accept-new and ask"));
            }
            _ => remarks(&line.included, warnings),
        }
    }
}

/// Replaces `%x` and `${NAME}`; `%%` is a percent sign; unknown tokens and variables stay as written.
fn expand(raw: &str, token: impl Fn(char) -> Option<String>) -> String {
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.find(['%', '$']) {
        let (before, tail) = rest.split_at(at);
        out.push_str(before);
        let variable = tail.strip_prefix("${").and_then(|t| t.split_once('}'));
        if let Some((value, after)) = variable.and_then(|(name, after)| Some((std::env::var(name).ok()?, after))) {
            out.push_str(&value);
            rest = after;
            continue;
        }
        let mut chars = tail.chars();
        let sign = chars.next().unwrap_or_default();
        let replaced = if sign == '%' {
            chars.next().and_then(|c| if c == '%' { Some("%".to_owned()) } else { token(c) })
        } else {
            None
        };
        if let Some(text) = replaced {
            out.push_str(&text);
            rest = chars.as_str();
        } else {
            out.push(sign);
            rest = tail.get(sign.len_utf8()..).unwrap_or_default();
        }
    }
    out.push_str(rest);
    out
}
