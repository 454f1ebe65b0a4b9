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
