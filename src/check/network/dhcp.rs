//! Network services that ask for an address on a link: nobody answers there, and the self-assigned address that follows
//! changes with every event of the link (FAILURES C7).

use super::super::Context;
use super::super::judge::Purpose;
use super::super::say::{About, Say, Trouble, at_machine, needs, unknown};
use super::{all_named, each, link_ends};
use crate::model::NodeName;
use crate::model::facts::NodeFacts;
use crate::model::network_facts::{EXO_JOB, Method, Service};
use crate::network::desired;

/// The services that ask by DHCP on this interface.
pub(super) fn asking<'a>(facts: &'a NodeFacts, interface: &'a str) -> impl Iterator<Item = &'a Service> {
    let services = facts.network.services.iter().flatten();
    services.filter(move |s| s.enabled && s.device == interface && s.method == Some(Ok(Method::Dhcp)))
}

pub(super) fn dhcp_on_link(ctx: &Context<'_>, say: &mut Say) {
    each::node(ctx, say, |node, facts, say| {
        let about = About::Node(node);
        let services = facts.network.services.as_ref().map_err(unknown)?;
        facts.hardware_ports.as_ref().map_err(unknown)?;
        let own = link_ends(ctx, node);
        let mut quiet = true;
        for service in services.iter().filter(|s| s.enabled && own.contains(&s.device.as_str())) {
            match &service.method {
                Some(Ok(Method::Dhcp)) => {
                    quiet = false;
                    if matches!(facts.network.job(EXO_JOB), Ok(Some(_))) {
                        // It is exo's daemon that sets it, and sets it again.
                        say.skip(about, needs("network.foreign-daemon", node));
                    } else {
                        say.trouble(Purpose::of(ctx.inventory).for_links(), about, asks(ctx, node, service));
                    }
                }
                Some(Ok(_)) => {}
                other => {
                    quiet = false;
                    let why = match other {
                        Some(Err(error)) => unknown(error),
                        _ => format!("not checked: networksetup was not asked about {:?}", service.name),
                    };
                    say.skip(about, why);
                }
            }
        }
        if quiet {
            all_named(ctx, node)?;
            say.pass(about, format!("no network service asks for an address on a link of {}", ctx.label(node)));
        }
        Ok(())
    });
}

fn asks(ctx: &Context<'_>, node: &NodeName, service: &Service) -> Trouble {
    let (name, device, label) = (&service.name, &service.device, ctx.label(node));
    let wanted = desired(ctx.inventory, ctx.snapshot, ctx.graph);
    let end = wanted.of(node).find(|(_, own, _)| own.interface == *device);
    let manually = match end {
        Some((network, own, _)) => {
            format!("Manually, IP address {}, subnet mask {}, no router", own.address, network.network.netmask())
        }
        None => "Off".to_owned(),
    };
    Trouble {
        message: format!(
            "the network service {name:?} of {label} asks for an address on {device} by DHCP: nobody answers on a link, \
             and the self-assigned address that follows replaces the link's in the GID table"
        ),
        observed: format!("{name:?} on {device}: DHCP"),
        expected: "no service with DHCP on the interface of a link".to_owned(),
        remedy: at_machine([
            format!("at {label}: System Settings, Network, {name:?}, Details, TCP/IP, Configure IPv4: {manually}"),
            "run `macluster network apply`, then `macluster doctor` again".to_owned(),
        ]),
    }
}
