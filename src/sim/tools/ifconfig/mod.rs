//! `ifconfig`: what it prints (`show`) and what it changes (`change`). Shapes: samples/ifconfig; texts of refusals
//! that no sample shows follow `network_cmds`' source and are marked where they are made.

use std::io;

use super::Call;
use crate::sim::world::World;

mod change;
mod show;

pub(super) fn run(call: &mut Call<'_>) -> io::Result<i32> {
    let mut words: Vec<&str> = call.args.iter().map(String::as_str).collect();
    let mut names_only = false;
    while let Some(flag) = words.first().filter(|w| w.starts_with('-')) {
        match *flag {
            "-a" => {}
            "-l" => names_only = true,
            other => {
                writeln!(call.err, "ifconfig: illegal option -- {}", other.trim_start_matches('-'))?;
                return usage(call);
            }
        }
        words.remove(0);
    }
    let world = World::load(call.node)?;
    let state = world.node(&call.node.name)?;
    if names_only {
        let names: Vec<&str> = state.interfaces.iter().map(|i| i.name.as_str()).collect();
        return writeln!(call.out, "{}", names.join(" ")).map(|()| 0);
    }
    let Some((name, rest)) = words.split_first() else {
        for interface in &state.interfaces {
            show::block(call.out, &world, state, interface, None)?;
        }
        return Ok(0);
    };
    let Some(interface) = state.interface(name) else {
        return writeln!(call.err, "ifconfig: interface {name} does not exist").map(|()| 1);
    };
    match rest {
        [] => show::block(call.out, &world, state, interface, None).map(|()| 0),
        [family @ ("inet" | "inet6")] => show::block(call.out, &world, state, interface, Some(family)).map(|()| 0),
        _ => {
            call.pause(state.quirks.ifconfig_delay_ms);
            let (name, rest) = ((*name).to_owned(), rest.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>());
            change::run(call, &name, &rest)
        }
    }
}

/// The first lines of the usage text (`network_cmds`' source); status `EX_USAGE` is not used there.
fn usage(call: &mut Call<'_>) -> io::Result<i32> {
    call.err.write_all(
        b"usage: ifconfig interface address_family [address [dest_address]]\n                [parameters]\n       ifconfig interface create\n       ifconfig -a [-d] [-m] [-u] [-v] [address_family]\n       ifconfig -l [-d] [-u] [address_family]\n       ifconfig [-d] [-m] [-u] [-v]\n",
    )?;
    Ok(1)
}
