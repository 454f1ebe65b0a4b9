//! What is set is shown: the state behind the tools.

use super::rack;
use crate::support::ssh::Client;
use macluster::sim::Fault;

#[tokio::test]
async fn a_link_comes_up_step_by_step() {
    let rack = rack().start().await.expect("a rack");
    let one = Client::connect(&rack, &rack.nodes[0]).await;
    let two = Client::connect(&rack, &rack.nodes[1]).await;
    // Out of the box: a bridge member, no address, no IPv4 GID; RDMA itself is on.
    let block = one.exec("ifconfig en3").await.expect(0).stdout;
    assert!(
        block.starts_with("en3: flags=8963<UP,BROADCAST,SMART,RUNNING,PROMISC,SIMPLEX,MULTICAST> mtu 1500\n"),
        "{block}"
    );
    assert!(!block.contains("inet") && !block.contains("nd6"), "{block}");
    let rdma = one.exec("ibv_devinfo -v -d rdma_en3").await.expect(0).stdout;
    assert!(rdma.contains("PORT_ACTIVE (4)") && !rdma.contains("::ffff"), "{rdma}");

    // Not root: refused, nothing changed.
    one.exec("ifconfig bridge0 deletem en3").await.expect(1);
    assert!(one.exec("ifconfig bridge0").await.stdout.contains("member: en3 "));

    for (client, address) in [(&one, "10.254.0.1"), (&two, "10.254.0.2")] {
        client.exec("sudo -n ifconfig bridge0 deletem en3").await.expect(0);
        let block = client.exec("ifconfig en3").await.expect(0).stdout;
        assert!(block.starts_with("en3: flags=8822<"), "left the bridge and stayed up: {block}");
        assert!(block.ends_with("status: inactive\n"), "{block}");
        client.exec("sudo -n ifconfig en3 up").await.expect(0);
        client.exec(&format!("sudo -n ifconfig en3 inet {address} netmask 255.255.255.252")).await.expect(0);
    }
    let block = one.exec("ifconfig en3").await.expect(0).stdout;
    assert!(block.contains("\tinet 10.254.0.1 netmask 0xfffffffc broadcast 10.254.0.3\n"), "{block}");
    assert!(block.ends_with("status: active\n"), "{block}");
    let rdma = one.exec("ibv_devinfo -v -d rdma_en3").await.expect(0).stdout;
    assert!(rdma.contains("GID[  1]:\t\t::ffff:10.254.0.1\n"), "{rdma}");
    let routes = one.exec("netstat -rn -f inet").await.expect(0).stdout;
    assert!(routes.contains("10.254/30          link#18            UCS                   en3      !\n"), "{routes}");

    one.exec("ping -c 1 -b en3 10.254.0.2").await.expect(0);
    one.exec("ping -c 1 -W 10 -b en4 10.254.0.2").await.expect(2);
    one.exec("sudo -n ifconfig en3 inet 10.254.0.1 delete").await.expect(0);
    one.exec("ping -c 1 -W 10 10.254.0.2").await.expect(2);
    let again = one.exec("sudo -n ifconfig en3 inet 10.254.0.1 delete").await.expect(1);
    assert_eq!(again.stderr, "ifconfig: ioctl (SIOCDIFADDR): Can't assign requested address\n");
    assert_eq!(rack.tripwire(), "");
    rack.stop().await.expect("stops");
}

#[tokio::test]
async fn a_port_is_active_only_when_both_ends_have_rdma() {
    let rack = rack().nodes(2).fault(Fault::RdmaOff).start().await.expect("a rack");
    let one = Client::connect(&rack, &rack.nodes[0]).await;
    let two = Client::connect(&rack, &rack.nodes[1]).await;
    assert!(!one.exec("ibv_devinfo").await.expect(0).stdout.contains("PORT_ACTIVE"));
    assert_eq!(two.exec("rdma_ctl status").await.expect(0).stdout, "disabled\n");
    assert_eq!(two.exec("ibv_devices").await.expect(0).stdout.lines().count(), 2);
    two.exec("sudo -n rdma_ctl enable").await.expect(77);
    // The peer sees it in the services, too.
    let seen = one.exec("system_profiler SPThunderboltDataType -json").await.expect(0).json();
    assert!(!seen.to_string().contains("64087"), "{seen}");
    rack.stop().await.expect("stops");
}

#[tokio::test]
async fn sudo_asks_as_the_node_says() {
    let rack = rack().nodes(1).fault(Fault::SudoPassword).start().await.expect("a rack");
    let client = Client::connect(&rack, &rack.nodes[0]).await;
    let ran = client.exec("sudo -n true").await.expect(1);
    assert_eq!(ran.stderr, "sudo: a password is required\n");
    let ran = client.exec_with("sudo -S -k -p '' -- id -u", b"correct horse\n").await.expect(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("0\n", ""));
    let ran = client.exec_with("sudo -S true", b"wrong\n").await.expect(1);
    assert_eq!(
        ran.stderr,
        "Password:Sorry, try again.\nPassword:\nsudo: no password was provided\nsudo: 1 incorrect password attempt\n"
    );
    let ran = client.exec("sudo true").await.expect(1);
    assert!(ran.stderr.starts_with("sudo: a terminal is required"), "{}", ran.stderr);
    rack.stop().await.expect("stops");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prepared_rack_is_what_apply_would_make_of_it() {
    for nodes in [3, 5] {
        let rack = rack().nodes(nodes).prepared(true).start().await.expect("a rack");
        let file = rack.inventory.display().to_string();
        let dir = rack.dir.clone();
        let work = move || crate::support::macluster(&dir, &["-f", &file, "network", "plan", "--detailed-exitcode"]);
        tokio::task::spawn_blocking(work).await.expect("it runs").expect(0);
        rack.stop().await.expect("stops");
    }
}
