//! `launchctl print` and `list`, after samples/launchd.

use std::fmt::Write;

use super::job::{Job, Last};
use super::plan::KeepAlive;

/// `launchctl print system/LABEL`.
pub(super) fn service(job: &Job) -> String {
    let (plan, now) = (&job.plan, job.now());
    let mut t = String::new();
    let running = now.pid.is_some();
    let state = if running {
        "running"
    } else if now.scheduled {
        "spawn scheduled"
    } else {
        "not running"
    };
    let _ = writeln!(t, "system/{} = {{", plan.label);
    let _ = writeln!(t, "\tactive count = {}", u8::from(running));
    let _ = writeln!(t, "\tpath = {}", plan.path.display());
    let _ = writeln!(t, "\ttype = LaunchDaemon\n\tstate = {state}\n");
    let _ = writeln!(t, "\tprogram = {}\n\targuments = {{", plan.program);
    for argument in &plan.argv {
        let _ = writeln!(t, "\t\t{argument}");
    }
    let _ = writeln!(t, "\t}}\n");
    if let Some(folder) = &plan.folder {
        let _ = writeln!(t, "\tworking directory = {folder}\n");
    }
    for (what, path) in [("stdout", &plan.stdout), ("stderr", &plan.stderr)] {
        if let Some(path) = path {
            let _ = writeln!(t, "\t{what} path = {path}");
        }
    }
    let _ = writeln!(t, "\tdefault environment = {{\n\t\tPATH => /usr/bin:/bin:/usr/sbin:/sbin\n\t}}\n");
    let _ = writeln!(t, "\tenvironment = {{\n\t\tOSLogRateLimit => 64");
    for (name, value) in &plan.env {
        let _ = writeln!(t, "\t\t{name} => {value}");
    }
    let _ = writeln!(t, "\t\tXPC_SERVICE_NAME => {}\n\t}}\n", plan.label);
    let _ = writeln!(t, "\tdomain = system");
    if let Some(user) = &plan.user {
        let _ = writeln!(t, "\tusername = {user}");
        if let Some(group) = &plan.group {
            let _ = writeln!(t, "\tgroup = {group}");
        }
        let _ = writeln!(t);
    }
    let _ = writeln!(t, "\tminimum runtime = {}", plan.throttle.as_secs());
    let _ = writeln!(t, "\texit timeout = {}\n\truns = {}", plan.exit_timeout.as_secs(), now.runs);
    if let Some(pid) = now.pid {
        let _ = writeln!(t, "\tpid = {pid}\n\timmediate reason = speculative\n\tforks = 0\n\texecs = 1");
        let _ = writeln!(t, "\tinitialized = 1\n\ttrampolined = 1\n\tstarted suspended = 0");
        let _ = writeln!(t, "\tproxy started suspended = 0\n\tchecked allocations = 0 (queried = 1)");
        let _ = writeln!(t, "\tchecked allocations reason = no host\n\tchecked allocations flags = 0x0");
    }
    let _ = match now.last {
        Last::Never => writeln!(t, "\tlast exit code = (never exited)"),
        Last::Code(78) => writeln!(t, "\tlast exit code = 78: EX_CONFIG"),
        Last::Code(code) => writeln!(t, "\tlast exit code = {code}"),
        Last::Signal(number) => writeln!(t, "\tlast terminating signal = {}: {number}", signal_name(number)),
        Last::Spawn => writeln!(t, "\tlast exit reason = OS_REASON_EXEC\n\tlast exit code = 78: EX_CONFIG"),
    };
    for (id, what) in [(397, "resource"), (398, "jetsam")] {
        let (active, count) = if running { ("active", 1) } else { ("active", 0) };
        let _ = writeln!(t, "\n\t{what} coalition = {{\n\t\tID = {id}\n\t\ttype = {what}");
        let _ = writeln!(t, "\t\tstate = {active}\n\t\tactive count = {count}\n\t\tname = {}\n\t}}", plan.label);
    }
    let _ = writeln!(t, "\n\tspawn type = daemon (3)\n\tjetsam priority = 40");
    let _ = writeln!(t, "\tjetsam memory limit (active) = (unlimited)\n\tjetsam memory limit (inactive) = (unlimited)");
    let _ = writeln!(t, "\tjetsamproperties category = daemon\n\tjetsam thread limit = 32\n\tcpumon = default");
    if let Some(interval) = plan.interval {
        let _ = writeln!(t, "\trun interval = {} seconds", interval.as_secs());
    }
    let job_state = match (running, now.last) {
        (true, _) => "running",
        (false, Last::Never) => "uninitialized",
        (false, Last::Spawn) => "spawn failed",
        _ => "exited",
    };
    let _ = writeln!(t, "\tjob state = {job_state}\n\tsanitizer flags = 0x0\n");
    let mut properties = Vec::new();
    if plan.keep_alive != KeepAlive::No {
        properties.push("keepalive");
    }
    if plan.run_at_load {
        properties.push("runatload");
    }
    properties.extend(["inferred program", "managed LWCR"]);
    let _ = writeln!(t, "\tproperties = {}\n}}", properties.join(" | "));
    t
}

/// A row of `launchctl list`: status is the exit code, or the signal's number with a minus.
pub(super) fn row(job: &Job) -> String {
    let now = job.now();
    let pid = now.pid.map_or("-".to_owned(), |p| p.to_string());
    let status = match now.last {
        Last::Never => 0,
        Last::Code(code) => code,
        Last::Signal(number) => -number,
        Last::Spawn => 78,
    };
    format!("{pid}\t{status}\t{}\n", job.plan.label)
}

/// `launchctl list LABEL`; `LastExitStatus` is the raw wait status.
pub(super) fn dictionary(job: &Job) -> String {
    let (plan, now) = (&job.plan, job.now());
    let mut t = String::from("{\n");
    if let Some(path) = &plan.stdout {
        let _ = writeln!(t, "\t\"StandardOutPath\" = \"{path}\";");
    }
    let _ = writeln!(t, "\t\"LimitLoadToSessionType\" = \"System\";");
    if let Some(path) = &plan.stderr {
        let _ = writeln!(t, "\t\"StandardErrorPath\" = \"{path}\";");
    }
    let _ = writeln!(t, "\t\"Label\" = \"{}\";", plan.label);
    let _ = writeln!(t, "\t\"OnDemand\" = {};", plan.keep_alive == KeepAlive::No);
    let raw = match now.last {
        Last::Never => 0,
        Last::Code(code) => code << 8,
        Last::Signal(number) => number,
        Last::Spawn => 78 << 8,
    };
    let _ = writeln!(t, "\t\"LastExitStatus\" = {raw};");
    if let Some(pid) = now.pid {
        let _ = writeln!(t, "\t\"PID\" = {pid};");
    }
    let _ = writeln!(t, "\t\"Program\" = \"{}\";\n\t\"ProgramArguments\" = (", plan.program);
    for argument in &plan.argv {
        let _ = writeln!(t, "\t\t\"{argument}\";");
    }
    t + "\t);\n};\n"
}

fn signal_name(number: i32) -> &'static str {
    match number {
        1 => "Hangup",
        2 => "Interrupt",
        6 => "Abort trap",
        9 => "Killed",
        11 => "Segmentation fault",
        13 => "Broken pipe",
        15 => "Terminated",
        _ => "Unknown signal",
    }
}
