//! The documents say what the code does.

use std::path::Path;

use macluster::exit::Exit;

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).expect(path)
}

#[test]
fn the_exit_code_table_is_complete() {
    let page = read("docs/exit-codes.md");
    let listed: Vec<u8> = page.lines().filter_map(|l| l.strip_prefix("| ")?.split(' ').next()?.parse().ok()).collect();
    let known: Vec<u8> = Exit::all().iter().map(|e| e.code()).collect();
    assert_eq!(listed, known);
}

#[test]
fn every_page_the_readme_names_exists() {
    let readme = read("README.md");
    let mut count = 0;
    for link in readme.split("](").skip(1).filter_map(|l| l.split(')').next()) {
        if !link.starts_with("http") {
            assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join(link).is_file(), "{link} does not exist");
            count += 1;
        }
    }
    assert!(count >= 6, "only {count} links were found");
}

#[test]
fn every_command_stands_in_the_readme() {
    let readme = read("README.md");
    let help = crate::support::macluster(Path::new("/"), &["--help"]).expect(0).stdout;
    let commands: Vec<&str> = help
        .lines()
        .skip_while(|l| !l.starts_with("Commands:"))
        .skip(1)
        .take_while(|l| !l.trim().is_empty())
        .filter_map(|l| l.split_whitespace().next())
        .filter(|c| *c != "help")
        .collect();
    assert!(commands.len() > 10, "{commands:?}");
    for command in commands {
        assert!(readme.contains(&format!("`{command}")), "README.md does not mention `{command}`");
    }
}

#[test]
fn completions_are_scripts_of_their_shell() {
    let dir = tempfile::tempdir().expect("a folder");
    let script = dir.path().join("macluster.bash");
    let ran = crate::support::macluster(dir.path(), &["completions", "bash"]).expect(0);
    std::fs::write(&script, ran.stdout).expect("written");
    // As readline asks: the words of the line, and the place of the one to complete.
    let ask = "source \"$1\"; COMP_WORDS=(macluster network ap); COMP_CWORD=2; _macluster macluster ap network; \
               printf '%s\\n' \"${COMPREPLY[@]}\"";
    let output = std::process::Command::new("bash").args(["-c", ask, "bash"]).arg(&script).output().expect("bash runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "apply\n", "{}", String::from_utf8_lossy(&output.stderr));
    for (shell, mark) in [("zsh", "#compdef macluster"), ("fish", "complete -c macluster")] {
        let ran = crate::support::macluster(dir.path(), &["completions", shell]).expect(0);
        assert!(ran.stdout.contains(mark) && ran.stdout.contains("--warn-only") || shell == "fish", "{shell}");
    }
    crate::support::macluster(dir.path(), &["completions", "ksh"]).expect(2);
}

#[test]
fn the_manual_has_a_page_for_every_command() {
    let dir = tempfile::tempdir().expect("a folder");
    let printed = crate::support::macluster(dir.path(), &["man"]).expect(0).stdout;
    crate::support::macluster(dir.path(), &["man", "--out", "pages"]).expect(0);
    assert_eq!(
        std::fs::read_to_string(dir.path().join("pages/macluster.1")).expect("a page"),
        printed.trim_end_matches('\n').to_owned() + "\n"
    );
    for name in ["doctor", "network-apply", "cabling-plan", "node-replace", "explain"] {
        let page = std::fs::read_to_string(dir.path().join(format!("pages/macluster-{name}.1"))).expect(name);
        assert!(page.contains(&format!(".TH macluster-{name} 1")) && page.contains(".SH OPTIONS"), "{page}");
        if !name.contains("cabling-") && !name.contains("apply") && !name.contains("replace") {
            assert!(printed.contains(&name.replace('-', "\\-")), "{name} is not on the first page");
        }
    }
    assert!(!dir.path().join("pages/macluster-agent.1").exists(), "the agent is no command for people");
}
