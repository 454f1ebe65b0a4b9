//! The inventory: what is accepted, and the exact words for what is not.

use macluster::parse::inventory;

#[test]
fn the_starter_is_a_valid_inventory() {
    let hosts = ["studio-1.local", "10.0.0.12", "studio-1.lan"].map(str::to_owned);
    let text = inventory::starter("studio-rack", &hosts, Some("admin"));
    let read = inventory::read(&text, None).expect("the starter is valid");
    let names: Vec<&str> = read.nodes.iter().map(|n| n.name.as_str()).collect();
    assert_eq!(names, ["studio-1", "node-2", "studio-1-2"]);
    assert_eq!(read.ssh.user.as_deref(), Some("admin"));
}
