//! A default route over Thunderbolt: the Mac's own traffic goes into a cable that leads to no router (FAILURES C4).

use super::super::Context;
use super::super::say::{About, Say, Trouble, at_machine, unknown};
use crate::model::Verdict;
use crate::network::{default_over_thunderbolt, thunderbolt_interfaces};

pub(super) fn default_route(ctx: &Context<'_>, say: &mut Say) {
    for node in ctx.nodes() {
        let Some(facts) = ctx.facts_or_skip(node, say) else { continue };
        let about = About::Node(node);
        let label = ctx.label(node);
        let missing = [
            facts.routes.as_ref().err(),
            facts.interfaces.as_ref().err(),
            facts.hardware_ports.as_ref().err(),
            facts.receptacles.as_ref().err(),
        ];
        if let Some(error) = missing.into_iter().flatten().next() {
            say.skip(about, unknown(error));
            continue;
        }
        let Some(over) = default_over_thunderbolt(facts) else {
            if thunderbolt_interfaces(facts).is_none() {
                say.skip(about, format!("not checked: which interfaces of {label} are Thunderbolt's is not known"));
            } else {
                say.pass(about, format!("no default route of {label} leaves by Thunderbolt"));
            }
            continue;
        };
        let service = facts.network.services.iter().flatten().find(|s| s.device == over);
        let name = service.map_or_else(|| format!("the service on {over}"), |s| format!("{:?}", s.name));
        say.trouble(
            Verdict::Fail,
            about,
            Trouble {
                message: format!(
                    "the default route of {label} leaves by {over}, which is Thunderbolt: its own traffic goes there"
                ),
                observed: format!("default route by {over}"),
                expected: "a default route by Ethernet or Wi-Fi, or none".to_owned(),
                remedy: at_machine([
                    format!("at {label}: System Settings, Network, {name}, Details, TCP/IP: remove the router"),
                    "in the list of services, Set Service Order: Ethernet first".to_owned(),
                    "run `macluster doctor` again".to_owned(),
                ]),
            },
        );
    }
}
