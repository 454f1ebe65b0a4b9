//! `launchctl print system/LABEL` (samples/launchd/commands.md).

use super::words::nothing_found;
use crate::model::Fact;
use crate::model::network_facts::Job;

const TOOL: &str = "launchctl";

/// launchd does not have the job: status 113, and the same in words.
pub fn not_loaded(exit: Option<i32>, printed: &str) -> bool {
    exit == Some(113) || (exit != Some(0) && printed.contains("Could not find service"))
}

/// A loaded job. Blocks inside repeat its keys: only lines with exactly one leading tab are its own.
///
/// # Errors
/// Another shape, or another job.
pub fn print(label: &str, output: &str) -> Fact<Job> {
    let head = format!("system/{label} = {{");
    let own = output.lines().skip_while(|l| l.trim_end() != head).skip(1);
    let own = own.filter_map(|l| l.strip_prefix('\t').filter(|l| !l.starts_with(['\t', ' '])));
    let values: Vec<(&str, &str)> = own.filter_map(|l| l.split_once(" = ")).map(|(k, v)| (k, v.trim())).collect();
    let value = |key: &str| values.iter().find(|(k, _)| *k == key).map(|(_, v)| (*v).to_owned());
    let Some(state) = value("state") else {
        return Err(nothing_found(TOOL, &format!("`{head}` with a state"), output));
    };
    let signal = || value("last terminating signal").map(|s| format!("signal {s}"));
    Ok(Job {
        label: label.to_owned(),
        pid: value("pid").and_then(|p| p.parse().ok()),
        state,
        last_exit: value("last exit code").or_else(signal),
        path: value("path"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUNNING: &str = "system/com.example.a = {\n\tactive count = 1\n\tpath = /Library/LaunchDaemons/a.plist\n\
        \ttype = LaunchDaemon\n\tstate = running\n\n\tprogram = /bin/sh\n\tenvironment = {\n\t\tpid = 7\n\t\tX => }\n\t}\n\n\
        \truns = 1\n\tpid = 893\n\tlast exit code = (never exited)\n\n\tresource coalition = {\n\t\tstate = active\n\t}\n\
        \tjob state = running\n}\n";

    #[test]
    fn the_jobs_own_lines_count_and_not_those_of_its_blocks() {
        let job = print("com.example.a", RUNNING).expect("reads");
        assert_eq!((job.pid, job.state.as_str()), (Some(893), "running"));
        assert_eq!(job.last_exit.as_deref(), Some("(never exited)"));
        assert_eq!(job.path.as_deref(), Some("/Library/LaunchDaemons/a.plist"));
        let killed =
            RUNNING.replace("\tpid = 893\n\tlast exit code = (never exited)", "\tlast terminating signal = Killed: 9");
        let killed = print("com.example.a", &killed.replace("= running\n\n", "= not running\n\n")).expect("reads");
        assert_eq!((killed.pid, killed.last_exit.as_deref()), (None, Some("signal Killed: 9")));
    }

    #[test]
    fn another_job_or_another_shape_is_no_job() {
        assert!(print("com.example.b", RUNNING).is_err());
        assert!(print("com.example.a", "").is_err());
        assert!(print("com.example.a", "system/com.example.a = {\n\t\tstate = running\n}\n").is_err());
        let text = "Bad request.\nCould not find service \"com.example.a\" in domain for system\n";
        assert!(not_loaded(Some(113), text) && not_loaded(Some(3), text) && not_loaded(Some(113), ""));
        assert!(!not_loaded(Some(0), RUNNING) && !not_loaded(Some(5), "Input/output error") && !not_loaded(None, ""));
    }
}
