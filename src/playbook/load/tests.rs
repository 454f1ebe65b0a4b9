use super::*;

const GOOD: &str = "\
playbook: network
title: T
steps:
  - id: up
    title: Up
    by: macluster
    for_each: down_interface
    run:
      - [/sbin/ifconfig, \"{interface}\", up]
    sudo: true
    risk: none
    timeout: 5
";

fn wrong(text: &str) -> String {
    Playbook::read("network", text, "x.yaml").expect_err("refused").to_string()
}

#[test]
fn a_step_becomes_commands() {
    let book = Playbook::read("network", GOOD, "x.yaml").expect("loads");
    let cmds = book.step("up").expect("there").commands(&Vars::new().with("interface", "en3")).expect("expands");
    let [cmd] = cmds.as_slice() else { panic!("{cmds:?}") };
    assert_eq!(cmd.display(), "sudo ifconfig en3 up");
    assert_eq!((cmd.program.as_str(), cmd.timeout), ("/sbin/ifconfig", Duration::from_secs(5)));
    assert_eq!(cmd.access, crate::model::Access::Write);
    assert!(book.step("up").expect("there").undo(&Vars::new()).expect("none").is_empty());
}

#[test]
fn every_mistake_has_a_place_and_a_way_out() {
    let cases = [
        ("by: macluster", "by: robot", "unknown variant"),
        ("sudo: true", "suod: true", "x.yaml:10:5: unknown field"),
        (
            "\"{interface}\"",
            "\"{iface}\"",
            "x.yaml:9:26: step `up`: unknown placeholder {iface}; this step may use {node}, {interface}",
        ),
        ("/sbin/ifconfig", "ifconfig", "x.yaml:9:10: step `up`: `ifconfig` must be the absolute path of a program"),
        ("[/sbin/ifconfig, \"{interface}\", up]", "[]", "step `up`: an empty command"),
        ("down_interface", "every_second_tuesday", "unknown variant"),
        ("    risk: none\n", "", "x.yaml:4:9: step `up`: a step that changes a node needs `risk`"),
        (
            "    risk: none\n",
            "    risk: none\n    verify: network.nonsense\n",
            "x.yaml:12:13: step `up`: `verify: network.nonsense` is no check",
        ),
        ("playbook: network", "playbook: netwrok", "x.yaml:1:11: `playbook: netwrok` must be the file's own name"),
        ("id: up", "id: Up!", "an id is made of"),
        ("    run:\n      - [/sbin/ifconfig, \"{interface}\", up]\n", "", "needs `run`"),
    ];
    for (from, to, expected) in cases {
        assert!(GOOD.contains(from), "{from}");
        let message = wrong(&GOOD.replace(from, to));
        assert!(message.contains(expected), "{to}: {message}");
        assert!(message.starts_with("x.yaml:"), "no place: {message}");
    }
    let twice = format!("{GOOD}{}", GOOD.split_once("steps:\n").expect("steps").1);
    assert!(wrong(&twice).contains("x.yaml:13:9: a second step `up`"), "{}", wrong(&twice));
}

#[test]
fn built_in_playbooks_are_the_files_of_the_folder() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("playbooks");
    let there: Vec<String> = files(&dir).expect("readable").into_iter().map(|(name, _)| name).collect();
    assert_eq!(there, BUILT_IN.iter().map(|(name, _)| (*name).to_owned()).collect::<Vec<_>>());
    let books = Playbooks::load(None).expect("built-in playbooks load");
    for book in books.all() {
        assert_eq!(book.sha256.len(), 64);
        assert!(!book.steps.is_empty(), "{}", book.name);
    }
}

#[test]
fn files_replace_file_by_file_and_must_keep_the_steps() {
    let dir = tempfile::tempdir().expect("a folder");
    let refuse = |name: &str, text: &str| {
        std::fs::write(dir.path().join(name), text).expect("written");
        let message = Playbooks::load(Some(dir.path())).expect_err("refused").to_string();
        std::fs::remove_file(dir.path().join(name)).expect("removed");
        message
    };
    assert!(refuse("nonsense.yaml", GOOD).contains("replaces no playbook; there are deploy.yaml, network.yaml"));
    assert!(refuse("network.yaml", GOOD).contains("has no step `make-folders`, which macluster needs"));
    assert!(refuse("notes.txt", "").contains("holds no *.yaml file"));
    let (_, built_in) = BUILT_IN.iter().find(|(name, _)| *name == "network").expect("built in");
    std::fs::write(dir.path().join("network.yaml"), built_in.replace("deletem", "removem")).expect("written");
    let books = Playbooks::load(Some(dir.path())).expect("loads");
    let book = books.book("network").expect("there");
    let vars = Vars::new().with("bridge", "bridge1").with("interface", "en3");
    let cmds = book.step("leave-bridge").expect("there").commands(&vars).expect("expands");
    assert_eq!(cmds.first().map(Cmd::display).as_deref(), Some("sudo ifconfig bridge1 removem en3"));
    assert_ne!(book.sha256, Playbooks::load(None).expect("loads").book("network").expect("there").sha256);
    assert_eq!(books.book("recovery").expect("there").file, "playbooks/recovery.yaml");
}
