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

#[test]
fn every_known_failure_is_accounted_for() {
    let page = read("docs/failures.md");
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter_map(|l| l.strip_prefix("| ")?.strip_suffix(" |"))
        .map(|l| l.split(" | ").collect::<Vec<_>>())
        .filter(|cells| cells[0] != "id")
        .collect();
    let ids: Vec<String> = rows.iter().map(|r| r[0].to_owned()).collect();
    let wanted: Vec<String> = [("A", 14), ("B", 13), ("C", 26), ("D", 6), ("E", 26), ("F", 17), ("G", 12), ("H", 14)]
        .iter()
        .flat_map(|(letter, count)| (1..=*count).map(move |n| format!("{letter}{n}")))
        .collect();
    assert_eq!((ids.len(), &ids), (128, &wanted));
    let checks: Vec<&str> = macluster::check::registry().iter().map(|c| c.id()).collect();
    for row in &rows {
        let [id, failure, how] = row.as_slice() else { panic!("{row:?}") };
        assert!(!failure.is_empty(), "{id}");
        let named: Vec<&str> = how.split("[`").skip(1).filter_map(|l| l.split('`').next()).collect();
        assert!(named.iter().all(|c| checks.contains(c)), "{id}: {named:?}");
        let claims = ["check: ", "product: ", "planned: ", "not detectable: "];
        assert!(claims.iter().any(|c| how.starts_with(c)), "{id}: {how}");
        assert!(!how.contains("check: ") || !named.is_empty(), "{id}: {how}");
        for text in how.split("macluster explain ").skip(1).filter_map(|t| t.split('`').next()) {
            assert!(macluster::check::explain::named(text).is_some(), "{id}: {text} is no text that explain knows");
        }
        for page in how.split("](").skip(1).filter_map(|l| l.split([')', '#']).next()) {
            assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(page).is_file(), "{id}: {page}");
        }
    }
    // A check that no failure explains is suspect.
    let used: Vec<&str> = page.split("[`").skip(1).filter_map(|l| l.split('`').next()).collect();
    let own = ["host.facts", "host.model-supported", "host.distinct", "cabling.foreign-peer", "cabling.self-loop"];
    let more = ["cabling.usb-only-port", "host.disk-space", "ssh.clock-skew", "network.forwarding"];
    let ours = ["runtime.ports-free", "runtime.certificates"];
    let unexplained: Vec<&&str> = checks
        .iter()
        .filter(|c| !used.contains(c) && !own.contains(c) && !more.contains(c) && !ours.contains(c))
        .collect();
    assert!(unexplained.is_empty(), "{unexplained:?}");
}
